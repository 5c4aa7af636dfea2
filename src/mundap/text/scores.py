"""How good a predicted answer is: exact match and F1, as SQuAD and KorQuAD define them, or a pattern."""

import re
import string
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from mundap.text.answers import Mode, matches_pattern
from mundap.text.scripts import LATIN

Right = Literal["exact", "close"]
"""What counts as right where confidence is fitted and measured, see `is_right`."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_KOREAN_QUOTES = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))
_HALVES = (re.compile(r"\d"), re.compile(f"[{LATIN}]"))  # numbers and Latin words are not cut in two
_LABELS: dict[str, tuple[str, str]] = {
    "string": ("exact match (SQuAD)", "F1 of words (SQuAD)"),
    "cjk": ("exact match (KorQuAD)", "F1 of characters (KorQuAD)"),
    "regex": ("matches the pattern", "matches the pattern"),
}


def labels(rules: Collection[str]) -> tuple[str, str]:
    """The labels of exact match and F1 for answers judged by these rules."""
    if len(rules) == 1:
        return _LABELS[next(iter(rules))]
    return "exact match (each question by its rule)", "F1 (each question by its rule)"


def judge(text: str, answers: Sequence[str], match: Mode) -> tuple[float, float]:
    """Exact match and F1, each with the best of the answers.

    Args:
        text: The prediction.
        answers: Any one suffices.
        match: `string`: SQuAD's rule, F1 of words. `cjk`: KorQuAD's, F1 of characters. `regex`: both are 1 where one
            of the answers, regular expressions, matches.
    """
    if match == "regex":
        right = float(matches_pattern(text, answers))
        return right, right
    if match == "cjk":
        predicted, expected = _normalize_korean(text), [_normalize_korean(answer) for answer in answers]
        units = [list(answer.replace(" ", "")) for answer in expected]
        f1 = _best_f1(list(predicted.replace(" ", "")), units)
    else:
        predicted, expected = normalize(text), [normalize(answer) for answer in answers]
        f1 = _best_f1(predicted.split(), [answer.split() for answer in expected])
    return float(predicted in expected), f1


def is_right(text: str, answers: Sequence[str], match: Mode, rule: Right = "exact") -> bool:
    """Whether a predicted answer is right.

    Args:
        text: The prediction.
        answers: Any one suffices.
        match: How exact match is counted.
        rule: `exact`: by exact match. `close`: also where the prediction has more or less at its edges than an
            answer, as long as the shorter one is at least half of the longer one. 황금종려상 is right for
            칸 영화제 황금종려상, 10명 is wrong for 110명.
    """
    if judge(text, answers, match)[0]:
        return True
    return rule == "close" and match != "regex" and any(_is_close(text, answer) for answer in answers)


def normalize(answer: str) -> str:
    """SQuAD's form: lower-case, no punctuation, no articles, single spaces."""
    return " ".join(_ARTICLES.sub(" ", answer.lower().translate(_PUNCTUATION)).split())


def _normalize_korean(answer: str) -> str:
    """KorQuAD's form: brackets and quotes become spaces; no articles to drop."""
    return " ".join(answer.translate(_KOREAN_QUOTES).lower().translate(_PUNCTUATION).split())


def _best_f1(predicted: Sequence[str], expected: Iterable[Sequence[str]]) -> float:
    return max((_f1(predicted, units) for units in expected), default=0.0)


def _f1(predicted: Sequence[str], expected: Sequence[str]) -> float:
    same = sum((Counter(predicted) & Counter(expected)).values())
    if not same:
        return 0.0
    precision, recall = same / len(predicted), same / len(expected)
    return 2 * precision * recall / (precision + recall)


def _is_close(text: str, answer: str) -> bool:
    one, other = _normalize_korean(text), _normalize_korean(answer)
    short, long = sorted((one, other), key=lambda form: len(form.replace(" ", "")))
    letters = short.replace(" ", "")
    if not letters or 2 * len(letters) < len(long.replace(" ", "")):
        return False
    # Writers space words as they like, in Korean above all.
    for found in re.finditer(" ?".join(map(re.escape, letters)), long):
        before, after = long[: found.start()][-1:], long[found.end() :][:1]
        if not _cuts(before + letters[0]) and not _cuts(letters[-1] + after):
            return True
    return False


def _cuts(edge: str) -> bool:
    """Whether an edge between two characters goes through a number or a Latin word."""
    return any(len(kind.findall(edge)) == 2 for kind in _HALVES)
