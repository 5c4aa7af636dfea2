"""Questions that only one retriever answers: meaning against exact words (DPR, appendix on qualitative analysis)."""

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from mundap.experiments.frame import Arm, Column, Extra, Outcomes, Plan
from mundap.experiments.lab import Lab
from mundap.experiments.negatives import SMALLER
from mundap.records import Context

_SHOWN = 5
_SNIPPET = 300


def plan(lab: Lab) -> Plan:
    """BM25 and DPR side by side, with the questions on which they differ most."""
    return Plan(
        title="Which questions does only one of them answer?",
        source="DPR, appendix C",
        columns=(Column("top1", "top-1"), Column("top5", "top-5"), Column("top20", "top-20")),
        arms=[
            Arm("BM25", lambda lab, seed: lab.bm25(), seeded=False),
            Arm("DPR", lambda lab, seed: lab.retrieval("dpr", seed)),
        ],
        caution=SMALLER,
        appendix=_differences,
    )


def _differences(lab: Lab, outcomes: Outcomes) -> Extra:
    """Examples where the first passage of one has the answer, and none of the other's first five."""
    bm25, dpr = outcomes["BM25"][0], outcomes["DPR"][0]
    ranking = lab.ranking()
    model = lab.model(lab.trained("dpr", 0))
    numbers, _ = model.top(ranking.texts, 1)
    by_dpr, by_bm25 = [], []
    for (number,), ranked in zip(numbers.tolist(), ranking.bm25, strict=True):
        by_dpr.append([model.corpus.context(number).id])
        by_bm25.append([name for name, _ in ranked[:1]])
    found = {
        "only DPR": _listed(lab, dpr["top1"] > bm25["top5"], by_dpr, by_bm25),
        "only BM25": _listed(lab, bm25["top1"] > dpr["top5"], by_bm25, by_dpr),
    }
    parts, lines = [], []
    for title, rows in found.items():
        parts.append(f"<h2>{title}</h2>")
        lines.append(f"\n### {title}\n")
        for row in rows:
            parts.append(
                f"<details><summary>{html.escape(row['question'])} <small>{html.escape(row['answer'])}</small>"
                f"</summary>"
                f"<p class=passage>{html.escape(row['right'])}</p>"
                f"<p class='passage dim'>{html.escape(row['wrong'])}</p></details>"
            )
            lines.append(f"- {row['question']} ({row['answer']}): {row['right'][:120]}… not {row['wrong'][:120]}…")
    return Extra({"examples": found}, parts, "\n".join(lines) + "\n")


def _listed(
    lab: Lab, chosen: np.ndarray, right: Sequence[Sequence[str]], wrong: Sequence[Sequence[str]]
) -> list[dict[str, Any]]:
    ranking, asked = lab.ranking(), lab.data.test[lab.data.first].questions
    rows = []
    for number in np.flatnonzero(chosen)[:_SHOWN].tolist():
        (good, *_), (bad, *_) = ranking.contexts([right[number]])[0], ranking.contexts([wrong[number]])[0] or [_NOTHING]
        rows.append(
            {
                "question": asked[number].text,
                "answer": asked[number].answers[0],
                "right": f"{good.title}: {good.text[:_SNIPPET]}",
                "wrong": f"{bad.title}: {bad.text[:_SNIPPET]}",
            }
        )
    return rows


_NOTHING = Context("", "", "nothing was found")
