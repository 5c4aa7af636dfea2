"""How much two texts have in common: the same passage cut or edited differently is still the same passage."""

import re

from mundap.text.answers import tokens
from mundap.text.scripts import has_hangul, has_unspaced

SHINGLE = 3

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


def shingles(text: str, size: int = SHINGLE) -> frozenset[tuple[str, ...]]:
    """Every run of `size` tokens in a text; of a shorter text, all of it."""
    words = tokens(text)
    if len(words) < size:
        return frozenset([tuple(words)] if words else [])
    return frozenset(zip(*(words[start:] for start in range(size)), strict=False))


def containment(left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]]) -> float:
    """The share of the smaller set that is in the other: 1 if one text is a part of the other."""
    smaller = min(len(left), len(right))
    return len(left & right) / smaller if smaller else 0.0


def question_words_in(question: str, text: str) -> float:
    """The share of a question's words that a passage has, names and numbers counting double; 1 if there are none.

    Words are known by their first letters, as endings differ. Of Korean and of languages without spaces, pairs of
    letters take their place.
    """
    if has_hangul(question) or has_unspaced(question):
        text = text.lower()
        pairs = {word[n : n + 2] for word in _WORD.findall(question.lower()) for n in range(len(word) - 1)}
        return sum(pair in text for pair in pairs) / len(pairs) if pairs else 1.0
    beginnings = " " + " ".join(_WORD.findall(text.lower()))
    found = total = 0.0
    for number, match in enumerate(_WORD.finditer(question)):
        word = match.group()
        if word.lower() in _COMMON:
            continue
        is_name = word[0].isdigit() or (number > 0 and word[0].isupper())
        weight = _NAME if is_name else 1.0
        total += weight
        found += weight * (f" {word.lower()[:_STEM]}" in beginnings)
    return found / total if total else 1.0
