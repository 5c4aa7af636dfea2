"""Measure answers: exact match and F1, of anyone's predictions, of gold passages read, or of an index asked."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mundap import questions as _questions
from mundap.disk import apart, disk_errors, json_bytes, replacing
from mundap.errors import MundapError, UsageError
from mundap.evaluation import calibration
from mundap.evaluation.predictions import plain, read_predictions
from mundap.evaluation.runs import Faults, is_trec, read_run
from mundap.index.index import Index
from mundap.models.folder import READER, is_foreign
from mundap.models.reader import Reader, Scored
from mundap.reader.ask import FIRST, choose, found_for, settle
from mundap.records import Answer, Context, Hit, Passage, Question, Skipped
from mundap.text.answers import Mode, has_answer
from mundap.text.judge import judge

Counted = Callable[[Iterable[Any], str, int], Iterator[Any]]
Rule = Callable[[Question], Mode]
CUTS = (1, 5, 10)
_TOGETHER = 32  # questions read at a time
_UNANSWERABLE = "marked as unanswerable"  # by SQuAD 2.0, says `mundap.questions`


@dataclass(frozen=True, slots=True)
class Task:
    """What to measure.

    Attributes:
        questions: A file of questions with answers, SQuAD-shaped or any other.
        form: Its format, if that cannot be told from it.
        predictions: A file of predicted answers to score; nothing is read then.
        index: Where to search; without one each question's own passage is read.
        run: A file of results to read instead of searching.
        reader: A model folder, or the name of the shipped one.
        cuts: How many passages are read; the last is what the answers are taken from.
        mode: How to search.
        match: How answers are looked for; None: what each question suggests.
        removed: Whether to ask again without the documents that have the answer.
        ranking: How spans of different passages are compared; None: the reader's own way.
        retrieval_weight: How much the retrieval score counts in that; None: as the reader has it.
        early: Whether reading may end early, as it does in `mundap ask`.
        limit: How many of the questions.
        seed: Which of them.
        precision: Of the reader's weights.
        out: Where to write the predictions.
    """

    questions: str
    form: str | None = None
    predictions: str | None = None
    index: str | None = None
    run: str | None = None
    reader: str | None = None
    cuts: tuple[int, ...] = ()
    mode: Any = None
    match: Mode | None = None
    removed: bool = False
    ranking: str | None = None
    retrieval_weight: float | None = None
    early: bool = True
    limit: int | None = None
    seed: int = 0
    precision: Any = None
    out: str | None = None

    def __post_init__(self) -> None:
        if self.predictions and (self.index or self.run or self.out or self.removed):
            raise UsageError("--predictions is scored as it is: leave out -i, --run, --removed and --out")
        if self.run and self.index:
            raise UsageError("--run is read instead of an index: leave out -i")
        if self.removed and not (self.index or self.run):
            raise UsageError("--removed takes documents away: give -i or --run, and leave out --gold")
        if self.out:
            apart(self.out, self.questions, self.run)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question: what was predicted, how good that is, and how sure it was.

    Attributes:
        question: What was asked.
        text: The prediction.
        em: 0 or 1.
        f1: From 0 to 1.
        match: The rule it was judged by.
        confidence: From 0 to 1; None if nothing was read, as of a prediction file.
        features: What that was computed from.
        by_cut: Exact match by number of passages read.
        oracle: By number of passages found, whether one of them has the answer, be they read or not.
        without: The best answer when no document with the answer was to be had.
        first: Of the question as it is and without those documents, the best answer of the first few passages.
    """

    question: Question
    text: str
    em: float
    f1: float
    match: Mode = "string"
    confidence: float | None = None
    features: tuple[float, ...] = ()
    by_cut: Mapping[int, float] = field(default_factory=dict)
    oracle: Mapping[int, bool] = field(default_factory=dict)
    without: Answer | None = None
    first: tuple[Answer | None, Answer | None] = (None, None)


@dataclass(slots=True)
class Measured:
    """What was found out.

    Attributes:
        outcomes: One a question.
        threshold: The reader's.
        notes: What one should know before trusting the figures.
        skipped: Rows that could not be read.
    """

    outcomes: list[Outcome]
    threshold: float | None = None
    notes: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def rules(self) -> dict[str, int]:
        """How many questions were judged by which rule, the most frequent first."""
        return dict(Counter(row.match for row in self.outcomes).most_common())

    @property
    def match(self) -> str:
        """The one rule of all questions, or `auto` if there were several."""
        return next(iter(self.rules)) if len(self.rules) == 1 else "auto"

    def doubt(self, number: int, what: str) -> None:
        """Note something that makes figures other than one may expect."""
        if number:
            self.notes.append(f"{number:,} {what}")

    def as_dict(self) -> dict[str, Any]:
        """The figures as they stand in `--json` output; EM, F1 and the like in percent."""
        rows = self.outcomes
        found: dict[str, Any] = {
            "exact_match": _percent([row.em for row in rows]),
            "f1": _percent([row.f1 for row in rows]),
            "questions": len(rows),
            "match": self.match,
            "questions_by_match": self.rules,
        }
        if rows and len(rows[0].by_cut) > 1:
            cuts = list(rows[0].by_cut)
            found["exact_match_by_passages"] = {str(k): _percent([row.by_cut[k] for row in rows]) for k in cuts}
        if rows and rows[0].oracle:
            found["oracle"] = {str(k): _percent([row.oracle[k] for row in rows]) for k in rows[0].oracle}
        if any(row.confidence is not None for row in rows):
            found["confidence"] = self._believed()
        found["notes"] = self.notes
        found["skipped"] = [one.as_dict() for one in self.skipped[:1000]]
        found["skipped_count"] = len(self.skipped)
        return found

    def _believed(self) -> dict[str, Any]:
        """How far confidence is to be believed, over the questions for which something was read.

        The others have no confidence: as zeros, which are always right, they would make it look better than it is.
        """
        read = [row for row in self.outcomes if row.confidence is not None]
        sure, right = np.array([row.confidence for row in read]), np.array([row.em for row in read])
        share, threshold = calibration.coverage(sure, right)
        least = self.threshold or 0.0
        found = {
            "questions_read": len(read),
            "ece": round(calibration.expected_error(sure, right), 4),
            "coverage_at_90_precision": round(100 * share, 2),
            "threshold_for_that": round(threshold, 4),
            "threshold": least,
            "answered": _percent(sure >= least),
            "exact_match_of_answered": _percent(right[sure >= least]),
        }
        again = np.array([row.without is not None for row in read])
        if again.any():
            # The two sides are the same questions, or what sets them apart is which questions they are.
            sure, right = sure[again], right[again]
            lost = np.array([row.without.confidence for row in read if row.without is not None])
            both, truth = np.concatenate([sure, lost]), np.concatenate([right, np.zeros(len(lost))])
            found["questions_asked_again"] = len(lost)
            found["auroc_against_removed"] = round(calibration.auroc(sure, lost), 4)
            found["answered_though_removed"] = _percent(lost >= least)
            found["ece_with_removed"] = round(calibration.expected_error(both, truth), 4)
            share, threshold = calibration.coverage(both, truth)
            found["coverage_at_90_precision_with_removed"] = round(100 * share, 2)
        return found


def _percent(values: Any) -> float:
    return round(100 * float(np.mean(values)), 2) if len(values) else 0.0


def measure(task: Task, counted: Counted = lambda items, what, total: iter(items)) -> Measured:
    """Score predictions, or make them and score those.

    Args:
        task: What to measure.
        counted: Shows progress.
    """
    told, skipped = _questions.read_all(task.questions, task.form, distinct=False)
    everything = [question for question in _questions.unique(told) if isinstance(question, Question)]
    asked = [question for question in everything if question.answers]
    if not asked:
        raise MundapError(f"{task.questions}: no question in it has an answer")
    found = Measured([], skipped=[one for one in skipped if one.reason != _UNANSWERABLE])
    found.doubt(len(skipped) - len(found.skipped), "questions are marked as unanswerable: they are left out")
    found.doubt(len(everything) - len(asked), "questions have no answer: they are left out")
    asked = _questions.sample(asked, task.limit, task.seed)
    rule = _rule(task)
    if task.predictions:
        names = {question.id: before.id for question, before in zip(everything, told, strict=True)}
        _score(asked, names, task.predictions, found, rule)
    else:
        _Reading(task, found, rule).all(asked, counted)
    if task.out:
        rows = {row.question.id: row.text for row in found.outcomes}
        with disk_errors(Path(task.out)), replacing(Path(task.out)) as file:
            file.write(json_bytes(rows))
    return found


def _rule(task: Task) -> Rule:
    """How the answers of a question are looked for and judged: as told, or by what the question suggests."""
    if task.match:
        told = task.match
        return lambda question: told
    match = _questions.choose_match(task.questions, task.form)
    return lambda question: _questions.match_of(question, match)


def _score(asked: Sequence[Question], names: Mapping[str, str], path: str, found: Measured, rule: Rule) -> None:
    """Score a file of predictions; `names` has the ids as the questions' file has them."""
    known = read_predictions(path)
    missing = 0
    for question in asked:
        # An id that comes twice has been told apart, as in what we write; others have one prediction for both.
        possible = (question.id, names[question.id], plain(question.text))
        text = next((known[name] for name in possible if name in known), None)
        missing += text is None
        match = rule(question)
        em, overlap = judge(text or "", question.answers, match) if text is not None else (0.0, 0.0)
        found.outcomes.append(Outcome(question, text or "", em, overlap, match))
    if missing == len(asked):
        raise MundapError(f"{path}: no prediction in it is for any of the questions. Are the ids the same?")
    found.doubt(missing, "questions have no prediction: they count as wrong")


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be read for a question.

    Attributes:
        question: What is asked.
        match: How its answers are looked for.
        hits: What was found, best first.
        right: Which of those have the answer.
        known: Whether the reader knows the writing of the question; if not, nothing is read, as in `mundap ask`.
        deepest: How many are read.
        others: Those found when no document with the answer is to be had; as many are read.
    """

    question: Question
    match: Mode
    hits: list[Hit]
    right: list[bool]
    known: bool
    deepest: int
    others: list[int]

    @property
    def needed(self) -> list[int]:
        if not self.known:
            return []
        return sorted({*range(min(self.deepest, len(self.hits))), *self.others[: self.deepest]})

    def texts(self) -> list[tuple[str, str]]:
        return [(self.hits[n].passage.title, self.hits[n].passage.text) for n in self.needed]


class _Reading:
    """Answers made here."""

    def __init__(self, task: Task, found: Measured, rule: Rule) -> None:
        self._task = task
        self._found = found
        self._rule = rule
        self._reader = Reader.from_pretrained(task.reader or READER, precision=task.precision)
        self._reader.rank_by(task.ranking, task.retrieval_weight)
        found.threshold = self._reader.config.threshold
        self._cuts = tuple(sorted(set(task.cuts or CUTS)))
        self._open = bool(task.index or task.run)
        self._without = self._foreign = 0
        self._given: dict[str, list[Context]] = {}

    def all(self, asked: Sequence[Question], counted: Counted) -> None:
        if self._task.run:
            self._given = self._contexts(self._task.run, {plain(question.text) for question in asked})
        self._found.outcomes += counted(self._outcomes(asked), "reading", len(asked))
        self._found.doubt(self._without, "questions have no passage to read: they count as wrong")
        self._found.doubt(
            self._foreign, "questions are in a writing that the reader does not know: they count as wrong"
        )

    def _outcomes(self, asked: Sequence[Question]) -> Iterator[Outcome]:
        for start in range(0, len(asked), _TOGETHER):
            some = [self._plan(question, hits) for question, hits in self._passages(asked[start : start + _TOGETHER])]
            read = self._reader.read_batch([(one.question.text, one.texts()) for one in some])
            for plan, scored in zip(some, read, strict=True):
                yield self._outcome(plan, dict(zip(plan.needed, scored, strict=True)))

    def _plan(self, question: Question, hits: list[Hit]) -> _Plan:
        known = not is_foreign(question.text, self._reader.config.scripts)
        self._foreign += not known
        self._without += known and not hits
        match = self._rule(question)
        right = [has_answer(hit.passage.text, question.answers, match) for hit in hits]
        gone = {hit.passage.document for hit, has in zip(hits, right, strict=True) if has}
        kept = [number for number, hit in enumerate(hits) if hit.passage.document not in gone]
        others = kept[: found_for(self._cuts[-1])] if self._task.removed else []
        return _Plan(question, match, hits, right, known, self._cuts[-1], others)

    def _passages(self, asked: Sequence[Question]) -> Iterator[tuple[Question, list[Hit]]]:
        # Enough for as many again when those with the answer are taken away.
        size = found_for(self._cuts[-1]) * (3 if self._task.removed else 1)
        if self._task.run:
            for question in asked:
                contexts = self._given.get(plain(question.text), [])
                yield question, [_as_hit(one, place) for place, one in enumerate(contexts[:size], 1)]
        elif self._task.index:
            found = self._index.search_batch([question.text for question in asked], size, self._task.mode)
            yield from zip(asked, found, strict=True)
        else:
            for question in asked:
                yield question, [_as_hit(one, 1) for one in question.gold[:1] if one.text.strip()]

    @cached_property
    def _index(self) -> Index:
        return Index(self._task.index)

    def _contexts(self, path: str, asked: set[str]) -> dict[str, list[Context]]:
        """What a run has to read, by question."""
        if is_trec(path):
            raise MundapError(
                f"{path}: not DPR's json, and nothing else has texts to read: a TREC run names passages only. "
                "Give the .json that `mundap evaluate retrieval -o` writes, or search with -i."
            )
        faults, found, lost = Faults(), {}, 0
        for result in read_run(path, faults):
            name = plain(result.question.text)
            if name in asked:
                found[name] = [one for one in result.contexts if one.text.strip()]
                lost += len(result.contexts) - len(found[name])
        if not found:
            reason = f" {faults.skipped[0].source}: {faults.skipped[0].reason}." if faults.skipped else ""
            raise MundapError(f"{path}: none of the questions is in it.{reason} Give the run of these questions.")
        self._found.skipped += faults.skipped
        self._found.doubt(lost, f"passages of {Path(path).name} have no text: they are left out")
        return found

    def _outcome(self, plan: _Plan, read: Mapping[int, list[Scored]]) -> Outcome:
        question, hits, match = plan.question, plan.hits, plan.match
        cuts = self._cuts if self._open else ()
        oracle = {k: any(plan.right[:k]) for k in cuts}
        if not plan.needed:
            return Outcome(question, "", 0.0, 0.0, match, None, (), dict.fromkeys(cuts, 0.0), oracle)

        def best(numbers: Sequence[int], k: int) -> Answer | None:
            found = settle(
                self._reader,
                [hits[n] for n in numbers],
                lambda part: [read[n] for n in numbers[part]],
                whole=not self._task.early,
                k=k,
            )
            return found[0] if found else None

        def first(numbers: Sequence[int]) -> Answer | None:
            found = choose(self._reader, [hits[n] for n in numbers], [read[n] for n in numbers[:FIRST]])
            return found[0] if found else None

        by_cut, answer = {}, None
        for k in cuts or (1,):
            answer = best(range(min(found_for(k), len(hits))), k)
            by_cut[k] = judge(answer.text if answer else "", question.answers, match)[0]
        text = answer.text if answer else ""
        em, overlap = judge(text, question.answers, match)
        return Outcome(
            question,
            text,
            em,
            overlap,
            match,
            answer.confidence if answer else 0.0,
            answer.features if answer else (0.0,) * 3,
            by_cut if self._open else {},
            oracle,
            best(plan.others, plan.deepest) if plan.others else None,
            (first(range(min(found_for(plan.deepest), len(hits)))), first(plan.others) if plan.others else None),
        )


def _as_hit(context: Context, place: int) -> Hit:
    text = context.text
    return Hit(place, context.score, Passage(context.id, context.id, context.title, text, "", 0, len(text)))
