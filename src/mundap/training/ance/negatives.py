"""From the nearest passages of a question to its negatives, and from those to the ones of a batch."""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from mundap.mining.rule import Candidate, NegativeRule
from mundap.records import Context, Example
from mundap.text.answers import Mode
from mundap.training.ance.corpus import ShardedCorpus
from mundap.training.ance.exchange import ExchangeFolder
from mundap.training.examples import ExampleFile
from mundap.training.recipe import AnceRecipe

_REMEMBERED = 20_000


class NegativeFilter:
    """Keeps the negatives of a ranking: not the positives, their near-duplicates, or passages with the answer."""

    def __init__(self, corpus: ShardedCorpus) -> None:
        self._corpus = corpus
        self._candidate = lru_cache(_REMEMBERED)(self._read)  # a passage is near many questions

    def _read(self, number: int) -> Candidate:
        context = self._corpus.context(number)
        return Candidate(context.text, context.id)

    def positions(self, example: Example, ranked: Sequence[int], match: Mode) -> list[int]:
        """The positions, best first, of the negatives in a ranking."""
        documents = set()
        if self._corpus.by_document:
            documents = {re.sub(r"#\d+$", "", one.id) for one in example.positives if one.id}
        rule = NegativeRule(example.question, example.positives, match, ids=documents)
        found = []
        for position, number in enumerate(ranked):
            if number < 0:
                break
            if rule.is_negative(self._candidate(number)):
                found.append(position)
        return found


def shared_settings(recipe: AnceRecipe, sets: Sequence[ExampleFile]) -> dict[str, Any]:
    """The settings that a trainer and its inferencers, on whatever machines, must share for the lists to fit."""
    names = ("similarity", "towers", "question_length", "passage_length", "chunks", "chunk_words", "top_k", "sampling")
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
        settings: The settings they were found with, see `shared_settings`.
    """

    step: int
    index: int
    settings: Mapping[str, Any]
    numbers: np.ndarray
    scores: np.ndarray
    positives: np.ndarray | None

    @classmethod
    def open(cls, exchange: ExchangeFolder, step: int) -> "Generation | None":
        """The negatives of a step, if they are complete."""
        found = exchange.open_negatives(step)
        if found is None or "settings" not in found[1]:  # made by an older version
            return None
        arrays, facts = found
        numbers, scores, positives = arrays["numbers"], arrays["scores"], arrays.get("positives")
        return cls(int(facts["step"]), int(facts["index"]), facts["settings"], numbers, scores, positives)

    def sample(self, question: int, recipe: AnceRecipe, rng: random.Random) -> list[int]:
        """Passage numbers of this time's negatives of a training question."""
        numbers = self.numbers[question]
        listed = numbers[numbers >= 0].tolist()
        if recipe.sampling == "window":
            listed = listed[recipe.first_rank - 1 : recipe.last_rank] or listed[-recipe.hard_negatives :]
        elif recipe.sampling == "margin" and self.positives is not None:
            least = float(self.positives[question]) - recipe.score_gap
            near = int((self.scores[question][: len(listed)] >= least).sum())
            listed = listed[: max(near, recipe.hard_negatives)]
        return rng.sample(listed, min(recipe.hard_negatives, len(listed)))

    def contexts(self, question: int, recipe: AnceRecipe, corpus: ShardedCorpus, rng: random.Random) -> list[Context]:
        """The same as texts; passages that were deleted from the index are left out."""
        drawn = np.array(self.sample(question, recipe, rng), np.uint64)
        return [corpus.context(number) for number in drawn[corpus.corpus.alive(drawn)].tolist()]
