"""A page about a training run: curves of the loss, of the rate and of the dev figures, from its log."""

import html
import json
from pathlib import Path
from typing import Any

from mundap.charts import PAGE_STYLE, line_chart
from mundap.disk import write_atomic
from mundap.training import log

_SMOOTH = 20  # steps averaged into a point of the loss


def write_report(folder: Path) -> Path:
    """Write `report.html` beside the log of a run."""
    rows = [json.loads(line) for line in (folder / log.NAME).read_text("utf-8").splitlines()]
    steps = [row for row in rows if "loss" in row]
    dev = [row for row in rows if "dev" in row]
    parts = [f"<h1>{html.escape(folder.name)}</h1>", f"<p class=dim>{len(steps):,} steps.</p>"]
    if steps:
        smooth = max(1, min(_SMOOTH, len(steps) // 20))
        for title, key in (("Loss", "loss"), ("Rank of the positive in its batch", "rank"), ("Learning rate", "rate")):
            points = _smoothed([(row["step"], row[key]) for row in steps], smooth if key != "rate" else 1)
            parts.append(f"<h2>{title}</h2>{line_chart({key: points}, 'step')}")
        ages = [(row["step"], row["stale"]) for row in steps if "stale" in row]
        if ages:
            parts.append(f"<h2>Age of the negatives, in batches</h2>{line_chart({'age': ages}, 'step')}")
    for name in dev[0]["dev"]["all"] if dev else ():
        curves = {label: [(row["step"], row["dev"][label][name]) for row in dev] for label in dev[0]["dev"]}
        parts.append(f"<h2>Dev: {name}</h2>{line_chart(curves, 'step')}")
    for row in rows:
        if "mean" in row:
            cells = ", ".join(f"{name} {value:.2f}" for name, value in row["mean"]["all"].items())
            parts.append(f"<h2>Dev: the mean of the last steps' weights</h2><p>{cells}</p>")
    recipe = (folder / "recipe.toml").read_text("utf-8")
    parts.append(f"<h2>Recipe</h2><pre>{html.escape(recipe)}</pre>")
    page = (
        "<!doctype html><html><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{html.escape(folder.name)}</title><style>{PAGE_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )
    write_atomic(folder / "report.html", page.encode("utf-8", "replace"))
    return folder / "report.html"


def _smoothed(points: list[tuple[int, Any]], size: int) -> list[tuple[int, float]]:
    groups = (points[start : start + size] for start in range(0, len(points), size))
    return [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]
