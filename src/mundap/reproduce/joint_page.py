"""The page of the experiment on joint training."""

import html
from typing import Any

from mundap.charts import line_chart
from mundap.reproduce import JointScale, Task, page, sized
from mundap.reproduce.joint import COMPARED
from mundap.reproduce.ranking import CUTS

_ARMS = (
    "Start: a shallow network that has yet to learn to retrieve. DPR: the same, trained with the batch's negatives and "
    "one of BM25's. Reader: the reader learns alone, from passages that the retriever finds. Joint: the question "
    "encoder learns along, from the same passages, its loss added to the reader's; the passage encoder stays as it is."
)
_CAUTION = (
    "Reader and question encoder have parameters of their own, and only the clipping of gradients joins them, so that "
    "exact match differs mostly by what is retrieved. A joint run trains the question encoder for longer than the run "
    "that it is compared with. Where the test file tells no gold passage, only questions that BM25 answers within its "
    "top 100 are asked. p is over questions, not over seeds or articles."
)
_FIGURES = [("retrieval", f"top{k}") for k in (1, 5, 20)] + [("answers", "exact_match"), ("answers", "f1")]


def report(task: Task, found: dict[str, Any]) -> str:
    """Tables and curves on one page that loads nothing from anywhere."""
    parts = [
        "<h1>Retriever and reader: together, or one after the other?</h1>",
        f"<p class=sure>{html.escape(found['verdict'])}</p>",
        f"<p>{found['questions']} held-back questions, {found['seeds']} seeds. {_scale(task, found)}</p>",
        f"<p class=dim>{_ARMS} {_CAUTION}</p>",
        f"<h2>Retrieval and answers</h2><div class=wide>{page.table(found['arms'], 'training', _FIGURES)}</div>",
        "<p class=dim>In percent. Mean over the seeds ± half of the 95 % interval (Student's t).</p>",
    ]
    for ours, against in found["against"].items():
        table = page.differences(against, COMPARED)
        parts.append(f"<h2>{html.escape(ours)}, less each of the others</h2><div class=wide>{table}</div>")
    parts.append(
        "<p class=dim>Over questions, their values averaged over the seeds: difference, 95 % interval (bootstrap), "
        "p (randomisation test, Holm's correction for the number of rows). Points of percent.</p>"
    )
    means = {arm: figures["retrieval"] for arm, figures in found["arms"].items()}
    retrieved = {arm: [(float(k), row[f"top{k}"]["mean"]) for k in CUTS] for arm, row in means.items()}
    parts.append(f"<h2>Retrieval by number of passages</h2>{line_chart(retrieved, 'passages', '%', logarithmic=True)}")
    read = {
        arm: [(float(k), value) for k, value in row.items()] for arm, row in found["exact_match_by_passages"].items()
    }
    parts.append(f"<h2>Exact match by number of passages read</h2>{line_chart(read, 'passages read', '%')}")
    return page.whole("Joint training", parts)


def _scale(task: Task, found: dict[str, Any]) -> str:
    scale = sized(task, JointScale)
    reader = task.reader or task.start
    return (
        f"{found['passages']:,} passages, of which the retriever sees {scale.length} tokens; "
        f"{found['training_questions']:,} training questions; {scale.layers} layers of "
        f"{html.escape(task.start.name)}, the upper {scale.fresh} made anew; {scale.steps} steps of {scale.batch} "
        f"questions for DPR's training. Readers start from {html.escape(reader.name)} and learn for "
        f"{scale.reader_steps} steps of {scale.reader_batch} questions with {scale.shown} passages each; "
        f"{scale.read} passages are read."
    )
