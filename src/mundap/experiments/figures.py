"""Figures of several runs: means with their intervals, and differences question by question."""

from typing import Any

import numpy as np

SURE = 0.05
"""A difference with a lower p is called one."""


def interval(values: list[float]) -> dict[str, Any]:
    """The mean over seeds, with the 95 % interval of the mean by Student's t."""
    from scipy import stats

    mean = float(np.mean(values))
    runs = [round(value, 4) for value in values]
    if len(values) < 2:
        return {"mean": round(mean, 4), "runs": runs}
    error = float(np.std(values, ddof=1)) / len(values) ** 0.5
    half = float(stats.t.ppf(0.975, len(values) - 1)) * error
    return {"mean": round(mean, 4), "half_width": round(half, 4), "runs": runs}


def holm(chances: list[float]) -> list[float]:
    """p-values of several tests, corrected for their number by Holm's method."""
    order = sorted(range(len(chances)), key=lambda number: chances[number])
    result, highest = [1.0] * len(chances), 0.0
    for place, number in enumerate(order):
        highest = max(highest, min(1.0, (len(chances) - place) * chances[number]))
        result[number] = highest
    return result
