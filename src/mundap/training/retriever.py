"""The dual encoder as something to train."""

from collections.abc import Generator
from pathlib import Path
from typing import Any

from mundap.training import loop, towers
from mundap.training.batches import Batch, Batches, Tokens
from mundap.training.examples import ExampleFile
from mundap.training.loop import Figures, Seen, Trained, Watcher
from mundap.training.processes import Processes
from mundap.training.recipe import Recipe
from mundap.training.step import Step
from mundap.training.validate import dev_set, score, validate


def train(recipe: Recipe, watch: Watcher = lambda progress: None) -> Trained:
    """Train a dual encoder, or go on with a run that was stopped, in the recipe's folder.

    Raises:
        MundapError: The loss is no number any more; the last good checkpoint is kept.
    """
    return loop.run(recipe, lambda processes, scratch: Retriever(recipe, processes, scratch), watch)


class Retriever:
    """Questions and passages into vectors, learnt from examples."""

    def __init__(self, recipe: Recipe, processes: Processes, scratch: Path) -> None:
        self._recipe = recipe
        self._processes = processes
        self.files = [ExampleFile(one, scratch) for one in recipe.train]
        self._dev = [dev_set(ExampleFile(one, scratch), recipe.dev_limit) for one in recipe.dev]
        self.model, tokenizer = towers.build(recipe)
        self._tokens = Tokens(tokenizer, recipe)
        self._batches = Batches(self.files, recipe, self._tokens, processes.rank, processes.world)
        self._step = Step(self.model, recipe, processes, self._tokens.pad)

    @property
    def an_epoch(self) -> int:
        """Batches in an epoch."""
        return self._batches.an_epoch

    def since(self, step: int) -> Generator[Batch]:
        """Batches from a step on, for ever."""
        return self._batches.since(step)

    def backward(self, batch: Batch, scale: float) -> Seen:
        """Add the gradient of a batch."""
        return self._step.backward(batch, scale)

    def validate(self) -> Figures:
        """For each dev set, and over all: nll, rank, top-k."""
        return validate(self.model, self._dev, self._tokens, self._recipe, self._processes)

    def score(self, figures: Figures) -> float:
        """More is better."""
        return score(figures, self._recipe)

    def at_start(self) -> Any:
        """The model before training."""
        return towers.build(self._recipe)[0]

    def save(self, folder: Path) -> None:
        """Write the encoder, or the pair of them."""
        towers.save(self.model, folder)
