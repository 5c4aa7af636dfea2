"""Figures of several runs: means with their intervals, and differences of arms question by question."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mundap.evaluation.significance import compare

SURE = 0.05
"""A difference with a lower p is called one."""


def interval(values: list[float]) -> dict[str, Any]:
    """The mean over seeds, with the 95 % interval of the mean by Student's t."""
    from scipy import stats

    mean = float(np.mean(values))
    if len(values) < 2:
        return {"mean": round(mean, 4), "runs": [round(value, 4) for value in values]}
    error = float(np.std(values, ddof=1)) / len(values) ** 0.5
    half = float(stats.t.ppf(0.975, len(values) - 1)) * error
    return {"mean": round(mean, 4), "half_width": round(half, 4), "runs": [round(value, 4) for value in values]}


def against(values: Mapping[str, np.ndarray], ours: str, scale: float = 100) -> dict[str, dict[str, Any]]:
    """One arm less each of the others, question by question; p is corrected for their number.

    Args:
        values: By arm: one value a question, the mean over seeds. Questions are the sample, not runs.
        ours: Which arm.
        scale: What the differences are multiplied by.
    """
    others = [arm for arm in values if arm != ours]
    between = [compare(values[arm], values[ours]) for arm in others]
    chances = holm([one.p for one in between])
    return {
        arm: one.as_dict(scale) | {"p_holm": float(f"{p:.3g}")}
        for arm, one, p in zip(others, between, chances, strict=True)
    }


def holm(chances: list[float]) -> list[float]:
    """Of several tests together: the chance that any of those so sure is a mistake (Holm)."""
    order = sorted(range(len(chances)), key=lambda number: chances[number])
    result, highest = [1.0] * len(chances), 0.0
    for place, number in enumerate(order):
        highest = max(highest, min(1.0, (len(chances) - place) * chances[number]))
        result[number] = highest
    return result
