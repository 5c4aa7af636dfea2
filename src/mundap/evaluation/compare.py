"""Compare systems: significance, the questions that only one of them answers, and the word overlap of those."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mundap.evaluation.outcomes import QuestionOutcome, System
from mundap.evaluation.significance import Difference, compare
from mundap.index.analyzer import Analyzer, best_hangul
from mundap.records import Context, Question
from mundap.text.questions import without_question_words

Differences = dict[str, dict[str, Difference]]
"""By system, by figure."""


@dataclass(frozen=True, slots=True)
class ChangedQuestion:
    """A question that one system answers within the top k and another does not.

    Attributes:
        question: What was asked.
        winner: The system that answers it.
        rank: Where.
        found: The passage that answers.
        loser: The other system.
        other_rank: Where that one answers it, if at all; 0 if not.
        top: What it has first instead.
    """

    question: Question
    winner: str
    rank: int
    found: Context | None
    loser: str
    other_rank: int
    top: Context | None

    def as_dict(self) -> dict[str, Any]:
        """The case as `--json` prints it."""
        return {
            "id": self.question.id,
            "question": self.question.text,
            "answers": list(self.question.answers),
            "found_by": self.winner,
            "rank": self.rank,
            "passage": _shown(self.question, self.found),
            "missed_by": self.loser,
            "other_rank": self.other_rank or None,
            "instead": _shown(self.question, self.top),
        }


def _shown(question: Question, context: Context | None) -> dict[str, Any] | None:
    if context is None:
        return None
    return {
        "id": context.id,
        "title": context.title,
        "text": context.text,
        "word_overlap": _rounded(word_overlap(question.text, context)),
    }


def changed(first: System, second: System, k: int) -> list[ChangedQuestion]:
    """The questions that one of two systems answers and the other does not, in the order of the questions."""
    pairs = zip(first.outcomes, second.outcomes, strict=True)
    cases = (_case((first.name, left), (second.name, right), k) for left, right in pairs)
    return [case for case in cases if case is not None]


def _case(first: tuple[str, QuestionOutcome], second: tuple[str, QuestionOutcome], k: int) -> ChangedQuestion | None:
    first_is_right, second_is_right = 0 < first[1].rank <= k, 0 < second[1].rank <= k
    if first_is_right == second_is_right:
        return None
    if second_is_right:
        first, second = second, first
    (winner, right), (loser, wrong) = first, second
    return ChangedQuestion(right.question, winner, right.rank, right.found, loser, wrong.rank, wrong.top)


def answered_by_one(systems: Sequence[System], k: int) -> dict[str, list[ChangedQuestion]]:
    """For each system the questions that it, and no other, answers within the top k."""
    found: dict[str, list[ChangedQuestion]] = {system.name: [] for system in systems}
    for row in zip(*(system.outcomes for system in systems), strict=True):
        good = [position for position, outcome in enumerate(row) if 0 < outcome.rank <= k]
        if len(good) == 1 and len(systems) > 1:
            winner = good[0]
            other = 0
            if winner == 0:
                other = 1
            case = _case((systems[winner].name, row[winner]), (systems[other].name, row[other]), k)
            if case:
                found[systems[winner].name].append(case)
    return found


def against_first(systems: Sequence[System], cuts: Sequence[int]) -> Differences:
    """The difference of every system from the first, for every figure."""
    first = systems[0].figures(cuts)
    found: Differences = {}
    for system in systems[1:]:
        figures = system.figures(cuts)
        found[system.name] = {name: compare(first[name], figures[name]) for name in first}
    return found


def word_overlap(question: str, context: Context) -> float | None:
    """The share of the question's content words that are in a passage or its title; None if either is empty."""
    wanted = set(_analyzer().question_terms(without_question_words(question)))
    if not wanted or not (context.text or context.title):
        return None
    return len(wanted & set(_analyzer().terms(f"{context.title}\n{context.text}"))) / len(wanted)


def mean_overlap(cases: Sequence[ChangedQuestion]) -> float | None:
    """The mean word overlap of questions with the passages that answer them."""
    shares = [word_overlap(case.question.text, case.found) for case in cases if case.found]
    known = [share for share in shares if share is not None]
    if not known:
        return None
    return sum(known) / len(known)


def comparison(systems: Sequence[System], cuts: Sequence[int], k: int, between: Differences) -> dict[str, Any]:
    """Two systems side by side, as `mundap compare --json` shows them."""
    first, second = systems
    cases = changed(first, second, k)
    left, right = first.hits(k), second.hits(k)
    means = first.figure_means(cuts), second.figure_means(cuts)
    figures: dict[str, dict[str, Any]] = {}
    for name, difference in between[second.name].items():
        values = {"first": round(means[0][name], 4), "second": round(means[1][name], 4)}
        figures[name] = {**values, **difference.as_dict(first.scale)}
    overlaps: dict[str, float | None] = {}
    for system in systems:
        won = [case for case in cases if case.winner == system.name]
        overlaps[system.name] = _rounded(mean_overlap(won))
    return {
        "systems": [first.name, second.name],
        "questions": len(first.outcomes),
        "missing": [first.missing, second.missing],
        "figures": figures,
        "k": k,
        "both": int((left & right).sum()),
        "only_first": int((left & ~right).sum()),
        "only_second": int((right & ~left).sum()),
        "neither": int((~left & ~right).sum()),
        "word_overlap": overlaps,
        "changed": [case.as_dict() for case in cases],
    }


def _rounded(value: float | None) -> float | None:
    if value is None:
        return None
    return round(value, 3)


@lru_cache(maxsize=1)
def _analyzer() -> Analyzer:
    return Analyzer("en", best_hangul())
