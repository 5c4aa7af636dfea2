"""Decide whether a passage is a negative of a question: the only place that does."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mundap.records import Context, Example, Question
from mundap.text.answers import Mode, PassageText, have_answer
from mundap.text.overlap import containment, runs_of

DUPLICATE = 0.7
"""A passage that shares this part of the shorter text's shingles with a positive repeats it."""


@dataclass
class Candidate(PassageText):
    """A passage that may be a negative. What it takes to tell is computed once, however many questions ask.

    Attributes:
        id: Its id, if it has one.
    """

    id: str = ""

    @cached_property
    def one_line(self) -> str:
        """Its text without regard to line breaks."""
        return " ".join(self.text.split())

    @cached_property
    def shingles(self) -> frozenset[tuple[str, ...]]:
        """Its runs of tokens, by which texts are compared."""
        return runs_of(self.tokens)


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
        self._duplicate = duplicate or 0.0
        self._ids = {positive.id for positive in positives if positive.id}.union(ids)
        known = [Candidate(positive.text) for positive in positives]
        self._texts = {one.one_line for one in known}
        self._positives: list[Candidate] = []
        if duplicate is not None:
            self._positives = known

    def is_negative(self, passage: Candidate) -> bool:
        """Whether a passage is a negative."""
        return self.are_negatives([passage])[0]

    def are_negatives(self, passages: Sequence[Candidate]) -> list[bool]:
        """Which of the passages are negatives."""
        holding = have_answer(passages, self._answers, self._match)
        return [not holds and self._is_other(one) for one, holds in zip(passages, holding, strict=True)]

    def is_positive(self, passage: Candidate) -> bool:
        """Whether it is one of the positives, by id or by text."""
        return passage.id in self._ids or passage.one_line in self._texts

    def has_answer(self, passage: Candidate) -> bool:
        """Whether it contains an answer."""
        return have_answer([passage], self._answers, self._match)[0]

    def _is_other(self, passage: Candidate) -> bool:
        """Whether it neither is nor repeats a positive."""
        if self.is_positive(passage):
            return False
        return not any(containment(passage.shingles, one.shingles) >= self._duplicate for one in self._positives)


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
    texts = [Candidate(one.text) for one in passages]
    found = np.zeros_like(candidates)
    for row, example in enumerate(examples):
        rule = NegativeRule(example.question, example.positives, matches[row], duplicate=None)
        places = np.flatnonzero(candidates[row])
        found[row, places] = rule.are_negatives([texts[place] for place in places])
    return found
