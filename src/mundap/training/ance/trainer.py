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
from mundap.training import checkpoints, loop
from mundap.training.ance.corpus import ShardedCorpus
from mundap.training.ance.inferencer import Inferencer
from mundap.training.ance.meeting import Meeting
from mundap.training.ance.negatives import Generation, manner
from mundap.training.batches import Batch, Batches, Tokens
from mundap.training.examples import ExampleFile
from mundap.training.loop import Seen, Trained, Watcher
from mundap.training.processes import Processes
from mundap.training.recipe import AnceRecipe
from mundap.training.retriever import Retriever

_LOG = logging.getLogger(__name__)

MEETING = "ance"
"""The folder where the two meet, in that of the run."""


def train(recipe: AnceRecipe, watch: Watcher = lambda progress: None) -> Trained:
    """Train with negatives from the whole corpus, or go on with a run that was stopped.

    Raises:
        MundapError: The loss is no number any more; the last good checkpoint is kept.
    """
    return loop.run(recipe, lambda processes, scratch: _Ance(recipe, processes, scratch), watch)


class _Ance(Retriever):
    """A dual encoder whose hard negatives come from published generations."""

    def __init__(self, recipe: AnceRecipe, processes: Processes, scratch: Path) -> None:
        super().__init__(recipe, processes, scratch)
        self._ance = recipe
        self._meeting = Meeting(Path(recipe.out) / MEETING)
        self._corpus = ShardedCorpus(recipe)
        self._used = 0  # the batch under way
        self._wanted = -1
        self._damaged: set[int] = set()
        self._generation: Generation | None = None

    def since(self, step: int) -> Generator[Batch]:
        """Batches from a step on; each is made with the newest negatives there are when it is asked for."""
        if self._processes.first:
            self._meeting.begin(step)
        self._processes.wait()
        self._hand_over(step)
        while True:
            self._wanted = self._newest(step)
            with closing(self._batches_with(self._wanted).since(step)) as stream:
                # What was prepared with older negatives is thrown away.
                while self._newest(step) == self._wanted:
                    batch = next(stream)
                    self._used = step
                    yield batch
                    step += 1
                    self._hand_over(step)

    def _batches_with(self, wanted: int) -> Batches:
        self._generation = Generation.open(self._meeting, wanted) if wanted >= 0 else None
        if self._generation and self._generation.index != self._corpus.generation:
            self._corpus = ShardedCorpus(self._ance)  # the index has changed since
        if wanted >= 0 and not self._same_everywhere():
            if self._processes.first:
                _LOG.warning("the negatives of batch %d are not used: %s", wanted, self._unfit() or "not the same here")
            self._generation = None
            self._damaged.add(wanted)
        drawn = (self._generation, self._corpus) if self._generation else None
        return _AnceBatches(self.files, self._ance, self._tokens, self._processes, drawn)

    def _same_everywhere(self) -> bool:
        """Whether all processes have the whole generation, of the same state of the index, and made for this run."""
        fits = not self._unfit()
        mine = torch.tensor([[self._corpus.generation if fits else -1]], device=self._processes.device)
        every = self._processes.gather(mine)
        return bool((every == every[0]).all()) and fits

    def _unfit(self) -> str:
        """Why the generation cannot be trained with, if so."""
        if self._generation is None:
            return "they are damaged"
        ours, theirs = manner(self._ance, self.files), self._generation.manner
        other = [f"{name} {theirs.get(name)}, not {ours[name]}" for name in ours if theirs.get(name) != ours[name]]
        return f"the inferencer's recipe has {'; '.join(other)}" if other else ""

    def _newest(self, step: int) -> int:
        """The generation to use, -1 for none: the same in all processes."""
        if self._ance.synchronous:
            due = self._due(step)
            return due if due is not None else -1
        known = [one for one in self._meeting.published() if one <= step and one not in self._damaged]
        return int(self._processes.agree(float(known[-1] if known else -1)))

    def _due(self, step: int) -> int | None:
        """The batch at which the weights were last to be handed over."""
        own, every = self._ance.own, self._ance.refresh
        return None if step < own else own + (step - own) // every * every

    def _hand_over(self, step: int) -> None:
        """Give the weights away when their time has come; in the synchronous mode, do the inferencer's work too."""
        due = self._due(step)
        if due is None or due == self._wanted:
            return
        if self._ance.synchronous:
            self._refresh(due, step)
        elif due == step and self._processes.first:
            self._meeting.put_weights(step, self.model)
        if due == step and self._processes.first:
            oldest = checkpoints.steps(Path(self._ance.out) / "checkpoints")[:1]
            needed = oldest[0] * self._ance.accumulate if oldest else 0
            self._meeting.sweep(step, needed, self._ance.synchronous)

    def _refresh(self, due: int, step: int) -> None:
        """Make sure that the negatives of a step are there, and whole."""
        whole = Generation.open(self._meeting, due) is not None
        if self._processes.agree(float(whole)):
            return
        current = due == step
        if self._processes.first:
            self._meeting.drop(due)
            if current:
                self._meeting.put_weights(due, self.model)
        self._processes.wait()
        if not self._meeting.has_weights(due):
            raise MundapError(
                f"{self._meeting.folder} has lost the negatives of batch {due} and the weights to find them: the run "
                "cannot be repeated from its last checkpoint. Start it again in another folder."
            )
        with torch.random.fork_rng():  # another model is built where the weights are not the current ones
            self._inferencer(current).round(due, current=current)
        self._processes.wait()

    def _inferencer(self, current: bool) -> Inferencer:
        """An inferencer in this process; for the current weights it uses the trainer's own model."""
        model = (self.model, self._tokens) if current else None
        return Inferencer(self._ance, self.files, self._meeting, self._processes.device, model)

    def backward(self, batch: Batch, scale: float) -> Seen:
        """As ever; and how old the negatives were."""
        seen = super().backward(batch, scale)
        return replace(seen, stale=self._used - self._generation.step if self._generation else None)

    def save(self, folder: Path) -> None:
        """Write the model: that is the end of the run."""
        try:
            super().save(folder)
        finally:
            self._meeting.finish()


class _AnceBatches(Batches):
    """Batches with negatives of one generation; without one, with the examples' own."""

    def __init__(
        self,
        sets: Sequence[ExampleFile],
        recipe: AnceRecipe,
        tokens: Tokens,
        processes: Processes,
        drawn_from: tuple[Generation, ShardedCorpus] | None,
    ) -> None:
        super().__init__(sets, recipe, tokens, processes.rank, processes.world)
        self._ance = recipe
        self._drawn_from = drawn_from
        sizes = [len(one) for one in sets]
        self._firsts = [sum(sizes[:number]) for number in range(len(sizes))]

    def _negatives(self, example: Example, epoch: int, place: list[int]) -> list[Context]:
        if self._drawn_from is None:
            return super()._negatives(example, epoch, place)
        generation, corpus = self._drawn_from
        chance = random.Random(f"{self._ance.seed} {epoch} {place} {generation.step}")  # noqa: S311
        question = self._firsts[place[0]] + place[1]
        found = generation.contexts(question, self._ance, corpus, chance)
        others = list(example.negatives)
        chance.shuffle(others)
        return found + others[: self._ance.random]
