"""Fuse two rankings into one. Every candidate has both of its exact scores."""

from collections.abc import Callable

import numpy as np

from mundap.index.modes import FUSIONS as FUSIONS
from mundap.index.modes import Fusion as Fusion

CANDIDATES = 2000
"""How many of each list are candidates, as in the papers."""

_NORMALISED_OVER = 1000
_ROUNDING = 1e-6  # of equal scores, as float32 has them
_RRF = 60
_FIRST_COMPLETED = 64  # beyond k
_SLACK = 1e-4  # a score is not the same to the last bit whichever way it is computed


def zscore(bm25: np.ndarray, dense: np.ndarray, lists: tuple[np.ndarray, np.ndarray], weight: float) -> np.ndarray:
    """(1-w) z(BM25) + w z(dense): each score relative to its own list's top, question by question."""
    return (1 - weight) * _normalised(bm25, lists[0]) + weight * _normalised(dense, lists[1])


def _normalised(scores: np.ndarray, ranked: np.ndarray) -> np.ndarray:
    top = ranked[:_NORMALISED_OVER].astype(np.float64)
    spread = 0.0
    if len(top):
        spread = float(top.std())
    rounding = _ROUNDING * float(np.abs(top).max(initial=1.0))
    if spread <= rounding:
        # Nothing to compare with: a list of one, or of equals, says yes or no and no more.
        if len(top):
            return np.asarray(scores >= top[0] - 2 * rounding, np.float32)
        return np.zeros(len(scores), np.float32)
    return np.asarray((scores - top.mean()) / spread)


def linear(bm25: np.ndarray, dense: np.ndarray, scale: float) -> np.ndarray:
    """The DPR paper's BM25 + lambda * sim. Fits unnormalised inner products of BM25's size."""
    return bm25 + scale * dense


def reciprocal_rank(numbers: np.ndarray, rankings: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The sum of 1 / (60 + rank) over the lists a passage is in."""
    scores = np.zeros(len(numbers), np.float32)
    order = np.argsort(numbers)
    for ranked in rankings:
        places = order[np.searchsorted(numbers, ranked, sorter=order)]
        scores[places] += (1 / (_RRF + np.arange(1, len(ranked) + 1))).astype(np.float32)
    return scores


def complete(
    join: Callable[[np.ndarray], np.ndarray],
    bm25: np.ndarray,
    missing: np.ndarray,
    most: float,
    k: int,
    score: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """The fused scores, exact for the best k candidates; missing BM25 scores are computed only as far as needed.

    A BM25 score that is missing lies between 0 and the last of the list. Only where the larger of the two would bring a
    candidate among the best k is it worth computing; the most promising come first, since they raise the bar.

    Args:
        join: From BM25 scores of all candidates to joined ones; a higher one never makes less.
        bm25: The scores of all candidates, 0 where they are missing; changed in place.
        missing: Where they are.
        most: The most that a missing one can be.
        k: How many of the best must be right.
        score: The scores of some candidates, given by their positions.
    """
    missing = missing.copy()
    batch = k + _FIRST_COMPLETED
    while True:
        joined = join(bm25)
        if most <= 0 or not missing.any():
            return joined
        promising = np.flatnonzero(missing)
        if len(joined) > k:
            bar = np.partition(joined, len(joined) - k)[len(joined) - k]
            reach = join(np.where(missing, most * (1 + _SLACK), bm25))[promising]
            near = reach >= bar - _SLACK * max(1.0, abs(float(bar)))
            promising = promising[near][np.argsort(-reach[near], kind="stable")[:batch]]
        if not len(promising):
            return joined
        bm25[promising] = score(promising)
        missing[promising] = False
        batch *= 4
