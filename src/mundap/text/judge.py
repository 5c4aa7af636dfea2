"""How good a predicted answer is, by the rule its kind of answers asks for."""

import re
from collections.abc import Collection, Sequence
from typing import Literal

from mundap.text.answers import Mode, matches_pattern
from mundap.text.scores import exact_match, exact_match_korean, f1, f1_korean, normalize_korean
from mundap.text.scripts import LATIN

Right = Literal["exact", "close"]
"""What counts as right where confidence is fitted and measured, see `is_right`."""

_HALVES = (re.compile(r"\d"), re.compile(f"[{LATIN}]"))  # numbers and Latin words are not cut in two


def judge(text: str, answers: Sequence[str], match: Mode) -> tuple[float, float]:
    """Exact match and F1: SQuAD's; KorQuAD's for `cjk`; for `regex` both are whether a pattern describes it."""
    if match == "regex":
        right = float(matches_pattern(text, answers))
        return right, right
    if match == "cjk":
        return exact_match_korean(text, answers), f1_korean(text, answers)
    return exact_match(text, answers), f1(text, answers)


def is_right(text: str, answers: Sequence[str], match: Mode, rule: Right = "exact") -> bool:
    """Whether a predicted answer is right.

    Args:
        text: The prediction.
        answers: Any one suffices.
        match: How exact match is counted.
        rule: `exact`: by exact match. `close`: by what a person would say where it is a matter of taste at which word
            an answer begins and ends; it may also be an answer with more or less at its edges, if at least half of
            the longer one is the shorter one. 황금종려상 is right for 칸 영화제 황금종려상, 10명 is wrong for 110명.
    """
    if judge(text, answers, match)[0]:
        return True
    return rule == "close" and match != "regex" and any(_is_close(text, answer) for answer in answers)


def _is_close(text: str, answer: str) -> bool:
    short, long = sorted((normalize_korean(text), normalize_korean(answer)), key=lambda one: len(one.replace(" ", "")))
    letters = short.replace(" ", "")
    if not letters or 2 * len(letters) < len(long.replace(" ", "")):
        return False
    # People put spaces as they like, in Korean above all.
    for found in re.finditer(" ?".join(map(re.escape, letters)), long):
        before, after = long[: found.start()][-1:], long[found.end() :][:1]
        edges = (before + letters[0], letters[-1] + after)
        if not any(len(kind.findall(edge)) == 2 for kind in _HALVES for edge in edges):
            return True
    return False


_LABELS: dict[str, tuple[str, str]] = {
    "string": ("exact match (SQuAD)", "F1 of words (SQuAD)"),
    "cjk": ("exact match (KorQuAD)", "F1 of characters (KorQuAD)"),
    "regex": ("matches the pattern", "matches the pattern"),
}


def labels(rules: Collection[str]) -> tuple[str, str]:
    """What exact match and F1 are called where questions were judged by these rules: figures of two are no one's."""
    if len(rules) == 1:
        return _LABELS[next(iter(rules))]
    return "exact match (each question by its rule)", "F1 (each question by its rule)"
