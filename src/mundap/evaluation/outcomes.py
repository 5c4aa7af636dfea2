"""The outcome of each question under one system: the rank of the first passage that answers it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mundap.evaluation.metrics import first_rank, ranking_metrics
from mundap.records import Context, Question, Result
from mundap.text.answers import Mode, has_answer
from mundap.text.questions import plain

CUTS = (1, 5, 20, 100)
QREL_CUTS = (10, 100, 1000)

Lookup = Callable[[str], Context | None]
"""From a passage's id to its text."""

Gold = Sequence[Sequence[str]]
"""For each question the ids of the passages known to answer it."""


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """One question under one system.

    Attributes:
        question: What was asked.
        rank: Of the first passage that answers it; 0 if none does.
        gold: Of the first gold passage; 0 if none was found, None if none is known.
        found: The passage at `rank`.
        top: The passage at rank 1.
        values: Metrics by name, where relevance is judged.
    """

    question: Question
    rank: int
    gold: int | None = None
    found: Context | None = None
    top: Context | None = None
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class System:
    """All outcomes of one system, in the order of the questions.

    Attributes:
        name: What it is called.
        outcomes: One a question.
        missing: Questions it has no result for; they count as wrong.
        without_text: Passages whose text is not known, so that they count as wrong.
        disagreements: Passages where a file's own has_answer differs from ours.
        unmatched: Results of questions that were not asked, or that had one before; they do not count.
    """

    name: str
    outcomes: list[QuestionOutcome]
    missing: int = 0
    without_text: int = 0
    disagreements: int = 0
    unmatched: int = 0

    @property
    def judged(self) -> bool:
        """Whether the outcomes come from relevance judgements, not from answers."""
        return bool(self.outcomes and self.outcomes[0].values)

    @property
    def scale(self) -> float:
        """The factor that figures are shown with: accuracy in percent, metrics from 0 to 1."""
        if self.judged:
            return 1.0
        return 100.0

    def figures(self, cuts: Sequence[int]) -> dict[str, np.ndarray]:
        """The figures that systems are compared by: top-k accuracy or a metric for each question, from 0 to 1."""
        if self.judged:
            names = [name for name in self.outcomes[0].values if not name.startswith("precision")]
            return {name: self.values(name) for name in names}
        return {f"top-{k}": self.hits(k) for k in cuts}

    def figure_means(self, cuts: Sequence[int]) -> dict[str, float]:
        """The means of these over the questions, times `scale`."""
        if not self.outcomes:
            return dict.fromkeys(self.figures(cuts), 0.0)
        return {name: self.scale * float(column.mean()) for name, column in self.figures(cuts).items()}

    def hits(self, k: int) -> np.ndarray:
        """For each question whether it is answered within the top k."""
        return np.array([0 < outcome.rank <= k for outcome in self.outcomes], bool)

    def accuracy(self, cuts: Iterable[int]) -> dict[str, float]:
        """Percent of questions answered within the top k."""
        return {str(k): _percent(self.hits(k)) for k in cuts}

    def gold_accuracy(self, cuts: Iterable[int]) -> dict[str, float]:
        """Percent of the questions with a known gold passage that have it within the top k."""
        known = [outcome.gold for outcome in self.outcomes if outcome.gold is not None]
        if not known:
            return {}
        ranks = np.array([rank or np.inf for rank in known])
        return {str(k): _percent(ranks <= k) for k in cuts}

    def values(self, name: str) -> np.ndarray:
        """One metric for each question."""
        return np.array([outcome.values[name] for outcome in self.outcomes])

    def means(self) -> dict[str, float]:
        """The mean of each metric over the questions."""
        if not self.outcomes:
            return {}
        return {name: round(float(self.values(name).mean()), 6) for name in self.outcomes[0].values}


def _percent(right: np.ndarray) -> float:
    """A share in percent, to two places."""
    if not len(right):
        return 0.0
    return round(100 * float(np.mean(right)), 2)


def by_answers(
    name: str,
    questions: Sequence[Question],
    results: Iterable[Result],
    match: Mode = "string",
    lookup: Lookup | None = None,
    gold: Gold | None = None,
    watch: Callable[[Result], None] = lambda result: None,
) -> System:
    """Judge results by whether passages contain an answer.

    Args:
        name: Of the system.
        questions: All that were asked; those without a result count as wrong.
        results: In any order. They are matched by the question itself, or by its id.
        match: How answers are matched.
        lookup: Gives the text of passages that come without one.
        gold: Passages known to answer.
        watch: Called with each judged result, `has_answer` set.
    """
    system = System(name, [])
    outcomes: dict[int, QuestionOutcome] = {}
    if gold is None:
        gold = [()] * len(questions)
    for position, result in aligned(questions, results):
        if position is None:
            system.unmatched += 1
            continue
        question = questions[position]
        contexts = tuple(_judged(context, question, match, lookup, system) for context in result.contexts)
        watch(Result(question, contexts))
        outcomes[position] = _outcome(question, contexts, gold[position])
    system.missing = len(questions) - len(outcomes)
    for position, question in enumerate(questions):
        outcome = outcomes.get(position)
        if outcome is None:
            outcome = _outcome(question, (), gold[position])
        system.outcomes.append(outcome)
    return system


def _outcome(question: Question, contexts: Sequence[Context], gold: Sequence[str]) -> QuestionOutcome:
    """The outcome of a question whose passages are judged by the answers in them."""
    rank, found, top, gold_rank = 0, None, None, None
    if contexts:
        top = contexts[0]
    for place, context in enumerate(contexts, 1):
        if context.has_answer:
            rank, found = place, context
            break
    if gold:
        gold_rank = first_rank([context.id for context in contexts], set(gold))
    return QuestionOutcome(question, rank, gold_rank, found, top)


def _judged(context: Context, question: Question, match: Mode, lookup: Lookup | None, system: System) -> Context:
    if not context.text and lookup:
        known = lookup(context.id)
        if known:
            context = replace(context, text=known.text, title=known.title)
    if not context.text:
        system.without_text += context.has_answer is None
        return replace(context, has_answer=bool(context.has_answer))
    right = has_answer(context.text, question.answers, match)
    system.disagreements += context.has_answer is not None and context.has_answer != right
    return replace(context, has_answer=right)


def aligned(questions: Sequence[Question], results: Iterable[Result]) -> Iterator[tuple[int | None, Result]]:
    """Match each result to the position of its question, or None if there is none left.

    Questions are matched by text, or by id where a file has nothing else. One that occurs twice takes two results.
    """
    by_id: dict[str, list[int]] = {}
    by_text: dict[str, list[int]] = {}
    for position, question in enumerate(questions):
        by_id.setdefault(question.id, []).append(position)
        by_text.setdefault(plain(question.text), []).append(position)
    taken: set[int] = set()
    for result in results:
        asked = result.question
        if asked.text:
            places = by_text.get(plain(asked.text), [])
        else:
            places = by_id.get(asked.id, [])
        free = [place for place in places if place not in taken]
        same = [place for place in free if questions[place].id == asked.id]
        best = next(iter(same + free), None)
        if best is not None:
            taken.add(best)
        yield best, result


def by_qrels(
    name: str,
    qrels: Mapping[str, Mapping[str, int]],
    results: Iterable[Result],
    cuts: Iterable[int] = QREL_CUTS,
    level: int = 1,
    questions: Mapping[str, Question] | None = None,
    lookup: Lookup | None = None,
    watch: Callable[[Result], None] = lambda result: None,
) -> System:
    """Judge results by relevance judgements.

    Args:
        name: Of the system.
        qrels: Judgements. Every question in them counts, those without a result as 0.
        results: In any order, matched by question id. Questions that are not judged are passed over.
        cuts: The k of nDCG@k and the others.
        level: From which grade on a document is relevant (nDCG uses the grades themselves).
        questions: For the questions' texts.
        lookup: For the passages' texts.
        watch: Called with each judged result.
    """
    judge = _Judge(qrels, tuple(cuts), level, questions or {}, lookup)
    outcomes: dict[str, QuestionOutcome] = {}
    unmatched = 0
    for result in results:
        key = result.question.id
        if key not in qrels or key in outcomes:
            unmatched += 1
            continue
        watch(result)
        outcomes[key] = judge.outcome(result)
    missing = [key for key in qrels if key not in outcomes]
    for key in missing:
        outcomes[key] = judge.outcome(Result(Question(key, ""), ()))
    return System(name, [outcomes[key] for key in qrels], len(missing), unmatched=unmatched)


@dataclass(frozen=True, slots=True)
class _Judge:
    """Judges one result at a time by qrels; see `by_qrels`."""

    qrels: Mapping[str, Mapping[str, int]]
    cuts: tuple[int, ...]
    level: int
    questions: Mapping[str, Question]
    lookup: Lookup | None

    def outcome(self, result: Result) -> QuestionOutcome:
        key = result.question.id
        qrels = self.qrels[key]
        ranked = [context.id for context in result.contexts]
        rank = first_rank(ranked, {document for document, grade in qrels.items() if grade >= self.level})
        found = top = None
        if rank:
            found = self._with_text(result.contexts[rank - 1])
        if result.contexts:
            top = self._with_text(result.contexts[0])
        values = ranking_metrics(ranked, qrels, self.level, self.cuts)
        return QuestionOutcome(self.questions.get(key, result.question), rank, None, found, top, values)

    def _with_text(self, context: Context) -> Context:
        if context.text or self.lookup is None:
            return context
        known = self.lookup(context.id)
        if known is None:
            return context
        return replace(context, text=known.text, title=known.title)


def summary(system: System, cuts: Sequence[int]) -> dict[str, Any]:
    """The figures of a system as `--json` prints them."""
    if system.judged:
        return {"questions": len(system.outcomes), **system.means(), "missing": system.missing}
    found: dict[str, Any] = {"questions": len(system.outcomes), "accuracy": system.accuracy(cuts)}
    known = sum(outcome.gold is not None for outcome in system.outcomes)
    if known:
        found["gold"] = {"questions": known, "accuracy": system.gold_accuracy(cuts)}
    found["missing"] = system.missing
    if system.without_text:
        found["passages_without_text"] = system.without_text
    if system.disagreements:
        found["has_answer_disagreements"] = system.disagreements
    return found
