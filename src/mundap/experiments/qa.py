"""Answers: exact match by retriever and reader (DPR's table 4), and joint training."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mundap.datasets.examples import read_examples, writing
from mundap.experiments.frame import Arm, Claim, Column, Plan, Quoted, slug
from mundap.experiments.lab import Lab
from mundap.experiments.negatives import SMALLER
from mundap.experiments.orqa import bm25_bert, orqa, passages_read
from mundap.experiments.ranking import Model, figures_of
from mundap.experiments.retrievers import SETS, multi, single
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
_PAPER: Mapping[str, tuple[float | None, ...]] = {
    "BM25": (32.6, 52.4, 29.9, 24.9, 38.1),
    "BM25+BERT": (26.5, 47.1, 17.7, 21.3, 33.2),
    "BM25, HardEM reader": (28.1, 50.9),
    "ORQA": (33.3, 45.0, 36.4, 30.1, 20.2),
    "DPR": (41.5, 56.8, 34.6, 25.9, 29.8),
    "BM25+DPR": (39.0, 57.0, 35.2, 28.0, 36.7),
    "multi DPR, reader fine-tuned": (41.5, 56.8, 42.4, 49.4, 24.1),
    "multi BM25+DPR, reader fine-tuned": (38.8, 57.9, 41.1, 50.6, 35.8),
}
"""Exact match in DPR's table 4, in the order of `SETS`."""
_LIKELIEST = ", likeliest span of all passages"
"""Behind the name of a row: the same readers, judged without their choice of a passage."""
_QUOTED: Mapping[str, tuple[str, tuple[float | None, ...]]] = {
    "HardEM": ("Min et al. 2019", (28.1, 50.9)),
    "GraphRetriever": ("Min et al. 2019", (34.5, 56.0, 36.4)),
    "PathRetriever": ("Asai et al. 2020", (32.6, None, None, None, 56.5)),
    "REALM-Wiki": ("Guu et al. 2020", (39.2, None, 40.2, 46.8)),
    "REALM-News": ("Guu et al. 2020", (40.4, None, 40.7, 42.9)),
}


def paper_figures(lab: Lab, name: str) -> dict[str, float]:
    """The paper's exact match of a row, for our columns."""
    return _figures(lab, _PAPER.get(name, ()))


def _figures(lab: Lab, row: tuple[float | None, ...]) -> dict[str, float]:
    """A row of the paper for our columns: of the set with the same name, and for the first set otherwise NQ's."""
    first, small = lab.data.first, _smallest(lab)
    places = {"exact_match": 0}
    if first in SETS:
        places["exact_match"] = SETS.index(first)
    if small in SETS:
        places[f"{small} exact_match"] = SETS.index(small)
    figures = {}
    for column, place in places.items():
        if place < len(row) and (figure := row[place]) is not None:
            figures[column] = figure
    return figures


def _smallest(lab: Lab) -> str:
    """The set with the fewest training questions, if there are several sets."""
    questions = lab.data.questions
    if len(questions) < 2:
        return ""
    return min(questions, key=lambda name: questions[name])


def qa(lab: Lab) -> Plan:
    """DPR's table 4: readers that learn from what their retriever finds, and read what it finds.

    BM25+BERT and ORQA learn by the marginal likelihood over passages and spans, without gold passages (`orqa.py`).

    With several data sets, also what the smallest gains from all: from a retriever trained on all of them, and from a
    reader that has learnt on the largest before.
    """
    open_reader(lab.reader_base, fresh=True)  # a checkpoint that cannot be read is told before anything is done
    bm25, marginal_bm25, hard_em, ict_marginal, dpr, hybrid, multi_dpr, multi_hybrid = _PAPER
    measures: dict[str, Callable[[Lab, int], Mapping[str, Any]]] = {
        bm25: lambda lab, seed: _over_bm25(lab, seed, "reader-bm25"),
        marginal_bm25: bm25_bert,
        hard_em: lambda lab, seed: _over_bm25(lab, seed, "reader-bm25-hard-em", span_loss="hard_em"),
        ict_marginal: orqa,
        dpr: _single,
        hybrid: lambda lab, seed: _over_dpr(lab, seed, lab.data.first, hybrid=True),
        bm25 + _LIKELIEST: lambda lab, seed: _over_bm25(lab, seed, "reader-bm25", likeliest=True),
        dpr + _LIKELIEST: lambda lab, seed: _over_dpr(lab, seed, lab.data.first, likeliest=True),
    }
    columns = list(ANSWERS)
    claims = [
        Claim("Answers over DPR beat those over BM25", dpr, bm25, "exact_match"),
        Claim("The marginal loss beats HardEM", bm25, hard_em, "exact_match"),
        Claim("DPR beats ORQA", dpr, ict_marginal, "exact_match"),
        Claim("DPR's reader beats BM25+BERT over the same retriever", bm25, marginal_bm25, "exact_match"),
        Claim("It does if the likeliest span counts", bm25 + _LIKELIEST, marginal_bm25, "exact_match"),
        Claim("Readers lose by their choice of a passage", bm25 + _LIKELIEST, bm25, "exact_match"),
        Claim("Without it, answers over BM25 beat those over DPR", bm25 + _LIKELIEST, dpr + _LIKELIEST, "exact_match"),
    ]
    small = _smallest(lab)
    if small:
        measures[multi_dpr] = _multi
        measures[multi_hybrid] = lambda lab, seed: _multi(lab, seed, hybrid=True)
        columns += [Column(f"{small} exact_match", f"{small} exact match"), Column(f"{small} f1", f"{small} F1")]
        claims.append(Claim(f"Multi helps the smallest set, {small}", multi_dpr, dpr, f"{small} exact_match"))
    quoted = []
    for name, (source, row) in _QUOTED.items():
        quoted.append(Quoted(name, _figures(lab, row), f"{source}, in DPR, table 4"))
    return Plan(
        title="Does better retrieval give better answers?",
        source="DPR, table 4",
        columns=columns,
        arms=[Arm(name, measure, paper_figures(lab, name)) for name, measure in measures.items()],
        claims=claims,
        quoted=quoted,
        caution=(
            f"{SMALLER} The paper's figures are those of Natural Questions, unless the set has a name that the paper "
            f"has too. Readers start from {lab.reader_base.name} and learn for few steps. The HardEM row of the paper "
            "is another system with another retriever. BM25+BERT and ORQA read "
            f"{passages_read(lab)} passages of a question, in training as for an answer, of those that their retriever "
            "finds before the reader's training; in the paper ORQA finds them anew at every step. BM25's scores do not "
            "count. The other readers answer from the passage that they select, but in the rows of the likeliest span, "
            "where they answer as BM25+BERT does."
        ),
    )


def _over_bm25(lab: Lab, seed: int, arm: str, likeliest: bool = False, **changes: Any) -> Mapping[str, Any]:
    """A reader that learns from BM25's negatives and reads what BM25 finds."""
    run = lab.trained_reader(arm, seed, lab.data.train[lab.data.first], **changes)
    orders = []
    for row in lab.ranking().bm25:
        orders.append([name for name, _ in row])
    return _judged(lab, run, lab.data.first, orders, likeliest)


def _over_dpr(lab: Lab, seed: int, name: str, hybrid: bool = False, likeliest: bool = False) -> Mapping[str, Any]:
    """A retriever trained on a set, and a reader that learns from what it finds and reads what it finds."""
    model = lab.model(single(lab, seed, name))
    run = lab.trained_reader(f"reader-{slug(name)}", seed, _found_examples(lab, model, f"dpr-{seed}", name), name)
    return _judged(lab, run, name, _orders(lab, model, name, hybrid), likeliest)


def _orders(lab: Lab, model: Model, name: str, hybrid: bool) -> list[list[str]]:
    """Ids of the passages that a retriever finds for the held-out questions of a set, alone or with BM25."""
    ranking = lab.ranking(name)
    if hybrid:
        return ranking.hybrid(model)
    return _ids(model, ranking.texts)


def _single(lab: Lab, seed: int) -> Mapping[str, Any]:
    values, small = dict(_over_dpr(lab, seed, lab.data.first)), _smallest(lab)
    if small:
        values |= _of_set(small, _over_dpr(lab, seed, small))
    return values


def _multi(lab: Lab, seed: int, hybrid: bool = False) -> Mapping[str, Any]:
    """One retriever for all sets. The reader of the smallest set is that of the largest, fine-tuned."""
    first, small = lab.data.first, _smallest(lab)
    model = lab.model(multi(lab, seed))
    run = lab.trained_reader("reader-multi", seed, _found_examples(lab, model, f"multi-{seed}", first), first)
    values = dict(_judged(lab, run, first, _orders(lab, model, first, hybrid)))
    examples = _found_examples(lab, model, f"multi-{seed}", small)
    tuned = lab.trained_reader("reader-multi-tuned", seed, examples, small, base_model=str(run / "model"))
    return values | _of_set(small, _judged(lab, tuned, small, _orders(lab, model, small, hybrid)))


def _of_set(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{name} {figure}": values[figure] for figure in ("exact_match", "f1")}


def _judged(
    lab: Lab, run: Path, name: str, orders: Sequence[Sequence[str]], likeliest: bool = False
) -> Mapping[str, Any]:
    """The answers of a reader that reads these passages for the held-out questions of a set."""
    ranking, asked = lab.ranking(name), lab.data.test[name].questions
    found = _first(ranking.contexts(orders), lab.scale.read)
    reading = lab.reading(run / "model", name)
    if likeliest:
        values = reading.likeliest(asked, found, np.zeros((len(asked), lab.scale.read)))
        answers = {"exact_match": values[:, 0], "f1": values[:, 1]}
    else:
        answers = _last(reading.judged(asked, found))
    return {**figures_of(ranking.of_ids(orders)), **answers}


def _ids(model: Model, texts: Sequence[str]) -> list[list[str]]:
    numbers, _ = model.top(texts)
    found = []
    for row in numbers.tolist():
        found.append([model.corpus.context(number).id for number in row])
    return found


def _first(rows: Sequence[Sequence[Context]], count: int) -> list[Sequence[Context]]:
    return [row[:count] for row in rows]


def _last(read: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Exact match and F1 with all passages read."""
    last = np.array([row[-1] for row in read])
    return {"exact_match": last[:, 0], "f1": last[:, 1]}


def _found_examples(lab: Lab, model: Model, label: str, name: str = "") -> Path:
    """The training examples of a set, with negatives that this retriever finds and that have no answer."""
    name = name or lab.data.first
    path = lab.data_folder / f"found-{label}-{slug(name)}.jsonl"
    if path.exists():
        return path
    known = [one for one in read_examples(lab.data.train[name]) if isinstance(one, Example)]
    numbers, _ = model.top([one.question.text for one in known], _FOUND)
    negatives = NegativeFilter(model.corpus)
    match = lab.data.test[name].match
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
        examples = _found_examples(lab, model, label)
        changes = {}
        if together:
            changes["retriever"] = str(folder)
        arm = name.lower().replace(" -> ", "-")
        run = lab.trained_reader(arm, seed, examples, **changes)
        if together:
            model = lab.model(run / "retriever", vectors=model.vectors)  # the passage tower is the same
        return _judged(lab, run, lab.data.first, _ids(model, lab.ranking().texts))

    return measure
