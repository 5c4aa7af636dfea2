"""Retriever and reader trained together, as the DPR paper tried (and found to be no better than one after the other).

The passage encoder stays as it is. The question encoder learns from the passages that the reader reads: every passage
of the batch is a negative for every question it does not answer. Its loss and the reader's are added.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from mundap.errors import UsageError
from mundap.models import checkpoint
from mundap.records import Context, Example
from mundap.training import towers
from mundap.training.batches import Batch, Tokens, left_out
from mundap.training.loop import Seen
from mundap.training.processes import Processes
from mundap.training.reader import ReaderLearner
from mundap.training.reader_data import Group, ReaderBatch
from mundap.training.recipe import ReaderRecipe, Recipe
from mundap.training.step import Step


class JointLearner(ReaderLearner):
    """A reader, and a question encoder beside it."""

    def __init__(self, recipe: ReaderRecipe, processes: Processes, scratch: Path) -> None:
        if processes.world > 1:
            raise UsageError("joint training runs in one process: leave out torchrun, or `retriever`")
        super().__init__(recipe, processes, scratch)
        normalized, longest = _manner(recipe.retriever)
        self._pair = Recipe(
            start=recipe.retriever,
            towers="two",
            freeze="passage",
            similarity="cosine" if normalized else "dot",
            temperature=0.05 if normalized else 1.0,
            dropout=recipe.dropout,
            attention_dropout=recipe.attention_dropout,
            cache=recipe.cache,
            precision=recipe.precision,
            recompute=recipe.recompute,
            question_length=recipe.question_length,
            passage_length=longest,
            seed=recipe.seed,
        )
        self._retriever, tokenizer = towers.build(self._pair)
        self._tokens = Tokens(tokenizer, self._pair)
        self._step = Step(self._retriever, self._pair, processes, self._tokens.pad)
        self.model = torch.nn.ModuleDict({"reader": self.reader, "question": self._retriever.question})
        self._retriever.passage.to(processes.device)

    def backward(self, batch: ReaderBatch, scale: float) -> Seen:
        """Both gradients: each encoder has its own parameters."""
        seen = super().backward(batch, scale)
        asked = [group for group in batch.groups if group.target is not None]
        if not asked:
            return seen
        share = self._recipe.retriever_weight * len(asked) / batch.examples
        found = self._step.backward(self._as_batch(asked), scale * share)
        return Seen(seen.loss + share * found.loss, seen.rank)

    def _as_batch(self, groups: list[Group]) -> Batch:
        columns: list[Context] = []
        owners: list[int] = []
        targets = np.zeros(len(groups), np.int64)
        for row, group in enumerate(groups):
            targets[row] = len(columns) + (group.target or 0)
            columns += group.passages
            owners += [row] * len(group.passages)
        examples = [Example(group.question, (group.passages[group.target or 0],)) for group in groups]
        return Batch(
            self._tokens.questions([group.question.text for group in groups]),
            self._tokens.passages([(one.title, one.text) for one in columns]),
            np.arange(len(columns)),
            targets,
            left_out(examples, columns, owners, targets, self._pair, [group.match for group in groups]),
            0,
            len(groups),
        )

    def at_start(self) -> Any:
        """Both as they were."""
        start = towers.build(self._pair)[0]
        return torch.nn.ModuleDict({"reader": super().at_start(), "question": start.question})

    def save(self, folder: Path) -> None:
        """The reader, and beside it the pair of encoders."""
        super().save(folder)
        towers.save(self._retriever, folder.with_name("retriever"))


def _manner(folder: str) -> tuple[bool, int]:
    """Whether a retriever's vectors are normalized, and how many tokens of a passage it encodes.

    That is not the length of the reader's windows: the passages' vectors must be those of an index made with it.
    """
    loaded = checkpoint.open_checkpoint(Path(folder), "passage")
    return loaded.recipe.normalized, min(loaded.recipe.max_length, checkpoint.positions(loaded.network.config))
