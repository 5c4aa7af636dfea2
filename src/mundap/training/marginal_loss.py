"""The marginal likelihood of the answer over passages and spans, as in ORQA (Lee et al. 2019).

P(b, s | q) is proportional to exp(S_retr(b, q) + S_read(b, s, q)) over all spans of all passages of a question's group.
S_read is the sum of the reader's logits of start, end and selection; S_retr is the retriever's score, or 0 where the
retriever does not learn.
"""

from collections.abc import Sequence
from typing import Any

import torch

from mundap.reader.inputs import Window
from mundap.training import losses
from mundap.training.reader_data import Group, Places
from mundap.training.recipe import ReaderRecipe


class MarginalLoss:
    """The loss of some groups. Windows are numbered through all groups, in order.

    Args:
        groups: Questions with their passages.
        recipe: The longest answer, and the weight of the early loss.
        device: Where to compute.
        retrieval: For each group the retriever's scores of its passages, or nothing.
    """

    def __init__(
        self, groups: Sequence[Group], recipe: ReaderRecipe, device: Any, retrieval: Sequence[Any] | None = None
    ) -> None:
        self._groups = groups
        self._recipe = recipe
        self._device = device
        self._retrieval = retrieval
        self.windows: list[Window] = []
        self._answers: list[Places] = []
        for group in groups:
            self.windows += group.windows
            self._answers += group.spans

    def of(self, chunks: Sequence[Sequence[int]], outputs: Sequence[tuple[Any, ...]]) -> tuple[Any, list[int]]:
        """The loss summed over the groups, and the rank of the best passage with the answer in each group.

        Args:
            chunks: The numbers of the windows that were run together.
            outputs: For each chunk the logits of starts and ends, and the selection scores.
        """
        every: list[Any] = [None] * len(self.windows)
        right: list[Any] = [None] * len(self.windows)
        for numbers, (starts, ends, scores) in zip(chunks, outputs, strict=True):
            for place, number in enumerate(numbers):
                masses = self._masses(number, starts[place], ends[place])
                every[number], right[number] = (scores[place] + mass for mass in masses)
        total, ranks, first = torch.zeros((), device=self._device), [], 0
        for row, group in enumerate(self._groups):
            last = first + len(group.windows)
            masses, answers = torch.stack(every[first:last]), torch.stack(right[first:last])
            if self._retrieval is not None:
                scores = self._retrieval[row]
                masses, answers = scores + masses, scores + answers
                early = _passage_nll(scores, group.answering)
                total = total + self._recipe.retriever_weight * early
            total = total + _nll(masses, answers)
            ranks.append(_rank(masses.detach(), group.answering))
            first = last
        return total, ranks

    def _masses(self, number: int, starts: Any, ends: Any) -> tuple[Any, Any]:
        """The log mass of all spans of a window's text, and of those that match the answer; minus infinity for none."""
        window, longest = self.windows[number], self._recipe.max_answer_length
        none = torch.full((), -torch.inf, device=self._device)
        text = slice(window.first, window.first + len(window.offsets))
        if not len(window.offsets):
            return none, none
        every = losses.span_mass(starts[text], ends[text], longest)
        matching = [(first, last) for first, last in self._answers[number] if last - first < longest]
        if not matching:
            return every, none
        begins, stops = zip(*matching, strict=True)
        return every, torch.logsumexp(starts[list(begins)] + ends[list(stops)], 0)


def _passage_nll(scores: Any, answering: int) -> Any:
    """ORQA's early loss: the negative log-likelihood by score alone of the passages with the answer, the first ones."""
    return torch.logsumexp(scores, 0) - torch.logsumexp(scores[:answering], 0)


def _nll(masses: Any, answers: Any) -> Any:
    """The negative log-likelihood of a group's answers; 0 if no window has one, as there is nothing to learn then."""
    matching = answers[answers.detach().isfinite()]
    if not len(matching):
        return 0 * masses[masses.detach().isfinite()].sum()  # with a graph, for the batch may have no other group
    return torch.logsumexp(masses, 0) - torch.logsumexp(matching, 0)


def _rank(masses: Any, answering: int) -> int:
    return 1 + int((masses > masses[:answering].max()).sum())
