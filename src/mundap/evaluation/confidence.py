"""Fitting how sure a reader may be: its confidence, the threshold of an answer, and when reading may end."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mundap.errors import MundapError, UsageError
from mundap.evaluation import calibration
from mundap.evaluation.answers import AnswerOutcome, AnswersTask, Counted, measure
from mundap.models.folder import installed
from mundap.reader.confidence import FEATURES, confidence
from mundap.reader.runtime import Reader
from mundap.records import Answer

_CHANGED = 0.005  # the largest share of answers that may be others for not reading on


def fit(task: AnswersTask, counted: Counted = lambda items, what, total: iter(items)) -> dict[str, Any]:
    """Fit a reader's confidence and thresholds on questions it was not trained on, and keep them with it.

    Half of the cases are the questions as they are, half without the documents that have the answer. The figures come
    from cross-fitting: each question is judged by a curve that was fitted without it. A way of ranking that the task
    asks for is kept as well.

    Raises:
        UsageError: The reader is the one that comes with the package.
        MundapError: There are too few questions.
    """
    if not task.reader or task.reader in installed():
        raise UsageError("the packaged reader stays as it is: copy its folder, and fit the copy")
    reader = Reader.from_pretrained(task.reader)
    reader.rank_by(task.ranking, task.retrieval_weight)
    found = measure(replace(task, removed=True, early=False), counted)
    outcomes = [row for row in found.outcomes if row.confidence is not None]
    unread = len(found.outcomes) - len(outcomes)
    found.doubt(unread, "questions were not read (a script that the reader does not know?): they teach nothing")
    rows = [(number, row.features, row.em) for number, row in enumerate(outcomes)]
    rows += [(n, row.without.features, 0.0) for n, row in enumerate(outcomes) if row.without is not None]
    features, right = np.array([row[1] for row in rows], np.float64), np.array([row[2] for row in rows])
    if len(rows) < 50 or right.min() == right.max():
        raise MundapError(f"{len(rows)} cases, {int(right.sum())} of them right: too few to fit a confidence on")
    sure = np.zeros(len(rows))
    fold = np.random.default_rng(task.seed).permutation(len(outcomes)) % 5
    parts = fold[[row[0] for row in rows]]
    for part in range(5):
        curve = calibration.fit(features[parts != part], right[parts != part], FEATURES)
        sure[parts == part] = [confidence(row, curve) for row in features[parts == part]]
    curve = dict(calibration.fit(features, right, FEATURES))
    threshold = round(calibration.best_threshold(sure, right), 3)
    early_stop, stopped = _early_stop(outcomes, curve, threshold)
    replace(reader.config, confidence=curve, threshold=threshold, early_stop=early_stop).save(reader.folder)
    share, _ = calibration.coverage(sure, right)
    there = np.array([number < len(outcomes) for number in range(len(rows))])
    return {
        "reader": str(reader.folder),
        "cases": len(rows),
        "confidence": curve,
        "threshold": threshold,
        "early_stop": early_stop,
        "stopped_early": round(100 * stopped, 2),
        "ece": round(calibration.expected_error(sure, right), 4),
        "coverage_at_90_precision": round(100 * share, 2),
        "auroc_against_removed": round(calibration.auroc(sure[there], sure[~there]), 4),
        "notes": found.notes,
        "skipped": [one.as_dict() for one in found.skipped],
    }


def _early_stop(outcomes: list[AnswerOutcome], curve: Mapping[str, float], least: float) -> tuple[float, float]:
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
