"""Answers: exact match by retriever and reader (DPR's table 4), and joint training."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mundap.datasets.examples import read_examples, writing
from mundap.experiments.frame import Arm, Claim, Column, Plan, Quoted
from mundap.experiments.lab import Lab
from mundap.experiments.negatives import SMALLER
from mundap.experiments.ranking import Model, figures_of
from mundap.reader.checkpoints import open_reader
from mundap.records import Context, Example
from mundap.training.ance.negatives import NegativeFilter

ANSWERS = (
    Column("exact_match", "exact match"),
    Column("f1", "F1"),
    Column("top1", "retrieval top-1"),
    Column("top20", "retrieval top-20"),
)
_FOUND = 20  # passages a retriever finds for a training question; those without the answer are negatives
_QUOTED = (
    Quoted("BM25+BERT", {"exact_match": 26.5}, "Lee et al. 2019, NQ"),
    Quoted("ORQA", {"exact_match": 33.3}, "Lee et al. 2019, NQ"),
    Quoted("HardEM", {"exact_match": 28.1}, "Min et al. 2019, NQ"),
    Quoted("GraphRetriever", {"exact_match": 34.5}, "Min et al. 2019, NQ"),
    Quoted("PathRetriever", {"exact_match": 32.6}, "Asai et al. 2020, NQ"),
    Quoted("REALM-Wiki", {"exact_match": 39.2}, "Guu et al. 2020, NQ"),
    Quoted("REALM-News", {"exact_match": 40.4}, "Guu et al. 2020, NQ"),
)


def qa(lab: Lab) -> Plan:
    """DPR's table 4: readers that learn from what their retriever finds, and read what it finds."""
    open_reader(lab.reader_base, fresh=True)  # a checkpoint that cannot be read is told before anything is done
    names = {"bm25": "BM25", "bm25_hard_em": "BM25, HardEM reader", "dpr": "DPR", "hybrid": "BM25+DPR"}
    return Plan(
        title="Does better retrieval give better answers?",
        source="DPR, table 4 (Natural Questions)",
        columns=ANSWERS,
        arms=[
            Arm(names["bm25"], lambda lab, seed: _answers(lab, seed, "bm25"), {"exact_match": 32.6}),
            Arm(
                names["bm25_hard_em"],
                lambda lab, seed: _answers(lab, seed, "bm25", span_loss="hard_em"),
                {"exact_match": 28.1},
            ),
            Arm(names["dpr"], lambda lab, seed: _answers(lab, seed, "dpr"), {"exact_match": 41.5}),
            Arm(names["hybrid"], lambda lab, seed: _answers(lab, seed, "hybrid"), {"exact_match": 39.0}),
        ],
        claims=(
            Claim("Answers over DPR beat those over BM25", names["dpr"], names["bm25"], "exact_match"),
            Claim("The marginal loss beats HardEM", names["bm25"], names["bm25_hard_em"], "exact_match"),
        ),
        quoted=_QUOTED,
        caution=(
            f"{SMALLER} Readers start from {lab.reader_base.name} and learn for few steps. The HardEM row of the paper "
            "is another system with another retriever."
        ),
    )


def _answers(lab: Lab, seed: int, kind: str, **changes: Any) -> Mapping[str, Any]:
    """Train a reader on what a retriever finds, and let it read what the retriever finds for held-back questions."""
    ranking = lab.ranking()
    if kind == "bm25":
        examples, orders = lab.data.train[lab.data.first], [[name for name, _ in row] for row in ranking.bm25]
    else:
        folder = lab.trained("dpr", seed)
        model = lab.model(folder)
        examples = found_examples(lab, model, f"dpr-{seed}")
        orders = ranking.hybrid(model) if kind == "hybrid" else _ids(model, ranking.texts)
    loss = "-hard-em" if changes else ""
    source = "bm25" if kind == "bm25" else "dpr"
    run = lab.trained_reader(f"reader-{source}{loss}", seed, examples, **changes)
    read = lab.reading(run / "model").judged(_asked(lab), _first(ranking.contexts(orders), lab.scale.read))
    return {**figures_of(ranking.of_ids(orders)), **_last(read)}


def _ids(model: Model, texts: Sequence[str]) -> list[list[str]]:
    numbers, _ = model.top(texts)
    return [[model.corpus.context(number).id for number in row] for row in numbers.tolist()]


def _asked(lab: Lab) -> Any:
    return lab.data.test[lab.data.first].questions


def _first(rows: Sequence[Sequence[Context]], count: int) -> list[Sequence[Context]]:
    return [row[:count] for row in rows]


def _last(read: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Exact match and F1 with all passages read."""
    last = np.array([row[-1] for row in read])
    return {"exact_match": last[:, 0], "f1": last[:, 1]}


def found_examples(lab: Lab, model: Model, name: str) -> Path:
    """The training examples, with negatives that this retriever finds and that have no answer."""
    path = lab.out / "data" / f"found-{name}.jsonl"
    if path.exists():
        return path
    known = [one for one in read_examples(lab.data.train[lab.data.first]) if isinstance(one, Example)]
    numbers, _ = model.top([one.question.text for one in known], _FOUND)
    negatives = NegativeFilter(model.corpus)
    match = lab.data.test[lab.data.first].match
    with writing(path, "dpr-jsonl") as write:
        for one, row in zip(known, numbers.tolist(), strict=True):
            places = negatives.positions(one, row, match)
            write(replace(one, hard=tuple(model.corpus.context(row[place]) for place in places), negatives=()))
    return path


_BASE, _DPR = "base", "DPR"
_JOINT_ARMS = {
    "base -> reader": (_BASE, False),
    "base -> joint": (_BASE, True),
    "DPR -> reader": (_DPR, False),
    "DPR -> joint": (_DPR, True),
}
"""Which retriever an arm has, and whether it is trained along with the reader."""


def joint(lab: Lab) -> Plan:
    """Retriever and reader trained together (the question encoder; the passages' vectors stay), or one by one.

    `DPR -> joint` against `DPR -> reader` is the fair comparison: both begin with the same trained retriever.
    """
    open_reader(lab.reader_base, fresh=True)
    paper = {"DPR -> reader": {"exact_match": 41.5}, "DPR -> joint": {"exact_match": 39.8}}
    arms = [Arm(name, _joint_measure(name), paper.get(name, {})) for name in _JOINT_ARMS]
    return Plan(
        title="Retriever and reader: together, or one after the other?",
        source="DPR, section 5 (joint training 39.8 exact match on NQ, one after the other 41.5)",
        columns=ANSWERS,
        arms=arms,
        claims=(
            Claim("One after the other beats joint training", "DPR -> reader", "DPR -> joint", "exact_match"),
            Claim("A trained retriever beats its base", "DPR -> reader", "base -> reader", "exact_match"),
        ),
        caution=(
            f"{SMALLER} Reader and question encoder share no weights, so that exact match differs mostly by what is "
            "retrieved; a joint run trains the question encoder for longer than the run it is compared with. Few steps "
            "do not teach an encoder to read: give a checkpoint that can read as the readers' base."
        ),
    )


def _joint_measure(name: str) -> Any:
    source, together = _JOINT_ARMS[name]

    def measure(lab: Lab, seed: int) -> Mapping[str, Any]:
        folder, label = lab.data.base_model, _BASE
        if source == _DPR:
            folder, label = lab.trained("dpr", seed), f"dpr-{seed}"
        model = lab.model(folder)
        examples = found_examples(lab, model, label)
        changes = {"retriever": str(folder)} if together else {}
        arm = name.lower().replace(" -> ", "-")
        run = lab.trained_reader(arm, seed, examples, **changes)
        if together:
            model = lab.model(run / "retriever", vectors=model.vectors)  # the passage tower is the same
        ranking = lab.ranking()
        orders = _ids(model, ranking.texts)
        read = lab.reading(run / "model").judged(_asked(lab), _first(ranking.contexts(orders), lab.scale.read))
        return {**figures_of(ranking.of_ids(orders)), **_last(read)}

    return measure
