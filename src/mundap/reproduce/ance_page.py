"""The page of the ANCE experiment."""

import html
from collections.abc import Iterable
from typing import Any

from mundap.charts import line_chart, scatter
from mundap.reproduce import AnceScale, Task, page, sized
from mundap.reproduce.evidence import GROUPS, KINDS, Evidence

_CAUTION = (
    "A warm-up and what follows it have a schedule of the learning rate each, the other runs one over all steps. "
    "Kinds differ in number too: a question has one negative of its own with random, BM25 and ANCE, two with "
    "BM25 + random, and with in-batch ones as many as the batch has passages. Where the test file tells no gold "
    "passage, only questions that BM25 answers within its top 100 are asked, which favours BM25. p is over questions, "
    "not over seeds or articles."
)
_COMPARED = [(kind, figure) for kind in ("retrieval", "reranking") for figure in ("top1", "top20", "mrr10")]
_FIGURES = ("top1", "top5", "top20", "top100", "mrr10")


def report(task: Task, found: dict[str, Any], seen: Evidence) -> str:
    """Tables, curves and maps on one page that loads nothing from anywhere."""
    parts = [
        "<h1>Where should negatives come from?</h1>",
        f"<p class=sure>{html.escape(found['verdict'])}</p>",
        f"<p>{found['questions']} held-back questions, {found['seeds']} seeds. {_scale(task, found)}</p>",
        f"<p class=dim>{_CAUTION}</p>",
    ]
    for kind, title in (
        ("retrieval", "Retrieval from the whole corpus"),
        ("reranking", "Re-ranking of BM25's top 100"),
    ):
        columns = [(kind, figure) for figure in _FIGURES]
        parts.append(f"<h2>{title}</h2><div class=wide>{page.table(found['arms'], 'negatives', columns)}</div>")
    parts.append("<p class=dim>Mean over the seeds ± half of the 95 % interval (Student's t). Top-k in percent.</p>")
    for ours, against in found["against"].items():
        name = html.escape(ours)
        parts.append(
            f"<h2>{name}, less each of the others</h2><div class=wide>{page.differences(against, _COMPARED)}</div>"
        )
    parts.append(
        "<p class=dim>Over questions, their values averaged over the seeds: difference, 95 % interval (bootstrap), "
        "p (randomisation test, Holm's correction for the number of rows). Points of percent, but for MRR@10.</p>"
    )
    for model, kinds in seen.kinds.items():
        parts.append(
            f"<h2>Negatives as the model sees them: {html.escape(model)}</h2><div class=wide>{_kinds(kinds)}</div>"
        )
        curves = line_chart(_short(seen.curves[model]), "rank", "", True)
        parts.append(f"<h3>Highest scores by rank, less the mean of the corpus</h3>{curves}{_list(seen.curves[model])}")
        parts.append(f"<h3>“{html.escape(seen.asked)}” and its passages (t-SNE)</h3>{scatter(seen.maps[model])}")
    parts.append(
        "<p class=dim>Overlap: the share of a question's negatives that is among the 100 passages the model finds. "
        "Loss: of the positive and one negative. Gradient: its norm in the first, the middle and the last layer.</p>"
    )
    return page.whole("Negatives", parts)


def _scale(task: Task, found: dict[str, Any]) -> str:
    scale = sized(task, AnceScale)
    return (
        f"{found['passages']:,} passages, of which {scale.length} tokens are seen; {found['training_questions']:,} "
        f"training questions; {scale.layers} layers of {html.escape(task.start.name)}, the upper {scale.fresh} made "
        f"anew; cosine over temperature .05, no dropout, rate 2e-4 with warm-up and linear decay; batches of "
        f"{scale.batch}; {2 * scale.steps} steps each, of which {scale.steps} are the warm-up where there is one; "
        f"ANCE refreshes every {scale.refresh} batches."
    )


def _kinds(kinds: dict[str, dict[str, float]]) -> str:
    columns = ("overlap", "loss", *(f"gradient_{group}" for group in GROUPS))
    head = "".join(f"<th>{name.replace('_', ', ')}</th>" for name in columns)
    rows = "".join(
        f"<tr><td>{kind}</td>{''.join(f'<td>{kinds[kind][name]:.4g}</td>' for name in columns)}</tr>" for kind in KINDS
    )
    return f"<table><tr><th>negatives</th>{head}</tr>{rows}</table>"


def _short(curves: dict[str, list[tuple[int, float]]]) -> dict[str, list[tuple[float, float]]]:
    """Questions are too long to stand at their lines: the lines have numbers, and a list says which is which."""
    return {
        f"question {number}": [(float(rank), score) for rank, score in points]
        for number, points in enumerate(curves.values(), 1)
    }


def _list(questions: Iterable[str]) -> str:
    return f"<ol class=dim>{''.join(f'<li>{html.escape(text)}</li>' for text in questions)}</ol>"
