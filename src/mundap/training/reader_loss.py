"""The reader's loss: passage selection, spans, and distillation of both from a teacher."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from mundap.reader.inputs import Window
from mundap.training import losses
from mundap.training.reader_data import Group, Places
from mundap.training.recipe import ReaderRecipe
from mundap.training.teacher import TeacherOutput


class ReaderLoss:
    """The loss of some groups. Windows are numbered through all groups, in order.

    Args:
        groups: Questions with their passages.
        recipe: Which losses, and their weights.
        teacher: The teacher's output for every window it was asked about, or nothing.
        device: Where to compute.
    """

    def __init__(
        self, groups: Sequence[Group], recipe: ReaderRecipe, teacher: Sequence[TeacherOutput | None] | None, device: Any
    ) -> None:
        self._groups = groups
        self._recipe = recipe
        self._teacher = teacher
        self._device = device
        self.windows: list[Window] = []
        self._answers: list[Places] = []
        weights: list[float] = []
        for group in groups:
            self.windows += group.windows
            self._answers += group.spans
            weights += self._weights(group)
        self._no_answer_weights = torch.tensor(weights, device=device)

    def _weights(self, group: Group) -> list[float]:
        """The weight of the "no span" loss of every window: shared among a group's windows without the answer."""
        weights = [0.0] * len(group.spans)
        without = group.spans.count([])
        for number, spans in enumerate(group.spans):
            if not spans and number != group.target:
                weights[number] = self._recipe.no_answer_span_weight / without
        return weights

    def of(self, chunks: Sequence[Sequence[int]], outputs: Sequence[tuple[Any, ...]]) -> tuple[Any, list[int]]:
        """The loss summed over the groups, and the rank of each positive in its group.

        Args:
            chunks: The numbers of the windows that were run together.
            outputs: For each chunk the logits of starts and ends, and the selection scores.
        """
        selection: list[Any] = [None] * len(self.windows)
        spans: list[Any] = [torch.zeros((), device=self._device)] * len(self.windows)
        for numbers, (starts, ends, scores) in zip(chunks, outputs, strict=True):
            for place, number in enumerate(numbers):
                selection[number] = scores[place]
            if not self._recipe.selection_only:
                values = self._span_losses(numbers, starts, ends)
                for place, number in enumerate(numbers):
                    spans[number] = values[place]
        total, ranks, first = torch.zeros((), device=self._device), [], 0
        for group in self._groups:
            last = first + len(group.windows)
            scores = torch.stack(selection[first:last])
            total = total + self._selection_loss(group, scores, first) + torch.stack(spans[first:last]).sum()
            if group.target is not None:
                ranks.append(1 + int((scores > scores[group.target]).sum()))
            first = last
        return total, ranks

    def _span_losses(self, numbers: Sequence[int], starts: Any, ends: Any) -> Any:
        """A value for each of some windows."""
        lengths = torch.tensor([len(self.windows[number].ids) for number in numbers], device=self._device)
        padding = torch.arange(starts.shape[1], device=self._device) >= lengths.unsqueeze(1)
        starts, ends = starts.masked_fill(padding, -torch.inf), ends.masked_fill(padding, -torch.inf)
        answers = [self._answers[number] for number in numbers]
        weights = self._no_answer_weights[torch.tensor(numbers, device=self._device)]
        values = losses.span_nll(starts, ends, answers, weights, self._recipe.span_loss == "hard_em")
        if self._teacher is None:
            return values
        taught = {row: one for row, number in enumerate(numbers) if (one := self._teacher[number]) is not None}
        if not taught:
            return values
        rows = torch.tensor(list(taught), device=self._device)
        windows = [self.windows[numbers[row]] for row in taught]
        distilled = _distilled(starts[rows], windows, [one.starts for one in taught.values()])
        distilled = distilled + _distilled(ends[rows], windows, [one.ends for one in taught.values()])
        distilled = distilled * torch.where(self._has_answer(numbers)[rows], 1.0, weights[rows])
        share = self._recipe.teacher_weight
        return values.index_copy(0, rows, (1 - share) * values[rows] + share * distilled)

    def _has_answer(self, numbers: Sequence[int]) -> Any:
        """Which of some windows hold an answer."""
        return torch.tensor([bool(self._answers[number]) for number in numbers], device=self._device)

    def _selection_loss(self, group: Group, scores: Any, first: int) -> Any:
        value = losses.selection_nll(scores, group.target)
        if self._teacher is None or self._recipe.distil == "spans":
            return value
        taught = self._teacher[first : first + len(scores)]
        theirs = scores.new_tensor([one.selection for one in taught if one is not None])
        share = self._recipe.teacher_weight
        return (1 - share) * value + share * losses.selection_distillation(scores, theirs)


def _distilled(logits: Any, windows: Sequence[Window], shares: Sequence[np.ndarray]) -> Any:
    """The cross-entropy of each row with the teacher's shares, over the tokens of the text and "no answer"."""
    targets, outside = torch.zeros_like(logits), torch.ones_like(logits, dtype=torch.bool)
    for number, (window, row) in enumerate(zip(windows, shares, strict=True)):
        targets[number, : len(row)] = torch.from_numpy(row)
        outside[number, 0] = False
        outside[number, window.first : window.first + len(window.offsets)] = False
    return losses.token_distillation(logits.masked_fill(outside, -torch.inf), targets)
