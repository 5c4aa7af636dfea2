"""Experiments of the papers, one command each. An experiment is a module with `run(task, tell)` and a line here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from mundap.errors import UsageError

Tell = Callable[[str], None]
S = TypeVar("S", bound="Scale")


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
    seeds: int


@dataclass(frozen=True, slots=True)
class AnceScale(Scale):
    """How large the ANCE experiment is.

    Attributes:
        refresh: Batches between two refreshes of ANCE.
    """

    refresh: int


@dataclass(frozen=True, slots=True)
class JointScale(Scale):
    """How large the experiment on joint training is. `steps` are those of the retriever.

    Attributes:
        reader_steps: Of a reader.
        reader_batch: Questions a step of it.
        window: Tokens of question, title and text.
        read: Passages that are read to answer a held-back question.
        shown: Passages a question in a reader's training: one with the answer, the rest without.
    """

    reader_steps: int
    reader_batch: int
    window: int
    read: int
    shown: int = 2


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment by name.

    Attributes:
        module: Where its `run` is.
        summary: In a line.
        scales: `tiny` shows that it runs; `small` is for two cores.
    """

    module: str
    summary: str
    scales: Mapping[str, Scale]


EXPERIMENTS = {
    "ance": Experiment(
        "mundap.reproduce.ance",
        "ANCE and other kinds of negatives compared: accuracy, overlap, loss, gradients, t-SNE",
        {
            "tiny": AnceScale(200, 60, 600, 8, 3, 2, 8, 64, seeds=2, refresh=4),
            "small": AnceScale(1500, 600, 4000, 100, 3, 2, 12, 64, seeds=3, refresh=50),
        },
    ),
    "joint": Experiment(
        "mundap.reproduce.joint",
        "Retriever and reader trained together, or one after the other: retrieval, exact match, F1",
        {
            "tiny": JointScale(
                200, 20, 400, 4, 3, 2, 8, 64, seeds=2, reader_steps=3, reader_batch=4, window=128, read=2
            ),
            "small": JointScale(
                1500, 250, 4000, 150, 3, 2, 12, 64, seeds=2, reader_steps=40, reader_batch=8, window=192, read=4
            ),
        },
    ),
}


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
        in_batch: Of `ance`: after the warm-up, also BM25's and ANCE's negatives together with the batch's.
        reader: Of `joint`: what readers start from, if it is not `start`.
    """

    index: Path
    train: Path
    test: Path
    start: Path
    out: Path
    scale: Scale
    in_batch: bool = False
    reader: Path | None = None


def sized(task: Task, kind: type[S]) -> S:
    """The task's scale, if it is of this kind.

    Raises:
        UsageError: It is another experiment's.
    """
    if not isinstance(task.scale, kind):
        raise UsageError(f"a {type(task.scale).__name__} is not this experiment's scale: give a {kind.__name__}")
    return task.scale


def experiment(name: str) -> Experiment:
    """The experiment with a name.

    Raises:
        UsageError: There is none.
    """
    if name not in EXPERIMENTS:
        raise UsageError(f"no experiment {name!r}: choose one of {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


def run(name: str, task: Task, tell: Tell = lambda line: None) -> dict[str, Any]:
    """Run an experiment, or go on with it; gives its figures, which are in OUT/results.json and OUT/report.html too.

    Raises:
        UsageError: There is no such experiment.
    """
    found: dict[str, Any] = import_module(experiment(name).module).run(task, tell)
    return found
