"""The interface between the training loop and a learner."""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mundap.training.examples import ExampleFile

DevFigures = dict[str, dict[str, float]]
"""For each dev set, and for `all` together: figures by name."""


def with_means(figures: DevFigures) -> DevFigures:
    """The figures of dev sets, with their means over the sets as `all`."""
    if not figures:
        return figures
    means = {}
    for name in next(iter(figures.values())):
        means[name] = sum(one[name] for one in figures.values()) / len(figures)
    return {**figures, "all": means}


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one step measured.

    Attributes:
        loss: The mean loss of the batch.
        rank: The mean rank of the positive among the passages it competes with.
        negatives_age: With ANCE, how many batches ago the negatives' model was the current one.
        grad_norm: The norm of the gradient before clipping; known when all processes' gradients are summed.
    """

    loss: float
    rank: float
    negatives_age: int | None = None
    grad_norm: float = 0.0


class Learner(Protocol):
    """A model with its data and its loss."""

    model: Any
    files: list[ExampleFile]
    """The training sets."""

    @property
    def batches_per_epoch(self) -> int:
        """Batches in an epoch."""

    def batches_from(self, step: int) -> Generator[Any]:
        """Yield batches from a step on, without end."""

    def backward(self, batch: Any, scale: float) -> StepResult:
        """Add this process's part of the gradient of the mean loss over the whole batch, times `scale`."""

    def validate(self) -> DevFigures:
        """Measure the model on the dev sets: the same figures for any number of processes."""

    def score(self, figures: DevFigures) -> float:
        """The figure that selects the checkpoint; higher is better."""

    def initial_model(self) -> Any:
        """The model as it was before training."""

    def save(self, folder: Path) -> None:
        """Write the model for others to load."""


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """Where a run is, for its callback."""

    step: int
    steps: int
    result: StepResult
    learning_rate: float
    examples_per_second: float


StepCallback = Callable[[TrainingProgress], None]
Tell = Callable[[str], None]
"""Takes a line for the user."""


@dataclass(slots=True)
class TrainingResult:
    """What a run came to.

    Attributes:
        model: The folder of the trained model.
        steps: Optimizer steps done in all.
        best_step: The step whose weights were kept.
        averaged: The number of steps whose weights were averaged instead, where that was no worse.
        before: Dev figures of the base model.
        figures: Dev figures of the kept weights.
        stopped: Why the run ended.
        left_out: For each training file how many of its rows were not used, and why.
        resumed: The step from which the run was resumed, if it was.
        seconds: Time this process took.
    """

    model: str
    steps: int = 0
    best_step: int = 0
    averaged: int = 0
    before: DevFigures = field(default_factory=dict)
    figures: DevFigures = field(default_factory=dict)
    stopped: str = ""
    left_out: dict[str, dict[str, int]] = field(default_factory=dict)
    resumed: int = 0
    seconds: float = 0.0
