"""From the nearest passages of a question to its negatives, and from those to the ones of a batch."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from mundap.records import Context, Example
from mundap.text.answers import Mode, has_answer
from mundap.text.overlap import containment, shingles
from mundap.training.ance.corpus import ShardedCorpus
from mundap.training.ance.meeting import Meeting
from mundap.training.examples import ExampleFile
from mundap.training.recipe import AnceRecipe

_SAME = 0.8  # of the shorter text's shingles: a passage that repeats a positive
_REMEMBERED = 20_000


class Sieve:
    """Takes out of a ranking what is no negative: the positives, what repeats one, and what has the answer in it."""

    def __init__(self, corpus: ShardedCorpus) -> None:
        self._corpus = corpus
        self._shingles = lru_cache(_REMEMBERED)(lambda number: shingles(corpus.context(number).text))

    def wrong(self, example: Example, ranked: Sequence[int], match: Mode) -> list[int]:
        """The positions in a ranking, best first, of those that are negatives."""
        right = [shingles(one.text) for one in example.positives]
        names = {one.id for one in example.positives if one.id}
        if self._corpus.by_document:
            names |= {re.sub(r"#\d+$", "", name) for name in names}
        texts = {" ".join(one.text.split()) for one in example.positives}
        found = []
        for position, number in enumerate(ranked):
            if number < 0:
                break
            context = self._corpus.context(number)
            if context.id in names or " ".join(context.text.split()) in texts:
                continue
            if has_answer(context.text, example.question.answers, match):
                continue
            if any(containment(self._shingles(number), one) >= _SAME for one in right):
                continue
            found.append(position)
        return found


def manner(recipe: AnceRecipe, sets: Sequence[ExampleFile]) -> dict[str, Any]:
    """What a trainer and its inferencers, on whatever machines, must have in common for the lists to fit."""
    names = ("similarity", "towers", "question_length", "passage_length", "chunks", "chunk_words", "depth", "sampling")
    return {"questions": [len(one) for one in sets], **{name: getattr(recipe, name) for name in names}}


@dataclass(frozen=True, slots=True)
class Generation:
    """Published negatives, opened.

    Attributes:
        step: Of the weights they were found with.
        numbers: Training questions x depth: passage numbers, best first, then -1.
        scores: Their scores.
        positives: The score of each question's positive; only where the recipe samples by it.
        index: The generation of the index they were found in.
        manner: How they were looked for.
    """

    step: int
    index: int
    manner: Mapping[str, Any]
    numbers: np.ndarray
    scores: np.ndarray
    positives: np.ndarray | None

    @classmethod
    def open(cls, meeting: Meeting, step: int) -> "Generation | None":
        """The negatives of a step, if they are whole."""
        found = meeting.open_negatives(step)
        if found is None or "manner" not in found[1]:  # made by an older version
            return None
        arrays, facts = found
        numbers, scores, positives = arrays["numbers"], arrays["scores"], arrays.get("positives")
        return cls(int(facts["step"]), int(facts["index"]), facts["manner"], numbers, scores, positives)

    def sample(self, question: int, recipe: AnceRecipe, chance: random.Random) -> list[int]:
        """Passage numbers of this time's negatives of a training question."""
        numbers = self.numbers[question]
        listed = numbers[numbers >= 0].tolist()
        if recipe.sampling == "window":
            listed = listed[recipe.first - 1 : recipe.last] or listed[-recipe.hard :]
        elif recipe.sampling == "margin" and self.positives is not None:
            least = float(self.positives[question]) - recipe.gap
            near = int((self.scores[question][: len(listed)] >= least).sum())
            listed = listed[: max(near, recipe.hard)]
        return chance.sample(listed, min(recipe.hard, len(listed)))

    def contexts(
        self, question: int, recipe: AnceRecipe, corpus: ShardedCorpus, chance: random.Random
    ) -> list[Context]:
        """The same as texts; what the index has no more is left out."""
        drawn = np.array(self.sample(question, recipe, chance), np.uint64)
        return [corpus.context(number) for number in drawn[corpus.corpus.alive(drawn)].tolist()]
