"""Decide whether a passage is a negative of a question: the only place that does."""

from collections.abc import Collection, Sequence

import numpy as np

from mundap.records import Context, Example, Question
from mundap.text.answers import Mode, PassageText, has_answer, have_answer
from mundap.text.overlap import containment, shingles

DUPLICATE = 0.7
"""A passage that shares this part of the shorter text's shingles with a positive repeats it."""

Shingles = frozenset[tuple[str, ...]]


class NegativeRule:
    """Tells negatives from positives, near-duplicates of positives, and passages that contain an answer.

    Args:
        question: With its answers.
        positives: The passages known to answer it.
        match: How answers are matched.
        duplicate: A passage that shares this part of its text with a positive is a duplicate; None: do not look for
            duplicates.
        ids: Further ids of positives, such as those of their documents.
    """

    def __init__(
        self,
        question: Question,
        positives: Sequence[Context],
        match: Mode = "string",
        duplicate: float | None = DUPLICATE,
        ids: Collection[str] = (),
    ) -> None:
        self._answers = question.answers
        self._match: Mode = match
        self._duplicate = duplicate
        self._ids = {positive.id for positive in positives if positive.id}.union(ids)
        self._texts = {_one_line(positive.text) for positive in positives}
        self._positives: list[Shingles] = []
        if duplicate is not None:
            self._positives = [shingles(positive.text) for positive in positives]

    def is_negative(self, name: str, text: str, parts: Shingles | None = None) -> bool:
        """Whether a passage is a negative.

        Args:
            name: Its id, if it has one.
            text: Its text.
            parts: The shingles of that text, if they are known already.
        """
        return not self.has_answer(text) and self._is_other(name, text, parts)

    def are_negatives(self, passages: Sequence[PassageText]) -> list[bool]:
        """Which passages, told apart by their texts alone, are negatives."""
        holding = have_answer(passages, self._answers, self._match)
        return [not holds and self._is_other("", one.text) for one, holds in zip(passages, holding, strict=True)]

    def is_positive(self, name: str, text: str) -> bool:
        """Whether it is one of the positives, by id or by text."""
        return name in self._ids or _one_line(text) in self._texts

    def has_answer(self, text: str) -> bool:
        """Whether it contains an answer."""
        return has_answer(text, self._answers, self._match)

    def _is_other(self, name: str, text: str, parts: Shingles | None = None) -> bool:
        """Whether it neither is nor repeats a positive."""
        return not self.is_positive(name, text) and not self._repeats(text, parts)

    def _repeats(self, text: str, parts: Shingles | None) -> bool:
        if self._duplicate is None:
            return False
        if parts is None:
            parts = shingles(text)
        return any(containment(parts, one) >= self._duplicate for one in self._positives)


def negatives_in_batch(
    examples: Sequence[Example], passages: Sequence[Context], matches: Sequence[Mode], candidates: np.ndarray
) -> np.ndarray:
    """Which passages of a batch are negatives of which questions; told by their texts alone, duplicates allowed.

    Args:
        examples: The questions with their positives.
        passages: All passages of the batch.
        matches: How the answers of each question are matched.
        candidates: A row a question, a column a passage: where to look. All others are not negatives.
    """
    texts = [PassageText(one.text) for one in passages]
    found = np.zeros_like(candidates)
    for row, example in enumerate(examples):
        rule = NegativeRule(example.question, example.positives, matches[row], duplicate=None)
        places = np.flatnonzero(candidates[row])
        found[row, places] = rule.are_negatives([texts[place] for place in places])
    return found


def _one_line(text: str) -> str:
    return " ".join(text.split())
