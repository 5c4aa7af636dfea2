"""ORQA's parts: what a retriever finds as training examples, the likeliest span, names of runs that stay."""

from dataclasses import dataclass

import numpy as np
import pytest

from mundap.records import Context, Question

pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def test_examples_are_the_best_passages_and_at_least_one_with_the_answer():
    from mundap.experiments.orqa import _FOUND, _example

    asked = Question("1", "q", ("gold",))

    def split(ranks):
        found = [Context(str(rank), "", "some gold" if rank in ranks else "none") for rank in range(1, 101)]
        example = _example(asked, found, "string")
        assert example.question is asked
        return [[int(one.id) for one in part] for part in (example.positives, example.hard)]

    best = list(range(1, _FOUND + 1))
    assert split({2, 5, 30}) == [[2, 5], [rank for rank in best if rank not in (2, 5)]]
    assert split({30, 40}) == [[30], best]
    assert split(set()) == [[], best]


def test_the_likeliest_span_by_enumeration():
    from mundap.experiments.reading import _likeliest
    from mundap.reader.inputs import Window
    from mundap.reader.runtime import Scored

    rng = np.random.default_rng(1)
    for _ in range(20):
        passages = []
        for sizes in ((6, 3), (4,), (0,)):
            row = []
            for size in sizes:
                offsets = np.stack([np.arange(size) * 10, np.arange(size) * 10 + 9], 1).reshape(-1, 2)
                logits = rng.normal(0, 3, (2, 2 + size))
                row.append(Scored(Window([1] * (2 + size), [0] * (2 + size), 2, offsets), *logits, rng.normal()))
            passages.append(row)
        retrieval = rng.normal(0, 2, 3)
        every = {}
        for number, row in enumerate(passages):
            for one in row:
                size = len(one.window.offsets)
                for first in range(size):
                    for last in range(first, min(first + 3, size)):
                        score = retrieval[number] + one.selection + one.starts[2 + first] + one.ends[2 + last]
                        every[score] = (number, 10 * first, 10 * last + 9)
        assert _likeliest(passages, retrieval, 3) == every[max(every)]
    assert _likeliest([passages[-1]], [0.0], 3) is None


def test_a_run_keeps_its_name_from_version_to_version(inputs):
    """Runs are found again by the hash of their recipe: a key with a default must not change it."""
    from mundap.experiments.lab import Lab
    from mundap.training.recipe import DataSet, ReaderRecipe

    @dataclass(frozen=True, slots=True, kw_only=True)
    class LaterRecipe(ReaderRecipe):
        added: float = 0.5

    LaterRecipe.__name__ = "ReaderRecipe"
    lab, sets = Lab(inputs), (DataSet("train.jsonl", match="string"),)
    changes = {"train": sets, "base_model": "base", "max_steps": 100, "seed": 1, "no_answer_ratio": 0.0}
    name = lab._claimed("x", 0, ReaderRecipe(**changes)).name
    assert lab._claimed("x", 0, LaterRecipe(**changes)).name == name
    assert lab._claimed("x", 0, LaterRecipe(**changes, added=0.6)).name != name
    assert lab._claimed("x", 0, ReaderRecipe(**changes, learning_rate=1e-3)).name != name
