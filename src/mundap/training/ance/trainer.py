"""The trainer: the dual encoder's, with negatives from the folder where it meets the inferencers."""

import logging
import random
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import torch

from mundap.errors import MundapError
from mundap.records import Context, Example
from mundap.training import checkpoints, loop, towers
from mundap.training.ance.corpus import ShardedCorpus
from mundap.training.ance.exchange import ExchangeFolder
from mundap.training.ance.inferencer import Inferencer
from mundap.training.ance.negatives import Generation, shared_settings
from mundap.training.batches import Batch, RetrieverBatches
from mundap.training.examples import ExampleFile
from mundap.training.learner import StepCallback, StepResult, TrainingResult
from mundap.training.processes import Processes
from mundap.training.recipe import AnceRecipe
from mundap.training.retriever import RetrieverLearner
from mundap.training.tokens import Tokens

_LOG = logging.getLogger(__name__)

EXCHANGE = "ance"
"""The folder where the two meet, in that of the run."""


def train(recipe: AnceRecipe, callback: StepCallback = lambda progress: None) -> TrainingResult:
    """Train with negatives from the whole corpus, or resume the run that was stopped.

    Raises:
        MundapError: The loss is not finite; the last good checkpoint is kept.
    """
    recipe = towers.with_similarity(recipe)
    return loop.run(recipe, lambda processes, scratch: _AnceLearner(recipe, processes, scratch), callback)


class _AnceLearner(RetrieverLearner):
    """A dual encoder whose hard negatives come from published generations."""

    def __init__(self, recipe: AnceRecipe, processes: Processes, scratch: Path) -> None:
        super().__init__(recipe, processes, scratch)
        self._ance = recipe
        self._exchange = ExchangeFolder(Path(recipe.output_dir) / EXCHANGE)
        self._corpus = ShardedCorpus(recipe)
        self._used = 0  # the batch under way
        self._wanted = -1
        self._damaged: set[int] = set()
        self._generation: Generation | None = None

    def batches_from(self, step: int) -> Generator[Batch]:
        """Yield batches from a step on, each with the newest negatives there are when it is asked for."""
        if self._processes.first:
            self._exchange.begin(step)
        self._processes.wait()
        self._publish_weights(step)
        while True:
            self._wanted = self._newest(step)
            with closing(self._batches_with(self._wanted).batches_from(step)) as stream:
                # What was prepared with older negatives is thrown away.
                while self._newest(step) == self._wanted:
                    batch = next(stream)
                    self._used = step
                    yield batch
                    step += 1
                    self._publish_weights(step)

    def _batches_with(self, wanted: int) -> RetrieverBatches:
        self._generation = None
        if wanted >= 0:
            self._generation = Generation.open(self._exchange, wanted)
        if self._generation and self._generation.index != self._corpus.generation:
            self._corpus = ShardedCorpus(self._ance)  # the index has changed since
        if wanted >= 0 and not self._same_everywhere():
            if self._processes.first:
                _LOG.warning(
                    "the negatives of batch %d are not used: %s", wanted, self._mismatch() or "not the same here"
                )
            self._generation = None
            self._damaged.add(wanted)
        return _AnceBatches(self.files, self._ance, self._tokens, self._processes, self._generation, self._corpus)

    def _same_everywhere(self) -> bool:
        """Whether all processes see the same complete generation, made for this run and this state of the index."""
        mine = -1
        if not self._mismatch():
            mine = self._corpus.generation
        every = self._processes.gather(torch.tensor([[mine]], device=self._processes.device))
        return mine >= 0 and bool((every == mine).all())

    def _mismatch(self) -> str:
        """Why the generation cannot be used; empty if it can."""
        if self._generation is None:
            return "they are damaged"
        ours, theirs = shared_settings(self._ance, self.files), self._generation.settings
        other = [f"{name} {theirs.get(name)}, not {ours[name]}" for name in ours if theirs.get(name) != ours[name]]
        if not other:
            return ""
        return f"the inferencer's recipe has {'; '.join(other)}"

    def _newest(self, step: int) -> int:
        """The generation to use, -1 for none: the same in all processes."""
        if self._ance.synchronous:
            return self._due(step)
        known = [one for one in self._exchange.published() if one <= step and one not in self._damaged]
        return int(self._processes.agree(max(known, default=-1)))

    def _due(self, step: int) -> int:
        """The batch at which the weights were last due; -1 before the first time."""
        first, every = self._ance.static_negative_batches, self._ance.refresh_batches
        if step < first:
            return -1
        return first + (step - first) // every * every

    def _publish_weights(self, step: int) -> None:
        """Publish the weights when they are due; in the synchronous mode, do the inferencer's work too."""
        due = self._due(step)
        if due < 0 or due == self._wanted:
            return
        if self._ance.synchronous:
            self._refresh(due, step)
        if due != step or not self._processes.first:
            return
        if not self._ance.synchronous:
            self._exchange.put_weights(step, self.model)
        oldest = min(checkpoints.steps(Path(self._ance.output_dir) / "checkpoints"), default=0)
        self._exchange.sweep(step, oldest * self._ance.gradient_accumulation_steps, self._ance.synchronous)

    def _refresh(self, due: int, step: int) -> None:
        """Make sure that the negatives of a step are there and complete."""
        whole = Generation.open(self._exchange, due) is not None
        if self._processes.agree(float(whole)):
            return
        current = due == step
        if self._processes.first:
            self._exchange.drop(due)
            if current:
                self._exchange.put_weights(due, self.model)
        self._processes.wait()
        if not self._exchange.has_weights(due):
            raise MundapError(
                f"{self._exchange.folder} has lost the negatives of batch {due} and the weights to find them: the run "
                "cannot be repeated from its last checkpoint. Start it again in another folder."
            )
        with torch.random.fork_rng():  # another model is built where the weights are not the current ones
            self._inferencer(current).round(due, current=current)
        self._processes.wait()

    def _inferencer(self, current: bool) -> Inferencer:
        """An inferencer in this process; for the current weights it uses the trainer's own model."""
        model = None
        if current:
            model = (self.model, self._tokens)
        return Inferencer(self._ance, self.files, self._exchange, self._processes.device, model)

    def backward(self, batch: Batch, scale: float) -> StepResult:
        """Add the gradient of a batch, and note how old its negatives are."""
        result = super().backward(batch, scale)
        if self._generation is None:
            return result
        return replace(result, negatives_age=self._used - self._generation.step)

    def save(self, folder: Path) -> None:
        """Write the model: that is the end of the run."""
        try:
            super().save(folder)
        finally:
            self._exchange.finish()


class _AnceBatches(RetrieverBatches):
    """Batches with negatives of one generation; without one, with the examples' own."""

    def __init__(
        self,
        sets: Sequence[ExampleFile],
        recipe: AnceRecipe,
        tokens: Tokens,
        processes: Processes,
        generation: Generation | None,
        corpus: ShardedCorpus,
    ) -> None:
        super().__init__(sets, recipe, tokens, processes.rank, processes.world)
        self._ance = recipe
        self._generation = generation
        self._corpus = corpus
        self._firsts = [0]  # the number of each set's first question
        for one in sets:
            self._firsts.append(self._firsts[-1] + len(one))

    def _negatives(self, example: Example, epoch: int, place: list[int]) -> list[Context]:
        if self._generation is None:
            return super()._negatives(example, epoch, place)
        rng = random.Random(f"{self._ance.seed} {epoch} {place} {self._generation.step}")  # noqa: S311
        question = self._firsts[place[0]] + place[1]
        found = self._generation.contexts(question, self._ance, self._corpus, rng)
        others = list(example.negatives)
        rng.shuffle(others)
        return found + others[: self._ance.random_negatives]
