"""The records of an evaluation of answers: the task, the outcome of each question, and the figures."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mundap.disk import apart
from mundap.errors import UsageError
from mundap.evaluation import calibration
from mundap.records import Answer, Question, Skipped
from mundap.text.answers import Mode
from mundap.text.scores import Right, is_right

Counted = Callable[[Iterable[Any], str, int], Iterator[Any]]
Rule = Callable[[Question], Mode]
CUTS = (1, 5, 10)


@dataclass(frozen=True, slots=True)
class AnswersTask:
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
        fusing: Options of hybrid search: `fusion`, `weight`, `scale`, as `Index.search` has them.
        match: How answers are matched; None: what each question suggests.
        removed: Whether to ask again without the documents that have the answer.
        right: What counts as right in the figures on confidence, see `mundap.text.scores`.
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
    fusing: Mapping[str, Any] = field(default_factory=dict)
    match: Mode | None = None
    removed: bool = False
    right: Right = "exact"
    ranking: str | None = None
    retrieval_weight: float | None = None
    early: bool = True
    limit: int | None = None
    seed: int = 0
    precision: Any = None
    out: str | None = None

    def __post_init__(self) -> None:
        if self.predictions and any((self.index, self.run, self.out, self.removed)):
            raise UsageError("predictions are scored as they are: no index, run, output or removed documents with them")
        if self.run and self.index:
            raise UsageError("a run is read instead of an index: give one of the two")
        if self.removed and not any((self.index, self.run)):
            raise UsageError("documents can be removed only from an index or a run: gold passages stand alone")
        if self.out:
            apart(self.out, self.questions, self.run)


@dataclass(frozen=True, slots=True)
class AnswerOutcome:
    """One question: what was predicted, how good that is, and how sure it was.

    Attributes:
        question: What was asked.
        text: The prediction.
        em: 0 or 1.
        f1: From 0 to 1.
        match: The rule it was judged by.
        confidence: From 0 to 1; None if nothing was read, as of a prediction file.
        threshold: Minimum confidence of an answer to this question.
        features: What that was computed from.
        by_cut: Exact match by number of passages read.
        oracle: By number of passages found, whether one of them has the answer, be they read or not.
        without: The best answer when the documents with the answer are removed.
        first: The best answers in the first few passages, with those documents and without them.
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
    threshold: float = 0.0


@dataclass(slots=True)
class AnswerFigures:
    """The figures of an evaluation of answers.

    Attributes:
        outcomes: Those of the questions that have an answer.
        unanswerable: Those of the questions that have none.
        right: What counts as right in the figures on confidence.
        notes: What affects the figures, one line each.
        skipped: Rows that could not be read.
    """

    outcomes: list[AnswerOutcome]
    unanswerable: list[AnswerOutcome] = field(default_factory=list)
    right: Right = "exact"
    notes: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def rules(self) -> dict[str, int]:
        """How many questions were judged by which rule, the most frequent first."""
        return dict(Counter(row.match for row in self.outcomes).most_common())

    @property
    def match(self) -> str:
        """The one rule of all questions, or `auto` if there were several."""
        if len(self.rules) == 1:
            return next(iter(self.rules))
        return "auto"

    def add_note(self, number: int, what: str) -> None:
        """Add a note on something that affects the figures, if it occurred at all."""
        if number:
            self.notes.append(f"{number:,} {what}")

    def as_dict(self) -> dict[str, Any]:
        """The figures as `--json` prints them; EM, F1 and the like in percent."""
        rows = self.outcomes
        found: dict[str, Any] = {
            "exact_match": _percent([row.em for row in rows]),
            "f1": _percent([row.f1 for row in rows]),
            "questions": len(rows),
            "match": self.match,
            "questions_by_match": self.rules,
            **self._by_passages(),
        }
        read = [row for row in rows if row.confidence is not None]
        if read:
            found["confidence"] = self._calibration(read)
        if self.unanswerable:
            found["unanswerable"] = self._refused()
        found["notes"] = self.notes
        found["skipped"] = [one.as_dict() for one in self.skipped[:1000]]
        found["skipped_count"] = len(self.skipped)
        return found

    def _by_passages(self) -> dict[str, dict[str, float]]:
        """Figures by the number of passages, where several were read."""
        found = {}
        if self.outcomes and len(self.outcomes[0].by_cut) > 1:
            found["exact_match_by_passages"] = _by_cut([row.by_cut for row in self.outcomes])
        if self.outcomes and self.outcomes[0].oracle:
            found["oracle"] = _by_cut([row.oracle for row in self.outcomes])
        return found

    def answered(self, row: AnswerOutcome) -> bool:
        """Whether an answer was given: it reaches the threshold, or, in a prediction file, it is not empty."""
        if row.confidence is None:
            return bool(row.text.strip())
        return row.confidence >= row.threshold

    def is_right(self, row: AnswerOutcome) -> bool:
        """Whether an answer counts as right where confidence is concerned."""
        return is_right(row.text, row.question.answers, row.match, self.right)

    def was_removed(self, row: AnswerOutcome) -> bool:
        """Whether a question was asked again and its answer was really gone.

        It was not where the best answer is right all the same: another document says it, in words that the rule of
        matching did not find.
        """
        without = row.without
        if without is None:
            return False
        return not is_right(without.text, row.question.answers, row.match, self.right)

    def _refused(self) -> dict[str, Any]:
        """How often unanswerable questions were answered, and SQuAD 2.0's figures over all questions."""
        given = [self.answered(row) for row in self.unanswerable]
        exact_match, f1 = [], []
        for row in self.outcomes:  # a question that is refused counts as wrong
            exact_match.append(row.em * self.answered(row))
            f1.append(row.f1 * self.answered(row))
        right = [float(not answered) for answered in given]
        return {
            "questions": len(given),
            "answered_though_unanswerable": _percent(given),
            "squad2_exact_match": _percent(exact_match + right),
            "squad2_f1": _percent(f1 + right),
        }

    def _calibration(self, read: Sequence[AnswerOutcome]) -> dict[str, Any]:
        """How well confidence is calibrated, over the questions for which something was read.

        Questions for which nothing was read have no confidence. Counted as 0, they would make calibration look better.
        """
        sure, right = np.array([row.confidence for row in read]), np.array([float(self.is_right(row)) for row in read])
        share, threshold = calibration.coverage(sure, right)
        least = np.array([row.threshold for row in read])
        found: dict[str, Any] = {
            "questions_read": len(read),
            "ece": round(calibration.expected_error(sure, right), 4),
            "coverage_at_90_precision": round(100 * share, 2),
            "threshold_for_that": round(threshold, 4),
            "threshold": sorted(set(least.tolist())),
            "answered": _percent(sure >= least),
            "exact_match_of_answered": _percent(np.array([row.em for row in read])[sure >= least]),
        }
        if len(found["threshold"]) == 1:  # there are several where languages or readers differ
            found["threshold"] = found["threshold"][0]
        if self.right != "exact":
            found["right"] = _percent(right)
            found["right_of_answered"] = _percent(right[sure >= least])
        again = [row for row in read if self.was_removed(row)]
        if again:
            found.update(self._against_removed(again))
        return found

    def _against_removed(self, again: Sequence[AnswerOutcome]) -> dict[str, Any]:
        """The same questions with and without the documents that have the answer.

        Only those that were asked again: both sides must be the same questions.
        """
        sure, right = np.array([row.confidence for row in again]), [float(self.is_right(row)) for row in again]
        lost = np.array([row.without.confidence for row in again if row.without is not None])
        least = np.array([row.threshold for row in again])
        both, truth = np.concatenate([sure, lost]), np.array(right + [0.0] * len(lost))
        return {
            "questions_asked_again": len(again),
            "auroc_against_removed": round(calibration.auroc(sure, lost), 4),
            "answered_though_removed": _percent(lost >= least),
            "ece_with_removed": round(calibration.expected_error(both, truth), 4),
            "coverage_at_90_precision_with_removed": round(100 * calibration.coverage(both, truth)[0], 2),
        }


def _by_cut(rows: Sequence[Mapping[int, float]]) -> dict[str, float]:
    """The mean in percent for each number of passages."""
    found = {}
    for k in rows[0]:
        found[str(k)] = _percent([row[k] for row in rows])
    return found


def _percent(values: Any) -> float:
    if not len(values):
        return 0.0
    return round(100 * float(np.mean(values)), 2)
