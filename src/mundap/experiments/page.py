"""The report of an experiment: HTML with plots, and Markdown."""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mundap.charts import interval_chart, line_chart
from mundap.pages import write_page

if TYPE_CHECKING:
    from mundap.experiments.frame import Column, Extra, Plan

SURE = 0.05
"""A difference with a lower p counts as significant."""
_LEGEND = (
    "Mean over the seeds ± half of the 95 % interval (Student's t). In brackets the paper's figure, on the paper's "
    "data and at its size. Rows in italics are quoted."
)
_TESTS = (
    "Differences are paired over questions, their values averaged over the seeds: 95 % interval by bootstrap, p by a "
    "randomisation test with Holm's correction for the number of claims."
)


def write(path: Path, plan: "Plan", found: Mapping[str, Any], extra: "Extra", recipes: Mapping[str, str]) -> None:
    """Write the page of an experiment."""
    parts = [
        f"<h1>{html.escape(plan.title)}</h1>",
        f"<p>{html.escape(plan.source)}. {html.escape(_setting(found))}</p>",
        f"<p class=dim>{html.escape(plan.caution)}</p>",
    ]
    if found["claims"]:
        parts.append(f"<h2>What the paper says, and what we find</h2>{_claims(found['claims'])}")
    parts.append(f"<h2>Figures</h2><div class=wide>{_table(plan.columns, found)}</div><p class=dim>{_LEGEND}</p>")
    parts += _intervals(plan, found)
    if plan.curve:
        parts.append(f"<h2>{html.escape(plan.columns[0].title)}</h2>{_curves(plan, found)}")
    parts += extra.html
    for name, text in recipes.items():
        parts.append(f"<details><summary>Recipe: {html.escape(name)}</summary><pre>{html.escape(text)}</pre></details>")
    write_page(path, plan.title, parts)


def _setting(found: Mapping[str, Any]) -> str:
    """The size of an experiment in a sentence."""
    facts = found["setting"]
    train, test = facts["training_questions"], facts["test_questions"]
    sets = "; ".join(f"{name}: {train[name]:,} training, {test[name]:,} held-out questions" for name in train)
    return (
        f"{facts['passages']:,} passages of {facts['passage_length']} tokens; {sets}; {facts['layers']} layers of "
        f"{facts['base_model']}, the upper {facts['new_layers']} initialised anew; {facts['steps']} steps of "
        f"{facts['batch_size']} questions in {facts['precision']}; {found['seeds']} seeds; {found['cpu_seconds']:,.0f} "
        "seconds of processor time."
    )


def _table(columns: "Sequence[Column]", found: Mapping[str, Any]) -> str:
    head = "".join(f"<th>{html.escape(column.title)}</th>" for column in columns)
    rows = []
    for arm, figures in found["arms"].items():
        cells = "".join(
            f"<td>{_cell(figures.get(column.name), column, '<small>{}</small>')}</td>" for column in columns
        )
        rows.append(f"<tr><td>{html.escape(arm)}</td>{cells}</tr>")
    for one in found["quoted"]:
        cells = "".join(f"<td><i>{_number(one['paper'].get(column.name), column)}</i></td>" for column in columns)
        rows.append(
            f"<tr><td><i>{html.escape(one['name'])}</i><br><small>{html.escape(one['source'])}</small></td>{cells}</tr>"
        )
    return f"<table><tr><th></th>{head}</tr>{''.join(rows)}</table>"


def _cell(value: Mapping[str, Any] | None, column: "Column", aside: str = "{}") -> str:
    """The mean, its interval and the paper's figure; `aside` is how the two are set."""
    if value is None:
        return ""
    parts = [_number(value.get("mean"), column)]
    if "half_width" in value:
        parts.append(aside.format(f"± {_number(value['half_width'], column)}"))
    if "paper" in value:
        parts.append(aside.format(f"[{_number(value['paper'], column)}]"))
    return " ".join(parts).strip()


def _number(value: float | None, column: "Column") -> str:
    if value is None:
        return ""
    return f"{value:.{column.digits}f}"


def _claims(claims: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for one in claims:
        low, high = one["interval_95"]
        sure = ""
        if one["p_holm"] < SURE:
            sure = " class=sure"
        rows.append(
            f"<tr><td>{html.escape(one['claim'])}</td><td{sure}>{one['verdict']}</td>"
            f"<td>{one['difference']:+.3g} <small>[{low:+.3g}, {high:+.3g}] p {one['p_holm']:.2g}</small></td></tr>"
        )
    head = "<tr><th>claim</th><th>here it</th><th>difference</th></tr>"
    return f"<div class=wide><table>{head}{''.join(rows)}</table></div><p class=dim>{_TESTS}</p>"


def _intervals(plan: "Plan", found: Mapping[str, Any]) -> list[str]:
    """A chart of each figure that a claim is about; if there are no claims, of the first."""
    claimed = {claim.column for claim in plan.claims} or {plan.columns[0].name}
    charts = []
    for column in plan.columns:
        rows = {}
        for arm, figures in found["arms"].items():
            value = figures.get(column.name, {})
            if "mean" in value:
                rows[arm] = (value["mean"], value.get("half_width", 0.0))
        if column.name in claimed:
            charts.append(f"<h3>{html.escape(column.title)}</h3>{interval_chart(rows, column.title)}")
    return charts


def _curves(plan: "Plan", found: Mapping[str, Any]) -> str:
    column = plan.columns[0].name
    curves: dict[str, list[tuple[float, float]]] = {}
    for arm, (name, x) in plan.curve.items():
        curves.setdefault(name, []).append((x, found["arms"][arm][column]["mean"]))
    return line_chart({name: sorted(points) for name, points in curves.items()}, plan.across)


def markdown(plan: "Plan", found: Mapping[str, Any]) -> str:
    """The same as Markdown, for docs."""
    lines = [f"## {plan.title}", "", f"{plan.source}. {_setting(found)}", ""]
    lines.append("| | " + " | ".join(column.title for column in plan.columns) + " |")
    lines.append("|---|" + "---|" * len(plan.columns))
    for arm, figures in found["arms"].items():
        cells = [_cell(figures.get(column.name), column) for column in plan.columns]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    for one in found["quoted"]:
        cells = [_number(one["paper"].get(column.name), column) for column in plan.columns]
        lines.append(f"| *{one['name']}* (quoted, {one['source']}) | {' | '.join(cells)} |")
    lines += ["", f"{plan.caution} In brackets the paper's figure.", ""]
    for one in found["claims"]:
        low, high = one["interval_95"]
        test = f"{one['difference']:+.3g} [{low:+.3g}, {high:+.3g}], p {one['p_holm']:.2g}"
        lines.append(f"- {one['claim']}: {one['verdict']} ({test})")
    return "\n".join(lines) + "\n"
