"""Is a confidence to be believed? And the fit that makes it so."""

from collections.abc import Mapping, Sequence

import numpy as np

_BINS = 10


def expected_error(confidence: np.ndarray, right: np.ndarray, bins: int = _BINS) -> float:
    """Expected calibration error: how far confidence is from the share that is right, over bins of equal width."""
    if not len(confidence):
        return 0.0
    places = np.minimum((confidence * bins).astype(int), bins - 1)
    total = 0.0
    for place in np.unique(places):
        inside = places == place
        total += inside.mean() * abs(float(right[inside].mean()) - float(confidence[inside].mean()))
    return float(total)


def auroc(positive: np.ndarray, negative: np.ndarray) -> float:
    """The probability that a value of the first group is higher than one of the second; ties count half."""
    if not len(positive) or not len(negative):
        return float("nan")
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate([positive, negative]))[: len(positive)].sum()
    return float((ranks - len(positive) * (len(positive) + 1) / 2) / (len(positive) * len(negative)))


def coverage(confidence: np.ndarray, right: np.ndarray, precision: float = 0.9) -> tuple[float, float]:
    """The largest share of questions that can be answered with that precision, and the threshold that does it."""
    if not len(confidence):
        return 0.0, 1.0
    order = np.argsort(-confidence, kind="stable")
    correct = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    # A threshold cannot part questions of equal confidence.
    last = np.append(np.diff(confidence[order]) != 0, True)
    good = np.nonzero((correct >= precision) & last)[0]
    if not len(good):
        return 0.0, 1.0
    return float((good[-1] + 1) / len(order)), float(confidence[order][good[-1]])


def best_threshold(
    confidence: np.ndarray, right: np.ndarray, without: np.ndarray | None = None, most: float = 1.0
) -> float:
    """Below which it is better to say nothing: the best F1 of giving answers that are right.

    Precision is the share of given answers that are right, recall the share of right answers that are given.

    Args:
        confidence: Of each answer.
        right: Whether it is.
        without: Whether there was no answer to be found.
        most: The share of those that may be answered all the same. 1 is returned where no threshold does that.
    """
    cuts = np.unique(confidence)
    if not len(cuts) or not right.sum():
        return 0.0
    if without is not None and without.any():
        cuts = cuts[(confidence[without][None, :] >= cuts[:, None]).mean(1) <= most]
        if not len(cuts):
            return 1.0
    given = confidence[None, :] >= cuts[:, None]
    scores = 2 * (given * right).sum(1) / (given.sum(1) + right.sum())
    return float(cuts[int(np.argmax(scores))])


def lowest_threshold(without: np.ndarray, most: float) -> float:
    """The lowest threshold at which at most a share `most` of questions without an answer get one.

    Args:
        without: The confidence of the best span for each question that has no answer in the index.
        most: The share, from 0 to 1.
    """
    if not len(without):
        return 0.0
    allowed = int(most * len(without))
    highest = np.sort(without)[::-1]
    if allowed >= len(highest):
        return 0.0
    return float(np.nextafter(highest[allowed], np.inf))


def fit(features: np.ndarray, right: np.ndarray, names: Sequence[str]) -> Mapping[str, float]:
    """Logistic regression from features to being right, held back a little so that no weight runs away.

    No weight is negative: a better score never makes an answer less sure, in places where the data say little either.
    `typical` is what the last of the features is where it is not known, its mean.
    """
    from scipy.optimize import minimize

    known = ~np.isnan(features[:, -1])
    typical = float(features[known, -1].mean()) if known.any() else 0.0
    features = np.nan_to_num(features, nan=typical)
    scale = features.std(0)
    scale[scale == 0] = 1.0
    inputs = np.column_stack([np.ones(len(features)), (features - features.mean(0)) / scale])
    signs = 2 * right - 1

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margins = signs * (inputs @ weights)
        value = np.logaddexp(0, -margins).sum() + 0.5 * (weights[1:] ** 2).sum()
        slope = -(inputs * (signs / (1 + np.exp(margins)))[:, None]).sum(0)
        slope[1:] += weights[1:]
        return float(value), slope

    bounds = [(None, None)] + [(0.0, None)] * len(names)
    weights = minimize(loss, np.zeros(inputs.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds).x
    plain = weights[1:] / scale
    bias = float(weights[0] - (plain * features.mean(0)).sum())
    found = {"bias": bias, **dict(zip(names, map(float, plain), strict=True)), "typical": typical}
    return {name: round(value, 6) for name, value in found.items()}
