"""Experiments of the papers, one command each. An experiment is a module with `run(task, tell)` and a line here."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from mundap.errors import UsageError

EXPERIMENTS = {
    "ance": (
        "mundap.reproduce.ance",
        "ANCE and other kinds of negatives compared: accuracy, overlap, loss, gradients, t-SNE",
    ),
}
"""Name: module and summary."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scale:
    """How large an experiment is.

    Attributes:
        questions: To train on.
        test: Held-back questions.
        passages: Of the corpus.
        steps: Of the warm-up, and of what comes after it.
        layers: Of the network.
        fresh: Of these so many upper ones start from chance.
        batch: Questions a step.
        length: Tokens of a passage.
        refresh: Batches between two refreshes of ANCE.
        seeds: Runs of everything.
    """

    questions: int
    test: int
    passages: int
    steps: int
    layers: int
    fresh: int
    batch: int
    length: int
    refresh: int
    seeds: int


SCALES = {
    "tiny": Scale(200, 60, 600, 8, 3, 2, 8, 64, 4, 2),
    "small": Scale(1500, 600, 4000, 100, 3, 2, 12, 64, 50, 3),
}
"""`tiny` shows that it runs; `small` is for two cores and an hour."""


@dataclass(frozen=True, slots=True)
class Task:
    """What an experiment is made with.

    Attributes:
        index: The pool of passages.
        train: Examples with hard negatives, as `mundap data make` writes them.
        test: Held-back questions with answers.
        start: A checkpoint.
        out: Where everything goes; an experiment that was stopped goes on there.
        scale: How large.
        in_batch: After the warm-up, also BM25's and ANCE's negatives together with the batch's.
    """

    index: Path
    train: Path
    test: Path
    start: Path
    out: Path
    scale: Scale
    in_batch: bool = False


def run(name: str, task: Task, tell: Tell = lambda line: None) -> dict[str, Any]:
    """Run an experiment, or go on with it; gives its figures, which are in OUT/results.json and OUT/report.html too.

    Raises:
        UsageError: There is no such experiment.
    """
    if name not in EXPERIMENTS:
        raise UsageError(f"no experiment {name!r}: choose one of {', '.join(EXPERIMENTS)}")
    found: dict[str, Any] = import_module(EXPERIMENTS[name][0]).run(task, tell)
    return found
