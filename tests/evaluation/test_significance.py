import numpy as np
import pytest
from scipy import stats

from mundap.evaluation.significance import compare


def test_right_and_wrong_by_the_exact_test():
    first = np.array([True] * 30 + [False] * 30 + [True] * 40)
    second = np.array([True] * 22 + [False] * 8 + [True] * 25 + [False] * 5 + [True] * 40)
    found = compare(first, second)
    assert (found.better, found.worse) == (25, 8)
    assert found.mean == pytest.approx(0.17)
    assert found.p == pytest.approx(2 * stats.binom.cdf(8, 33, 0.5))
    assert found.low < found.mean < found.high


def test_other_values_as_scipy_does():
    chance = np.random.default_rng(5)
    first, second = chance.random(60), chance.random(60) + 0.05
    found = compare(first, second)
    reference = stats.permutation_test(
        (second, first), lambda x, y, axis: (x - y).mean(axis), permutation_type="samples", vectorized=True, rng=1
    )
    assert found.p == pytest.approx(reference.pvalue, abs=0.02)
    bootstrap = stats.bootstrap((second - first,), np.mean, method="percentile", rng=1).confidence_interval
    assert (found.low, found.high) == pytest.approx((bootstrap.low, bootstrap.high), abs=0.01)


def test_no_difference_is_not_significant():
    same = np.array([True, False, True])
    assert compare(same, same).p == 1
    values = np.array([0.2, 0.5, 0.9])
    assert compare(values, values).p == 1
    assert compare(np.array([]), np.array([])).p == 1


def test_the_same_figures_each_time():
    chance = np.random.default_rng(6)
    first, second = chance.random(50), chance.random(50)
    assert compare(first, second) == compare(first, second)
