"""The HTML page of every report: one file without external resources."""

import html
from collections.abc import Iterable
from pathlib import Path

from mundap.disk import disk_errors, write_atomic

_STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
small, .dim { opacity: .7; } .sure { font-weight: 600; }
svg { width: 100%; height: auto; font: 12px system-ui, sans-serif; fill: currentColor; }
details { border-bottom: 1px solid var(--line); padding: .35rem 0; } summary { cursor: pointer; }
.passage { margin: .5rem 0 .5rem 1.2rem; padding-left: .8rem; border-left: 3px solid var(--line); }
.chip { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em; }
.wide { overflow-x: auto; } .wide td:first-child, .wide small { white-space: nowrap; }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """A whole page.

    Args:
        title: Plain text; shown in the browser's tab. A heading is one of the parts.
        parts: The body as HTML, whatever came from outside already escaped.
    """
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def write_page(path: Path, title: str, parts: Iterable[str]) -> Path:
    """Write a page, and the folder it is in if that is not there. Returns the path."""
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, page(title, parts).encode("utf-8", "replace"))
    return path
