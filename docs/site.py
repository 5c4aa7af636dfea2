"""Hooks of the documentation site: pages from outside docs/, links into the source, and no outside requests."""

import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).parent.parent

ELSEWHERE = {
    "README.md": "index.md",
    "README.ko.md": "korean.md",
    "benchmarks/README.md": "benchmarks.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "src/mundap/weights/retriever/README.md": "retriever.md",
    "src/mundap/weights/reader/README.md": "reader.md",
}
"""Files of the repository that are pages of the site too, and what they are called there."""

_LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]*)(#[^)\s]*)?\)")
_LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
_LINKED = ("stylesheet", "preconnect", "icon", "preload", "dns-prefetch", "manifest")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages from outside docs/."""
    for source, name in ELSEWHERE.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links at the pages of the site; what is no page, such as a source file, becomes its name."""
    name = page.file.src_uri
    source = next((path for path, title in ELSEWHERE.items() if title == name), f"docs/{name}")
    folder = posixpath.dirname(source)

    def link(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        if not target or "://" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        if path in ELSEWHERE:
            return f"[{text}]({ELSEWHERE[path]}{anchor})"
        if path.startswith("docs/") and path.endswith(".md"):
            return f"[{text}]({path.removeprefix('docs/')}{anchor})"
        if not (ROOT / path).exists():
            raise PluginError(f"{source}: a link to {target}, which is not there")
        return text

    # A page of the cards begins with facts for a model hub, which are no text.
    return _LINK.sub(link, re.sub(r"\A---\n.*?\n---\n", "", markdown, flags=re.DOTALL))


def on_post_build(config: Any) -> None:
    """Fail if a page loads anything from outside."""
    site = Path(config["site_dir"])
    for path in sorted(site.rglob("*.html")):
        parser = _Requests()
        parser.feed(path.read_text("utf-8"))
        if parser.outside:
            raise PluginError(f"{path.relative_to(site)} loads {', '.join(parser.outside)}")
    for path in sorted(site.rglob("*.css")):
        found = re.findall(r"(?:@import\s*[\"']|url\([\"']?)(https?:[^\"')]*)", path.read_text("utf-8"))
        if found:
            raise PluginError(f"{path.relative_to(site)} loads {', '.join(found)}")


class _Requests(HTMLParser):
    """Collects what a page loads from other hosts when it is opened. Links that one clicks are not among it."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at one tag."""
        found = dict(attrs)
        address = found.get(_LOADING.get(tag, ""))
        if tag == "link" and any(kind in (found.get("rel") or "") for kind in _LINKED):
            address = found.get("href")
        if address and re.match(r"(https?:)?//", address):
            self.outside.append(address)
