"""The HTML report of an evaluation: one file, no scripts, no outside requests."""

import html
import re
from collections.abc import Sequence
from pathlib import Path

from mundap.charts import COLOURS, line_chart
from mundap.evaluation.compare import (
    ChangedQuestion,
    Differences,
    answered_by_one,
    mean_overlap,
    word_overlap,
)
from mundap.evaluation.outcomes import System
from mundap.evaluation.significance import Difference
from mundap.pages import write_page
from mundap.records import Context
from mundap.version import __version__

_SHOWN = 100  # questions of each list
_LONGEST = 1200  # characters of a passage
_MARKED = 50  # answers that are highlighted


def write_report(
    folder: str | Path, systems: Sequence[System], cuts: Sequence[int], k: int, title: str, between: Differences
) -> Path:
    """Write `index.html` into a folder, which is created if missing.

    Args:
        folder: Where.
        systems: What to compare; the first is what the others are measured against.
        cuts: The k of the table.
        k: The cut at which a question counts as answered in the lists.
        title: The page's heading.
        between: How the systems differ.
    """
    parts = [
        f"<h1>{_text(title)}</h1>",
        f"<p class=dim>{len(systems[0].outcomes):,} questions. Made by mundap {__version__}.</p>",
        f"<h2>{_counted(systems[0])} among the top k</h2>",
        _chart(systems, max(cuts)),
        "<h2>Figures</h2>",
        _table(systems, cuts, between),
        *_lists(systems, k),
    ]
    return write_page(Path(folder) / "index.html", title, parts)


def _counted(system: System) -> str:
    if system.judged:
        return "A relevant document"
    return "An answer"


def _chart(systems: Sequence[System], deepest: int) -> str:
    """Accuracy against k, on a logarithmic axis."""
    points = {1, max(2, deepest)}
    for step in range(101):
        k = round(10 ** (step / 20))
        if k <= deepest:
            points.add(k)
    curves = {}
    for system in systems:
        curves[system.name] = [(k, 100 * float(system.hits(k).mean())) for k in sorted(points)]
    return line_chart(curves, "k (passages)", "%", logarithmic=True, top=100)


def _table(systems: Sequence[System], cuts: Sequence[int], differences: Differences) -> str:
    first = systems[0]
    heading, places, test = "accuracy, %", 1, "McNemar's exact test"
    if first.judged:
        heading, places, test = "0 to 1", 3, "a randomisation test with 10,000 draws"
    names = "".join(f"<th>{name}</th>" for name in first.figures(cuts))
    rows = [f"<tr><th>{heading}</th>{names}</tr>"]
    for number, system in enumerate(systems):
        apart = differences.get(system.name, {})
        cells = []
        for name, value in system.figure_means(cuts).items():
            cell = f"{value:.{places}f}"
            if name in apart:
                cell += f"<br>{_difference(apart[name], first.scale, places)}"
            cells.append(f"<td>{cell}</td>")
        chip = f"<span class=chip style='background:{COLOURS[number % len(COLOURS)]}'></span>"
        rows.append(f"<tr><td>{chip}{_text(system.name)}</td>{''.join(cells)}</tr>")
    note = ""
    if len(systems) > 1:
        note = f"Below each figure: the difference from {_text(first.name)} and its p by {test}, paired by question."
    return f"<div class=wide><table>{''.join(rows)}</table></div><p class=dim>{note}</p>"


def _difference(one: Difference, scale: float, places: int) -> str:
    sure = ""
    if one.p < 0.05:
        sure = " class=sure"
    tip = f"95 % interval {scale * one.low:+.{places}f} to {scale * one.high:+.{places}f}"
    return f"<small{sure} title='{tip}'>{scale * one.mean:+.{places}f}, p {_p_value(one.p)}</small>"


def _p_value(p: float) -> str:
    if p < 0.001:
        return "&lt; .001"
    return f"= {p:.3f}".replace("0.", ".", 1)


def _lists(systems: Sequence[System], k: int) -> list[str]:
    if len(systems) < 2:
        return _missed(systems[0], k)
    parts = []
    for name, cases in answered_by_one(systems, k).items():
        words = ""
        share = mean_overlap(cases)
        if share is not None:
            words = f" They share {100 * share:.0f} % of their words with the passage found."
        parts.append(f"<h2>Only {_text(name)} answers in the top {k}: {len(cases):,}</h2>")
        parts.append(f"<p class=dim>{words}</p>{_few(len(cases))}")
        parts += [_won(case) for case in cases[:_SHOWN]]
    return parts


def _missed(system: System, k: int) -> list[str]:
    missed = [outcome for outcome in system.outcomes if not 0 < outcome.rank <= k]
    parts = [f"<h2>Not answered in the top {k}: {len(missed):,}</h2>{_few(len(missed))}"]
    for outcome in missed[:_SHOWN]:
        rows = [("first instead", 1, outcome.top)]
        parts.append(_case_of(outcome.question.text, outcome.question.answers, rows))
    return parts


def _few(number: int) -> str:
    if number <= _SHOWN:
        return ""
    return f"<p class=dim>The first {_SHOWN} are shown.</p>"


def _won(case: ChangedQuestion) -> str:
    rows = [(f"{case.winner} has it at", case.rank, case.found), (f"{case.loser} has instead, at", 1, case.top)]
    return _case_of(case.question.text, case.question.answers, rows)


def _case_of(question: str, answers: Sequence[str], rows: Sequence[tuple[str, int, Context | None]]) -> str:
    wanted = ", ".join(map(_text, answers[:5]))
    body = "".join(
        f"<div class=passage><small>{_text(what)} rank {rank}{_shared(question, context)}</small><br>"
        f"<b>{_text(context.title)}</b> {_marked(context.text[:_LONGEST], answers) or _text(context.id)}</div>"
        for what, rank, context in rows
        if context is not None
    )
    return f"<details><summary>{_text(question)} <small>{wanted}</small></summary>{body}</details>"


def _marked(text: str, answers: Sequence[str]) -> str:
    """The passage with literal matches of the answers highlighted."""
    wanted = [re.escape(answer.strip()) for answer in sorted(answers, key=len, reverse=True)[:_MARKED]]
    if not wanted:
        return _text(text)
    parts = re.split(rf"\b({'|'.join(wanted)})\b", text, flags=re.IGNORECASE)
    marked = ""
    for number, part in enumerate(parts):  # every other one is an answer
        if number % 2:
            marked += f"<mark>{_text(part)}</mark>"
        else:
            marked += _text(part)
    return marked


def _shared(question: str, context: Context) -> str:
    overlap = word_overlap(question, context)
    if overlap is None:
        return ""
    return f"; {100 * overlap:.0f} % of the question's words"


def _text(text: str) -> str:
    return html.escape(text)
