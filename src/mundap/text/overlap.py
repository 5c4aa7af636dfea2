"""Overlap of two texts: a passage that was cut or edited differently is still the same passage."""

import itertools
import re
from collections.abc import Iterable, Sequence

from mundap.text.answers import tokens
from mundap.text.scripts import has_hangul, has_unspaced

_WORD = re.compile(r"[^\W_]+")
_STEM = 5  # letters by which a word is recognised whatever its ending
_NAME = 2.0  # what a name or a number counts, where another word counts 1
_COMMON = frozenset(
    _WORD.findall(
        "a about an and any are as at be been by can could did do does during ever for from had has have how i in into "
        "is it its many me much my named name of on or our s should tell that the their there these they this to type "
        "use used was we were what when where which who whom whose why will with would you your"
    )
)


def shingles(text: str, size: int = 3) -> frozenset[tuple[str, ...]]:
    """Every run of `size` tokens in a text; of a shorter text, all of it."""
    return runs_of(tokens(text), size)


def runs_of(words: list[str], size: int = 3) -> frozenset[tuple[str, ...]]:
    """Every run of `size` of these tokens; of fewer, all of them."""
    if not words:
        return frozenset()
    if len(words) < size:
        return frozenset([tuple(words)])
    return frozenset(zip(*(words[start:] for start in range(size)), strict=False))


def containment(left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]]) -> float:
    """The share of the smaller set that is in the other: 1 if one text is a part of the other."""
    smaller = min(len(left), len(right))
    if not smaller:
        return 0.0
    return len(left & right) / smaller


def question_words_in(question: str, texts: Iterable[str]) -> list[float]:
    """For each text the share of the question's words that it has, names and numbers counting double.

    Words are known by their first letters, as endings differ. Of Korean and of languages without spaces, pairs of
    letters take their place. A question without such words has all of them everywhere: 1.
    """
    if has_hangul(question) or has_unspaced(question):
        pairs = _pairs(question)
        return [_share_of_pairs(pairs, text) for text in texts]
    words = _weighted_words(question)
    return [_share_of_words(words, text) for text in texts]


def _weighted_words(question: str) -> list[tuple[str, float]]:
    """How each content word begins, and what it counts."""
    found = []
    for number, word in enumerate(_WORD.findall(question)):
        if word.lower() in _COMMON:
            continue
        weight = 1.0
        if word[0].isdigit() or (number > 0 and word[0].isupper()):
            weight = _NAME
        found.append((word.lower()[:_STEM], weight))
    return found


def _share_of_words(words: Sequence[tuple[str, float]], text: str) -> float:
    if not words:
        return 1.0
    beginnings = " " + " ".join(_WORD.findall(text.lower()))
    found = sum(weight for word, weight in words if f" {word}" in beginnings)
    return found / sum(weight for _, weight in words)


def _pairs(question: str) -> set[str]:
    """The pairs of letters within the question's words."""
    pairs: set[str] = set()
    for word in _WORD.findall(question.lower()):
        pairs.update(first + second for first, second in itertools.pairwise(word))
    return pairs


def _share_of_pairs(pairs: set[str], text: str) -> float:
    if not pairs:
        return 1.0
    text = text.lower()
    return sum(pair in text for pair in pairs) / len(pairs)
