"""Paired significance tests of two systems on the same questions."""

from dataclasses import dataclass
from typing import Any

import numpy as np

_DRAWS = 10_000
_CELLS = 20_000_000  # random numbers made at a time


@dataclass(frozen=True, slots=True)
class Difference:
    """How far apart two systems are on the same questions.

    Attributes:
        mean: Second less first.
        low: The 95 % interval of that mean, by bootstrap over questions.
        high: Its upper end.
        p: The chance of a difference at least so large if the systems were equal.
        better: Questions on which the second is better.
        worse: Questions on which the first is better.
    """

    mean: float
    low: float
    high: float
    p: float
    better: int
    worse: int

    def as_dict(self, scale: float = 1.0) -> dict[str, Any]:
        """The difference as `--json` prints it."""
        return {
            "difference": round(scale * self.mean, 4),
            "interval_95": [round(scale * self.low, 4), round(scale * self.high, 4)],
            "p": float(f"{self.p:.3g}"),
            "better": self.better,
            "worse": self.worse,
        }


def compare(first: np.ndarray, second: np.ndarray, seed: int = 0) -> Difference:
    """The difference of two systems' values, question by question.

    Of right and wrong: the exact test of McNemar. Of other values: the randomisation test, in which the two systems
    change places on a random half of the questions, 10,000 times.
    """
    difference = second.astype(np.float64) - first.astype(np.float64)
    better, worse = int((difference > 0).sum()), int((difference < 0).sum())
    if not len(difference):
        return Difference(0.0, 0.0, 0.0, 1.0, 0, 0)
    rng = np.random.default_rng(seed)
    values, counts = np.unique(difference, return_counts=True)
    if set(values) <= {-1.0, 0.0, 1.0}:
        p = _mcnemar(better, worse)
        draws = rng.multinomial(len(difference), counts / len(difference), _DRAWS) @ values / len(difference)
    else:
        p = _randomisation(difference, rng)
        draws = _bootstrap(difference, rng)
    low, high = np.quantile(draws, [0.025, 0.975])
    return Difference(float(difference.mean()), float(low), float(high), p, better, worse)


def _mcnemar(better: int, worse: int) -> float:
    from scipy.stats import binomtest

    if better + worse == 0:
        return 1.0
    return float(binomtest(better, better + worse).pvalue)


def _randomisation(difference: np.ndarray, rng: np.random.Generator) -> float:
    apart = difference[difference != 0]
    seen = abs(apart.sum()) - 1e-12
    extreme = 0
    for size in _portions(len(apart)):
        signs = rng.integers(0, 2, (size, len(apart)), np.int8) * 2 - 1
        extreme += int((np.abs(signs @ apart) >= seen).sum())
    return (extreme + 1) / (_DRAWS + 1)


def _bootstrap(difference: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    means = [
        difference[rng.integers(0, len(difference), (size, len(difference)))].mean(axis=1)
        for size in _portions(len(difference))
    ]
    return np.concatenate(means)


def _portions(width: int) -> list[int]:
    size = max(1, min(_DRAWS, _CELLS // max(1, width)))
    return [min(size, _DRAWS - start) for start in range(0, _DRAWS, size)]
