"""Retrievers by data set: DPR's table 2 with ANCE's rows, and training on one set for another."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mundap.experiments.data import UnsuitableData
from mundap.experiments.frame import Arm, Claim, Column, Plan, slug
from mundap.experiments.lab import Lab
from mundap.experiments.negatives import SMALLER
from mundap.experiments.ranking import figures_of
from mundap.training.recipe import DataSet

SETS = ("nq", "triviaqa", "wq", "trec", "squad")
_TABLE2 = {
    "BM25": ("59.1/73.7", "66.9/76.7", "55.0/71.1", "70.9/84.1", "68.8/80.0"),
    "single DPR": ("78.4/85.4", "79.4/85.0", "73.2/81.4", "79.8/89.1", "63.2/77.2"),
    "single BM25+DPR": ("76.6/83.8", "79.8/84.5", "71.0/80.5", "85.2/92.7", "71.5/81.3"),
    "multi DPR": ("79.4/86.0", "78.8/84.7", "75.0/82.9", "89.1/93.9", "51.6/67.6"),
    "multi BM25+DPR": ("78.0/83.9", "79.9/84.4", "74.7/82.3", "88.5/94.1", "66.2/78.6"),
    "single ANCE": ("81.9/87.5", "80.3/85.3", "", "", ""),
    "multi ANCE": ("82.1/87.9", "80.3/85.2", "", "", ""),
}
"""Top-20 and top-100 accuracy, in the order of `SETS`."""


def _paper(row: str, name: str) -> dict[str, float]:
    """The paper's figures of a row for a data set, if it has that set."""
    if name.lower() not in SETS:
        return {}
    cell = _TABLE2[row][SETS.index(name.lower())]
    if not cell:
        return {}
    top20, top100 = cell.split("/")
    return {f"{name} top20": float(top20), f"{name} top100": float(top100)}


def table2(lab: Lab) -> Plan:
    """DPR's table 2: every retriever on every data set. Multi is trained on all sets but SQuAD."""
    sets = list(lab.data.test)

    def row(name: str, measure: Callable[[Lab, int, str], np.ndarray], seeded: bool = True) -> Arm:
        def every(lab: Lab, seed: int) -> Mapping[str, Any]:
            values = {}
            for one in sets:
                for cut, value in figures_of(measure(lab, seed, one)).items():
                    values[f"{one} {cut}"] = value
            return values

        paper: dict[str, float] = {}
        for one in sets:
            paper |= _paper(name, one)
        return Arm(name, every, paper, seeded)

    arms = [
        row("BM25", lambda lab, seed, one: lab.ranking(one).of_bm25(), seeded=False),
        row("single DPR", lambda lab, seed, one: lab.ranking(one).of_model(lab.model(single(lab, seed, one)))),
        row("single BM25+DPR", lambda lab, seed, one: _hybrid(lab, single(lab, seed, one), one)),
        row("single ANCE", lambda lab, seed, one: lab.ranking(one).of_model(lab.model(_ance(lab, seed, one)))),
    ]
    claims = []
    for one in sets:
        claims.append(Claim(f"DPR beats BM25 on {one}", "single DPR", "BM25", f"{one} top20"))
        claims.append(Claim(f"ANCE beats DPR on {one}", "single ANCE", "single DPR", f"{one} top20"))
    if len(sets) > 1:
        arms += [
            row("multi DPR", lambda lab, seed, one: lab.ranking(one).of_model(lab.model(multi(lab, seed)))),
            row("multi BM25+DPR", lambda lab, seed, one: _hybrid(lab, multi(lab, seed), one)),
            row("multi ANCE", lambda lab, seed, one: lab.ranking(one).of_model(lab.model(_multi_ance(lab, seed)))),
        ]
        smallest = min(lab.data.questions, key=lambda name: lab.data.questions[name])
        claims.append(
            Claim(f"Multi helps the smallest set, {smallest}", "multi DPR", "single DPR", f"{smallest} top20")
        )
    columns = []
    for one in sets:
        columns += [Column(f"{one} top20", f"{one} top-20"), Column(f"{one} top100", f"{one} top-100")]
    return Plan(
        title="Retrievers and data sets",
        source="DPR, table 2; ANCE, table 2",
        columns=columns,
        arms=arms,
        claims=claims,
        caution=f"{SMALLER} BM25+DPR takes the union of both best hundred (the paper: 2,000), lambda 1.1.",
    )


def single(lab: Lab, seed: int, name: str) -> Path:
    """A retriever trained on one set."""
    return lab.trained(f"single-{slug(name)}", seed, sets=[lab.data_set(name)])


def multi(lab: Lab, seed: int) -> Path:
    """A retriever trained on all sets but SQuAD."""
    return lab.trained("multi", seed, sets=_all_sets(lab))


def _all_sets(lab: Lab) -> list[DataSet]:
    """All sets but SQuAD, the small ones as often as makes them half of the largest."""
    names = [name for name in lab.data.train if name.lower() != "squad"] or list(lab.data.train)
    largest = max(lab.data.questions[name] for name in names)
    sets = []
    for name in names:
        weight = max(1.0, min(4.0, largest / 2 / lab.data.questions[name]))
        sets.append(lab.data_set(name, weight=float(round(weight, 2))))
    return sets


def _ance(lab: Lab, seed: int, name: str) -> Path:
    """ANCE from the trained DPR, for as many steps again."""
    start = single(lab, seed, name)
    return lab.trained_by_ance(f"ance-{slug(name)}", seed, sets=[lab.data_set(name)], base_model=str(start))


def _multi_ance(lab: Lab, seed: int) -> Path:
    """The same for all sets."""
    start = multi(lab, seed)
    return lab.trained_by_ance("ance-multi", seed, sets=_all_sets(lab), base_model=str(start))


def _hybrid(lab: Lab, folder: Any, name: str) -> np.ndarray:
    ranking = lab.ranking(name)
    return ranking.of_ids(ranking.hybrid(lab.model(folder)))


def cross_dataset(lab: Lab) -> Plan:
    """DPR's generalisation test: trained on the largest set only, tested on the others.

    Raises:
        UnsuitableData: There is only one data set.
    """
    if len(lab.data.test) < 2:
        raise UnsuitableData("cross-dataset needs two data sets or more: NAME-train.* and NAME-test.* of each")
    source = lab.data.first
    others = [name for name in lab.data.test if name != source]

    def columns_of(measure: Callable[[Lab, int, str], np.ndarray]) -> Callable[[Lab, int], Mapping[str, Any]]:
        def every(lab: Lab, seed: int) -> Mapping[str, Any]:
            return {f"{one} top20": figures_of(measure(lab, seed, one))["top20"] for one in others}

        return every

    def bm25(lab: Lab, seed: int, one: str) -> np.ndarray:
        return lab.ranking(one).of_bm25()

    def of_source(lab: Lab, seed: int, one: str) -> np.ndarray:
        return lab.ranking(one).of_model(lab.model(single(lab, seed, source)))

    def of_own(lab: Lab, seed: int, one: str) -> np.ndarray:
        return lab.ranking(one).of_model(lab.model(single(lab, seed, one)))

    away, at_home = f"trained on {source}", "trained on the set itself"
    claims = []
    for one in others:
        claims.append(Claim(f"Trained on {source}, it beats BM25 on {one}", away, "BM25", f"{one} top20"))
        claims.append(Claim(f"Training on {one} itself is better", at_home, away, f"{one} top20"))
    return Plan(
        title="Does a retriever carry over to other questions?",
        source="DPR, section 5.2 (trained on NQ, 3 to 5 points below in-domain training, well above BM25)",
        columns=[Column(f"{one} top20", f"{one} top-20") for one in others],
        arms=[
            Arm("BM25", columns_of(bm25), {}, seeded=False),
            Arm(away, columns_of(of_source)),
            Arm(at_home, columns_of(of_own)),
        ],
        claims=claims,
        caution=SMALLER,
    )
