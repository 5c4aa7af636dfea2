"""One ranking out of two. Every candidate comes with both of its exact scores."""

import numpy as np

from mundap.index.modes import FUSIONS as FUSIONS
from mundap.index.modes import Fusion as Fusion

CANDIDATES = 2000
"""How many of each list are candidates, as in the papers."""

_NORMALISED_OVER = 1000
_ROUNDING = 1e-6  # of equal scores, as float32 has them
_RRF = 60


def zscore(bm25: np.ndarray, dense: np.ndarray, lists: tuple[np.ndarray, np.ndarray], weight: float) -> np.ndarray:
    """(1-w) z(BM25) + w z(dense): each score relative to its own list's top, question by question."""
    return (1 - weight) * _normalised(bm25, lists[0]) + weight * _normalised(dense, lists[1])


def _normalised(scores: np.ndarray, ranked: np.ndarray) -> np.ndarray:
    top = ranked[:_NORMALISED_OVER].astype(np.float64)
    spread = float(top.std()) if len(top) else 0.0
    rounding = _ROUNDING * float(np.abs(top).max(initial=1.0))
    if spread <= rounding:
        # Nothing to compare with: a list of one, or of equals, says yes or no and no more.
        return (scores >= top[0] - 2 * rounding).astype(np.float32) if len(top) else np.zeros(len(scores), np.float32)
    return np.asarray((scores - top.mean()) / spread)


def linear(bm25: np.ndarray, dense: np.ndarray, scale: float) -> np.ndarray:
    """The DPR paper's BM25 + lambda * sim. Fits unnormalised inner products of BM25's size."""
    return bm25 + scale * dense


def reciprocal_rank(numbers: np.ndarray, rankings: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The sum of 1 / (60 + rank) over the lists a passage is in."""
    scores = np.zeros(len(numbers), np.float32)
    for ranked in rankings:
        rank = {int(number): position for position, number in enumerate(ranked, 1)}
        scores += np.array(
            [1 / (_RRF + rank[n]) if (n := int(number)) in rank else 0 for number in numbers], np.float32
        )
    return scores
