"""What the pages of all experiments are made of."""

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mundap.charts import PAGE_STYLE
from mundap.reproduce.figures import SURE

Column = tuple[str, str]
"""A task and a figure of it."""


def whole(title: str, parts: Iterable[str]) -> str:
    """The page, which loads nothing from anywhere."""
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{html.escape(title)}</title><style>{PAGE_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def table(arms: Mapping[str, Any], what: str, columns: Sequence[Column]) -> str:
    """Every arm with some of its figures: means with their intervals."""
    head = "".join(f"<th>{figure.replace('_', ' ')}</th>" for _, figure in columns)
    rows = []
    for arm, figures in arms.items():
        cells = "".join(f"<td>{_cell(figures[kind][figure], figure)}</td>" for kind, figure in columns)
        rows.append(f"<tr><td>{html.escape(arm)}</td>{cells}</tr>")
    return f"<table><tr><th>{html.escape(what)}</th>{head}</tr>{''.join(rows)}</table>"


def _cell(value: Mapping[str, Any], figure: str) -> str:
    digits = 3 if figure == "mrr10" else 1
    spread = f" <small>± {value['half_width']:.{digits}f}</small>" if "half_width" in value else ""
    return f"{value['mean']:.{digits}f}{spread}"


def differences(against: Mapping[str, Any], columns: Sequence[Column]) -> str:
    """One arm less each of the others."""
    head = "".join(f"<th>{kind} {figure.replace('_', ' ')}</th>" for kind, figure in columns)
    rows = []
    for arm, found in against.items():
        cells = []
        for kind, figure in columns:
            one = found[kind][figure]
            low, high = one["interval_95"]
            sure = " class=sure" if one["p_holm"] < SURE else ""
            span = f"[{low:+.3g}, {high:+.3g}] p {one['p_holm']:.2g}"
            cells.append(f"<td{sure}>{one['difference']:+.3g} <small>{span}</small></td>")
        rows.append(f"<tr><td>{html.escape(arm)}</td>{''.join(cells)}</tr>")
    return f"<table><tr><th>less</th>{head}</tr>{''.join(rows)}</table>"
