"""Tune how much of an approximate index to search for a wanted recall, on a sample of its own passages."""

import math
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mundap.encoder.runtime import Encoder
from mundap.errors import UsageError
from mundap.index.corpus import Corpus
from mundap.index.sizes import Effort

K = 100
"""Hits that recall is measured on."""

QUESTIONS = 200
"""Of the sample. The recall found on it is within a point of that of other questions, nineteen times in twenty."""

_FEW_WORDS, _MANY_WORDS = 6, 14  # of a question
_CHOICES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # candidates a hit that are tried
_SCAN, _RANK = 1.0, 40.0  # what a scanned code and a re-ranked candidate cost, against each other


def sample_questions(corpus: Corpus, encoder: Encoder, count: int = QUESTIONS) -> np.ndarray:
    """Vectors of sample questions: a few consecutive words of passages. Whole passages would be far too easy."""
    chance = random.Random(0)  # noqa: S311
    passages = corpus.passages_at(corpus.sample(count, chance))
    return encoder.encode_questions([some_words(passage.text, chance) for passage in passages])


def some_words(text: str, chance: random.Random) -> str:
    """A few consecutive words of a text, about as many as a question has."""
    words = text.split()
    count = chance.randint(_FEW_WORDS, _MANY_WORDS)
    start = chance.randrange(max(1, len(words) - count))
    return " ".join(words[start : start + count])


class Tuned(NamedTuple):
    """What `tune` found.

    Attributes:
        effort: The cheapest that reaches the wanted recall on the sample, or the one that comes nearest.
        recall: What it reaches there.
    """

    effort: Effort
    recall: float


def check_recall(wanted: float) -> None:
    """Refuse a recall out of range.

    Raises:
        UsageError: It is out of range.
    """
    if not 0.5 <= wanted <= 0.999:
        raise UsageError(f"recall {wanted:g}: choose between 0.5 and 0.999; the exact index misses nothing")


def tune(
    search: Callable[[int, int], np.ndarray], truth: Sequence[np.ndarray], wanted: float, lists: int, passages: int
) -> Tuned:
    """The cheapest effort that finds the wanted share of the best passages.

    Args:
        search: From probes and a number of candidates to those of each question, best first by their codes.
        truth: The best passages of each question, by exact search.
        wanted: Share of them that is to be found.
        lists: How many the index has.
        passages: How many it has.
    """
    k = max(map(len, truth), default=0)
    reached: dict[Tuned, float] = {}  # what finds the wanted share, and its cost
    nearest = Tuned(Effort(1, 1), -1.0)
    for probes in _doubling(lists):
        scanning = _SCAN * probes * passages / lists
        found = search(probes, min(k * _CHOICES[-1], passages))
        for candidates in _CHOICES:
            tried = Tuned(Effort(probes, candidates), _recall([row[: k * candidates] for row in found], truth))
            if tried.recall >= wanted:
                reached[tried] = scanning + _RANK * k * candidates
            if tried.recall > nearest.recall:
                nearest = tried
        if reached and 2 * scanning > min(reached.values()):
            break  # twice the lists alone would cost more than what was found
    return min(reached, key=lambda one: reached[one], default=nearest)


def _doubling(lists: int) -> list[int]:
    """Numbers of probes to try: each about 1.4 times the one before."""
    steps = {min(lists, round(2 ** (step / 2))) for step in range(2 * math.ceil(math.log2(max(lists, 2))) + 1)}
    return sorted(steps)


def _recall(found: Sequence[np.ndarray], truth: Sequence[np.ndarray]) -> float:
    return float(np.mean([np.isin(want, have).mean() for have, want in zip(found, truth, strict=True)]))
