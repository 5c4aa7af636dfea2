"""The report of a training run: curves of the loss, the learning rate and the dev figures, from its log."""

import html
import json
from pathlib import Path
from typing import Any

from mundap.charts import line_chart
from mundap.pages import write_page
from mundap.training import log

_SMOOTH = 20  # steps averaged into a point of the loss


def write_report(folder: Path) -> Path:
    """Write `report.html` beside the log of a run."""
    rows = [json.loads(line) for line in (folder / log.NAME).read_text("utf-8").splitlines()]
    steps = [row for row in rows if "loss" in row]
    parts = [f"<h1>{html.escape(folder.name)}</h1>", f"<p class=dim>{len(steps):,} steps.</p>"]
    if steps:
        parts += _step_curves(steps)
    parts += _dev_curves([row for row in rows if "dev" in row])
    for row in rows:
        if "average" in row:
            cells = ", ".join(f"{name} {value:.2f}" for name, value in row["average"]["all"].items())
            parts.append(f"<h2>Dev: the average of the last steps' weights</h2><p>{cells}</p>")
    recipe = (folder / "recipe.toml").read_text("utf-8")
    parts.append(f"<h2>Recipe</h2><pre>{html.escape(recipe)}</pre>")
    return write_page(folder / "report.html", folder.name, parts)


def _step_curves(steps: list[dict[str, Any]]) -> list[str]:
    smooth = max(1, min(_SMOOTH, len(steps) // 20))
    parts = []
    for title, key, size in (
        ("Loss", "loss", smooth),
        ("Rank of the positive in its batch", "rank", smooth),
        ("Learning rate", "learning_rate", 1),
    ):
        points = _smoothed([(row["step"], row[key]) for row in steps], size)
        parts.append(f"<h2>{title}</h2>{line_chart({key: points}, 'step')}")
    ages = [(row["step"], row["negatives_age"]) for row in steps if "negatives_age" in row]
    if ages:
        parts.append(f"<h2>Age of the negatives, in batches</h2>{line_chart({'age': ages}, 'step')}")
    return parts


def _dev_curves(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    parts = []
    labels = rows[0]["dev"]
    for name in labels["all"]:
        curves = {}
        for label in labels:
            curves[label] = [(row["step"], row["dev"][label][name]) for row in rows]
        parts.append(f"<h2>Dev: {name}</h2>{line_chart(curves, 'step')}")
    return parts


def _smoothed(points: list[tuple[int, Any]], size: int) -> list[tuple[int, float]]:
    smoothed = []
    for start in range(0, len(points), size):
        group = points[start : start + size]
        smoothed.append((group[-1][0], sum(value for _, value in group) / len(group)))
    return smoothed
