"""Exact match and F1 of a predicted answer, as SQuAD and KorQuAD define them."""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_KOREAN_QUOTES = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))


def normalize(answer: str) -> str:
    """SQuAD's form: lower-case, no punctuation, no articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def normalize_korean(answer: str) -> str:
    """KorQuAD's form: brackets and quotes become spaces; no articles to drop."""
    return " ".join(answer.translate(_KOREAN_QUOTES).lower().translate(_PUNCTUATION).split())


def exact_match(prediction: str, answers: Iterable[str]) -> float:
    """1.0 if the prediction equals any answer after normalisation."""
    return float(any(normalize(prediction) == normalize(answer) for answer in answers))


def f1(prediction: str, answers: Iterable[str]) -> float:
    """The best word overlap (F1) with any answer."""
    return _best(prediction, answers, lambda text: normalize(text).split())


def exact_match_korean(prediction: str, answers: Iterable[str]) -> float:
    """1.0 if the prediction equals any answer after KorQuAD's normalisation."""
    return float(any(normalize_korean(prediction) == normalize_korean(answer) for answer in answers))


def f1_korean(prediction: str, answers: Iterable[str]) -> float:
    """KorQuAD's F1: the best overlap counted in characters."""
    return _best(prediction, answers, lambda text: list(normalize_korean(text).replace(" ", "")))


def _best(prediction: str, answers: Iterable[str], units: Callable[[str], Sequence[str]]) -> float:
    predicted = units(prediction)
    return max((_overlap(predicted, units(answer)) for answer in answers), default=0.0)


def _overlap(predicted: Sequence[str], expected: Sequence[str]) -> float:
    same = sum((Counter(predicted) & Counter(expected)).values())
    if not same:
        return 0.0
    precision, recall = same / len(predicted), same / len(expected)
    return 2 * precision * recall / (precision + recall)
