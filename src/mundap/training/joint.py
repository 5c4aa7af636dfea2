"""Retriever and reader trained together. The passage encoder stays as it is.

By the sum of two losses, as the DPR paper tried (and found to be no better than one after the other): the question
encoder learns from the passages that the reader reads, and every passage of the batch is a negative for every question
it does not answer. Or, with the span loss `global_marginal`, by one likelihood for both, as in ORQA: the question
encoder's scores are part of it (`marginal_loss.py`).
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from mundap.encoder import checkpoints
from mundap.errors import UsageError
from mundap.models.weights import positions
from mundap.records import Context, Example
from mundap.training import towers
from mundap.training.batches import Batch, excluded_mask
from mundap.training.learner import StepResult
from mundap.training.processes import Processes
from mundap.training.reader import ReaderLearner
from mundap.training.reader_data import Group, ReaderBatch
from mundap.training.recipe import ReaderRecipe, RetrieverRecipe
from mundap.training.step import RetrieverStep, TowerForward
from mundap.training.tokens import Tokens


class JointLearner(ReaderLearner):
    """A reader, and a question encoder beside it."""

    def __init__(self, recipe: ReaderRecipe, processes: Processes, scratch: Path) -> None:
        if processes.world > 1:
            raise UsageError("joint training runs in one process: leave out torchrun, or `retriever`")
        super().__init__(recipe, processes, scratch)
        self._pair = RetrieverRecipe(
            base_model=recipe.retriever,
            towers="two",
            freeze_tower="passage",
            dropout=recipe.dropout,
            attention_dropout=recipe.attention_dropout,
            grad_cache=recipe.grad_cache,
            precision=recipe.precision,
            gradient_checkpointing=recipe.gradient_checkpointing,
            question_length=recipe.question_length,
            passage_length=_passage_length(Path(recipe.retriever)),
            seed=recipe.seed,
        )
        self._retriever, tokenizer = towers.build(self._pair)
        self._tokens = Tokens(tokenizer, self._pair)
        self._step = RetrieverStep(self._retriever, self._pair, processes, self._tokens.pad)
        self.model = torch.nn.ModuleDict({"reader": self.reader, "question": self._retriever.question})
        self._retriever.passage.to(processes.device)

    def backward(self, batch: ReaderBatch, scale: float) -> StepResult:
        """Add both gradients: reader and question encoder share no parameters."""
        if self._recipe.span_loss == "global_marginal":
            return self._marginal(batch, scale)
        result = super().backward(batch, scale)
        asked = [group for group in batch.groups if group.target is not None]
        if not asked:
            return result
        share = self._recipe.retriever_weight * len(asked) / batch.examples
        found = self._step.backward(self._as_batch(asked), scale * share)
        return StepResult(result.loss + share * found.loss, result.rank)

    def _marginal(self, batch: ReaderBatch, scale: float) -> StepResult:
        """Add the gradient of the likelihood that both share."""
        asked = self._tokens.questions([group.question.text for group in batch.groups])
        questions = TowerForward(self._retriever.question, asked, self._pair, self._tokens.pad)
        vectors = questions.vectors.requires_grad_()
        texts: list[tuple[str, str]] = []
        for group in batch.groups:
            texts += [(one.title, one.text) for one in group.passages]
        passages = TowerForward(self._retriever.passage, self._tokens.passages(texts), self._pair, self._tokens.pad)
        table = self._retriever.scores(vectors, passages.vectors)
        scores, first = [], 0
        for row, group in enumerate(batch.groups):
            last = first + len(group.passages)
            scores.append(table[row, first:last])
            first = last
        result = self._read(batch, scale, scores)
        questions.backward(vectors.grad)
        return result

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
            excluded_mask(examples, columns, owners, targets, self._pair, [group.match for group in groups]),
            0,
            len(groups),
        )

    def initial_model(self) -> Any:
        """Reader and question encoder before training."""
        start = towers.build(self._pair)[0]
        return torch.nn.ModuleDict({"reader": super().initial_model(), "question": start.question})

    def save(self, folder: Path) -> None:
        """The reader, and beside it the pair of encoders."""
        super().save(folder)
        towers.save(self._retriever, folder.with_name("retriever"))


def _passage_length(folder: Path) -> int:
    """The number of tokens of a passage that a retriever encodes.

    It is not the length of the reader's windows: the vectors must be those of an index made with this retriever.
    """
    loaded = checkpoints.open_checkpoint(folder, "passage")
    return min(loaded.settings.max_length, positions(loaded.network.config))
