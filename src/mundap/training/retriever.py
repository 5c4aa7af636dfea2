"""The dual encoder as a learner."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

from mundap.training import loop, towers
from mundap.training.batches import Batch, RetrieverBatches
from mundap.training.examples import ExampleFile
from mundap.training.learner import DevFigures, StepCallback, StepResult, Tell, TrainingResult
from mundap.training.processes import Processes
from mundap.training.recipe import RetrieverRecipe
from mundap.training.step import RetrieverStep
from mundap.training.tokens import Tokens
from mundap.training.validate import dev_set, validate


def train(
    recipe: RetrieverRecipe, callback: StepCallback = lambda progress: None, tell: Tell = lambda line: None
) -> TrainingResult:
    """Train a dual encoder into the recipe's folder, or resume the run that was stopped there.

    Args:
        recipe: The settings.
        callback: Called after every step.
        tell: Called with what the recipe left to the checkpoint.

    Raises:
        MundapError: The loss is not finite; the last good checkpoint is kept.
    """
    loop.refuse_incomplete(recipe)
    complete = towers.with_similarity(recipe, tell)
    return loop.run(complete, lambda processes, scratch: RetrieverLearner(complete, processes, scratch), callback)


class RetrieverLearner:
    """Questions and passages into vectors, learnt from examples."""

    def __init__(self, recipe: RetrieverRecipe, processes: Processes, scratch: Path) -> None:
        self._recipe = recipe
        self._processes = processes
        self.files = [ExampleFile(one, scratch) for one in recipe.train]
        self._dev = [dev_set(ExampleFile(one, scratch), recipe.max_dev_questions) for one in recipe.dev]
        self.model, tokenizer = towers.build(recipe)
        self._tokens = Tokens(tokenizer, recipe)
        self._batches = RetrieverBatches(self.files, recipe, self._tokens, processes.rank, processes.world)
        self._step = RetrieverStep(self.model, recipe, processes, self._tokens.pad)

    @property
    def batches_per_epoch(self) -> int:
        """Batches in an epoch."""
        return self._batches.batches_per_epoch

    def batches_from(self, step: int) -> Generator[Batch]:
        """Yield batches from a step on, without end."""
        return self._batches.batches_from(step)

    def backward(self, batch: Batch, scale: float) -> StepResult:
        """Add the gradient of a batch."""
        return self._step.backward(batch, scale)

    def validate(self) -> DevFigures:
        """For each dev set, and over all: nll, rank, top-k."""
        return validate(self.model, self._dev, self._tokens, self._processes)

    def score(self, figures: DevFigures) -> float:
        """The figure that selects the checkpoint; higher is better."""
        return _score(figures, self._recipe)

    def initial_model(self) -> Any:
        """The model before training."""
        return towers.build(self._recipe)[0]

    def save(self, folder: Path) -> None:
        """Write the encoder, or the pair of them."""
        towers.save(self.model, folder)


def _score(figures: DevFigures, recipe: RetrieverRecipe) -> float:
    """The figure that selects the checkpoint, negated if lower is better."""
    value = figures["all"][recipe.metric]
    if recipe.metric.startswith("top"):
        return value
    return -value
