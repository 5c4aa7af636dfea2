"""How good a predicted answer is, by the rule its kind of answers asks for."""

from collections.abc import Collection, Sequence

from mundap.text.answers import Mode, matches_pattern
from mundap.text.scores import exact_match, exact_match_korean, f1, f1_korean


def judge(text: str, answers: Sequence[str], match: Mode) -> tuple[float, float]:
    """Exact match and F1: SQuAD's; KorQuAD's for `cjk`; for `regex` both are whether a pattern describes it."""
    if match == "regex":
        right = float(matches_pattern(text, answers))
        return right, right
    if match == "cjk":
        return exact_match_korean(text, answers), f1_korean(text, answers)
    return exact_match(text, answers), f1(text, answers)


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
