"""Fit a reader's confidence, the threshold of an answer, and the confidence at which reading stops early."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, get_args

import numpy as np

from mundap.errors import MundapError, UsageError
from mundap.evaluation import calibration
from mundap.evaluation.answers import AnswerFigures, AnswerOutcome, AnswersTask, Counted, measure
from mundap.models.folder import FittedConfidence, installed
from mundap.reader.confidence import FEATURES, confidence
from mundap.reader.runtime import Reader
from mundap.records import Answer
from mundap.text.language import Group, group

_CHANGED = 0.005  # the largest share of answers that may be others for not reading on
_ANSWERED = 0.1  # and of questions whose documents are gone that may be answered all the same
_SAFELY_ANSWERED = 0.07  # with so few of those the threshold may be lower than the best F1 asks for, see `fit`
_LEAST_SURE = 0.25  # but no lower: what is wrong three times in four is no help
_FEWEST = 50  # cases to fit on
_FEWEST_OF_GROUP = 100  # and for languages to have a confidence of their own


def fit(
    task: AnswersTask,
    counted: Counted = lambda items, what, total: iter(items),
    answered_though_removed: float = _SAFELY_ANSWERED,
) -> dict[str, Any]:
    """Fit a reader's confidence and thresholds on questions it was not trained on, and keep them with it.

    Half of the cases are the questions as they are, half without the documents that have the answer. A group of
    languages with enough questions gets a confidence of its own; the general one is fitted on the other questions, or
    on all if those are too few. The figures come from cross-fitting: each question is judged by a curve that was fitted
    without it. A way of ranking that the task asks for is kept as well.

    Args:
        task: The questions, the index, and the reader, whose config is changed.
        counted: Shows progress.
        answered_though_removed: The share of questions without their documents that may be answered for the threshold
            to be lower than the best F1 asks for. Some of them are answered right: another document has the answer
            in words that matching does not find, so that more than 7 % may be right for sets where that is frequent.

    Raises:
        UsageError: The reader is the one that comes with the package.
        MundapError: There are too few questions.
    """
    if not task.reader or task.reader in installed():
        raise UsageError("the packaged reader stays as it is: copy its folder, and fit the copy")
    reader = Reader.from_pretrained(task.reader, ranking=task.ranking, retrieval_weight=task.retrieval_weight)
    found = measure(replace(task, removed=True, early=False), counted)
    outcomes = [row for row in found.outcomes if row.confidence is not None]
    unread = len(found.outcomes) - len(outcomes)
    found.add_note(unread, "questions were not read (a script that the reader does not know?): they teach nothing")
    general, of_groups = _by_language(outcomes, found)
    fitted, figures = general.fit(task.seed, answered_though_removed)
    fits = {name: cases.fit(task.seed, answered_though_removed) for name, cases in of_groups.items()}
    groups = {name: own for name, (own, _) in fits.items()}
    replace(reader.config, **_values(fitted), groups=groups).save(reader.folder)
    told = {"reader": str(reader.folder), **_values(fitted), **figures}
    if fits:
        told["groups"] = {name: {**_values(own), **figures} for name, (own, figures) in fits.items()}
    return {**told, "notes": found.notes, "skipped": [one.as_dict() for one in found.skipped]}


def _values(fitted: FittedConfidence) -> dict[str, Any]:
    return {one.name: getattr(fitted, one.name) for one in fields(fitted)}


def _by_language(outcomes: list[AnswerOutcome], found: AnswerFigures) -> tuple["_Cases", dict[Group, "_Cases"]]:
    """The cases of the general confidence, and those of each group of languages that has enough of its own."""
    every = _Cases(outcomes, found)
    of_groups: dict[Group, _Cases] = {}
    for name in get_args(Group):
        cases = _Cases([row for row in outcomes if group(row.question.text) == name], found)
        if cases.enough(_FEWEST_OF_GROUP):
            of_groups[name] = cases
    others = _Cases([row for row in outcomes if group(row.question.text) not in of_groups], found)
    general = others if others.enough(_FEWEST) else every
    if not general.enough(_FEWEST):
        right = int(every.right.sum())
        raise MundapError(f"{len(every.right)} cases, {right} of them right: too few to fit a confidence on")
    return general, of_groups


class _Cases:
    """Questions as they are, and the same without the documents that have the answer.

    Args:
        outcomes: What came of the questions.
        found: Says which of them are right.
    """

    def __init__(self, outcomes: Sequence[AnswerOutcome], found: AnswerFigures) -> None:
        self._outcomes = outcomes
        again = [number for number, row in enumerate(outcomes) if found.was_removed(row)]
        rows = [row.features for row in outcomes]
        for number in again:
            without = outcomes[number].without
            if without is not None:
                rows.append(without.features)
        self._features = np.array(rows, np.float64)
        self._questions = np.array([*range(len(outcomes)), *again])
        self._removed = np.arange(len(rows)) >= len(outcomes)
        self.right = np.array([float(found.is_right(row)) for row in outcomes] + [0.0] * len(again))

    def enough(self, least: int) -> bool:
        """Whether these are enough cases to fit a confidence on."""
        return len(self.right) >= least and bool(self.right.min() < self.right.max())

    def fit(self, seed: int, most_removed: float) -> tuple[FittedConfidence, dict[str, Any]]:
        """The confidence, and figures that say how far it is to be believed."""
        features, right = self._features, self.right
        sure = np.zeros(len(right))
        fold = np.random.default_rng(seed).permutation(len(self._outcomes)) % 5
        parts = fold[self._questions]
        for part in range(5):
            curve = calibration.fit(features[parts != part], right[parts != part], FEATURES)
            sure[parts == part] = [confidence(row, curve) for row in features[parts == part]]
        curve = dict(calibration.fit(features, right, FEATURES))
        threshold = round(_answer_threshold(sure, right, self._removed, most_removed), 3)
        early_stop, stopped = _early_stop(self._outcomes, curve, threshold)
        share, _ = calibration.coverage(sure, right)
        there = ~self._removed
        given = there & (sure >= threshold)
        return FittedConfidence(curve, threshold, early_stop), {
            "cases": len(right),
            "stopped_early": _percent(stopped),
            "ece": round(calibration.expected_error(sure, right), 4),
            "coverage_at_90_precision": _percent(share),
            "auroc_against_removed": round(calibration.auroc(sure[there], sure[~there]), 4),
            "answered": _percent(given.sum() / there.sum()),
            "right_of_answered": _percent(right[given].mean() if given.any() else 0.0),
            "answered_though_removed": _percent((sure[~there] >= threshold).mean() if not there.all() else 0.0),
        }


def _answer_threshold(
    sure: np.ndarray, right: np.ndarray, removed: np.ndarray, most_removed: float = _SAFELY_ANSWERED
) -> float:
    """The least confidence of an answer: that of the best F1, or less where refusals allow it.

    The best F1 of some hundred questions may stand at a high confidence by chance, and a doubtful answer, shown as
    such, serves people better than none.

    Args:
        sure: The confidence of the best span of each case.
        right: Whether that span is right.
        removed: Whether the documents with the answer were removed.
        most_removed: The share of those that may be answered.
    """
    best = calibration.best_threshold(sure, right, removed, max(_ANSWERED, most_removed))
    if not removed.any():
        return best
    safe = calibration.lowest_threshold(sure[removed], most_removed)
    return min(best, max(safe, _LEAST_SURE))


def _percent(share: float) -> float:
    return round(100 * float(share), 2)


def _early_stop(outcomes: Sequence[AnswerOutcome], curve: Mapping[str, float], least: float) -> tuple[float, float]:
    """The confidence from which on the first passages are enough, and the share of questions that have it.

    What would be no answer is never enough, even where reading on changes nothing.
    """
    pairs = [(row.first[0], row.text) for row in outcomes]
    pairs += [(row.first[1], row.without.text) for row in outcomes if row.without is not None]
    sure = np.array([_confidence(first, curve) for first, _ in pairs])
    other = np.array([first is None or first.text != text for first, text in pairs])
    order = np.argsort(-sure, kind="stable")
    changed = np.cumsum(other[order]) / len(pairs)
    good = int(np.searchsorted(changed, _CHANGED, "right"))  # so many of the surest may stop
    if not good or sure[order[good - 1]] <= 0:
        return 0.0, 0.0
    early_stop = max(least, float(np.ceil(1000 * sure[order[good - 1]]) / 1000))
    return early_stop, float(np.mean(sure >= early_stop))


def _confidence(answer: Answer | None, curve: Mapping[str, float]) -> float:
    return confidence(answer.features, curve) if answer else 0.0
