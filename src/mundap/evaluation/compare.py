"""Systems side by side: how sure the difference is, which questions changed sides, and why that may be."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

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
        """The case as it stands in `--json` output."""
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
    overlap = word_overlap(question.text, context)
    return {
        "id": context.id,
        "title": context.title,
        "text": context.text,
        "word_overlap": round(overlap, 3) if overlap is not None else None,
    }


def changed(first: System, second: System, k: int) -> list[ChangedQuestion]:
    """The questions that changed sides between two systems, in the order of the questions."""
    pairs = zip(first.outcomes, second.outcomes, strict=True)
    cases = (_case((first.name, left), (second.name, right), k) for left, right in pairs)
    return [case for case in cases if case is not None]


def _case(first: tuple[str, QuestionOutcome], second: tuple[str, QuestionOutcome], k: int) -> ChangedQuestion | None:
    good = [0 < outcome.rank <= k for _, outcome in (first, second)]
    if good[0] == good[1]:
        return None
    (winner, right), (loser, wrong) = (first, second) if good[0] else (second, first)
    return ChangedQuestion(right.question, winner, right.rank, right.found, loser, wrong.rank, wrong.top)


def alone(systems: Sequence[System], k: int) -> dict[str, list[ChangedQuestion]]:
    """For each system the questions that it, and no other, answers within the top k."""
    found: dict[str, list[ChangedQuestion]] = {system.name: [] for system in systems}
    for row in zip(*(system.outcomes for system in systems), strict=True):
        good = [position for position, outcome in enumerate(row) if 0 < outcome.rank <= k]
        if len(good) == 1 and len(systems) > 1:
            position = good[0]
            other = 1 if position == 0 else 0
            case = _case((systems[position].name, row[position]), (systems[other].name, row[other]), k)
            if case:
                found[systems[position].name].append(case)
    return found


def against_first(systems: Sequence[System], cuts: Sequence[int]) -> Differences:
    """For every system but the first, and every figure: how it differs from the first."""
    first = systems[0]
    return {
        system.name: {
            name: compare(left, right)
            for name, left, right in zip(
                figures(first, cuts), _columns(first, cuts), _columns(system, cuts), strict=True
            )
        }
        for system in systems[1:]
    }


def figures(system: System, cuts: Sequence[int]) -> list[str]:
    """What is compared: top-k accuracy, or the metrics where relevance is judged."""
    if judged(system):
        return [name for name in system.outcomes[0].values if not name.startswith("precision")]
    return [f"top-{k}" for k in cuts]


def means(system: System, cuts: Sequence[int]) -> list[float]:
    """The figures themselves: accuracy in percent, metrics from 0 to 1."""
    scale = 1.0 if judged(system) else 100.0
    return [scale * float(column.mean()) if len(column) else 0.0 for column in _columns(system, cuts)]


def judged(system: System) -> bool:
    """Whether the outcomes are of relevance judgements, not of answers."""
    return bool(system.outcomes and system.outcomes[0].values)


def _columns(system: System, cuts: Sequence[int]) -> list[np.ndarray]:
    if judged(system):
        return [system.values(name) for name in figures(system, cuts)]
    return [system.hits(k) for k in cuts]


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
    return sum(known) / len(known) if known else None


def comparison(systems: Sequence[System], cuts: Sequence[int], k: int, between: Differences) -> dict[str, Any]:
    """Two systems side by side, as `mundap compare --json` shows them."""
    first, second = systems
    cases = changed(first, second, k)
    left, right = first.hits(k), second.hits(k)
    scale = 1.0 if judged(first) else 100.0
    differences = between[second.name]
    rows = zip(figures(first, cuts), means(first, cuts), means(second, cuts), strict=True)
    won = {system.name: [case for case in cases if case.winner == system.name] for system in (first, second)}
    return {
        "systems": [first.name, second.name],
        "questions": len(first.outcomes),
        "missing": [first.missing, second.missing],
        "figures": {
            name: {"first": round(a, 4), "second": round(b, 4), **differences[name].as_dict(scale)}
            for name, a, b in rows
        },
        "k": k,
        "both": int((left & right).sum()),
        "only_first": int((left & ~right).sum()),
        "only_second": int((right & ~left).sum()),
        "neither": int((~left & ~right).sum()),
        "word_overlap": {name: _rounded(mean_overlap(one)) for name, one in won.items()},
        "changed": [case.as_dict() for case in cases],
    }


def _rounded(value: float | None) -> float | None:
    return round(value, 3) if value is not None else None


@lru_cache(maxsize=1)
def _analyzer() -> Analyzer:
    return Analyzer("en", best_hangul())
