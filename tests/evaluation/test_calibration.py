"""Calibration against definitions written out here."""

import numpy as np
import pytest

from mundap.evaluation import calibration


def test_auroc_is_mann_whitneys_u():
    from scipy.stats import mannwhitneyu

    chance = np.random.default_rng(0)
    for size in (1, 5, 80):
        left = np.round(chance.normal(0.5, 1, size), 1)  # rounded, so that there are ties
        right = np.round(chance.normal(0, 1, size + 3), 1)
        expected = mannwhitneyu(left, right).statistic / (len(left) * len(right))
        assert calibration.auroc(left, right) == pytest.approx(expected)
    assert calibration.auroc(np.array([1.0]), np.array([0.0])) == 1.0
    assert np.isnan(calibration.auroc(np.array([]), np.array([0.0])))


def test_expected_error_by_hand():
    sure = np.array([0.95, 0.91, 0.15, 0.12, 0.18, 1.0])
    right = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 1.0])
    # .9 to 1: mean .9533, right 2/3, three of six; .1 to .2: mean .15, right 1/3, three of six
    expected = 0.5 * abs((0.95 + 0.91 + 1.0) / 3 - 2 / 3) + 0.5 * abs(0.15 - 1 / 3)
    assert calibration.expected_error(sure, right) == pytest.approx(expected)
    assert calibration.expected_error(np.array([1.0, 0.0]), np.array([1.0, 0.0])) == 0.0
    assert calibration.expected_error(np.array([]), np.array([])) == 0.0


def test_coverage_by_trying_every_threshold():
    chance = np.random.default_rng(1)
    for _ in range(50):
        sure = np.round(chance.random(30), 1)
        right = (chance.random(30) < 0.3 + 0.7 * sure).astype(float)
        possible = [(0.0, None)]
        for cut in sorted(set(sure)):
            given = sure >= cut
            if right[given].mean() >= 0.9:
                possible.append((given.mean(), cut))
        share, cut = calibration.coverage(sure, right)
        assert share == pytest.approx(max(possible)[0])
        if share:
            assert right[sure >= cut].mean() >= 0.9
            assert (sure >= cut).mean() == pytest.approx(share)
    assert calibration.coverage(np.array([0.9]), np.array([0.0])) == (0.0, 1.0)


def test_the_best_threshold_by_trying_all():
    chance = np.random.default_rng(2)
    sure = chance.random(200)
    right = (chance.random(200) < sure).astype(float)

    def gain(cut):
        given = [r for s, r in zip(sure, right, strict=True) if s >= cut]
        precision, recall = sum(given) / len(given), sum(given) / right.sum()
        return 2 * precision * recall / (precision + recall)

    cut = calibration.best_threshold(sure, right)
    assert gain(cut) == pytest.approx(max(gain(one) for one in sure))
    assert 0.1 < cut < 0.6


def test_a_fit_finds_the_weights_that_made_the_data():
    chance = np.random.default_rng(3)
    features = chance.normal((1.0, 5.0, 0.0), (2.0, 3.0, 1.0), (20_000, 3))
    weights = np.array([0.8, 0.3, 0.0])
    right = (chance.random(20_000) < 1 / (1 + np.exp(-(0.5 + features @ weights)))).astype(float)
    found = calibration.fit(features, right, ("selection", "margin", "retrieval"))
    assert list(found) == ["bias", "selection", "margin", "retrieval", "typical"]
    assert list(found.values()) == pytest.approx([0.5, *weights, 0.0], abs=0.06)


def test_a_better_score_never_makes_an_answer_less_sure():
    """Two features that say the same: left to itself one gets a negative weight."""
    chance = np.random.default_rng(3)
    first = chance.normal(size=2_000)
    features = np.column_stack([first, 0.9 * first + 0.05 * chance.normal(size=2_000), np.full(2_000, np.nan)])
    right = (chance.random(2_000) < 1 / (1 + np.exp(-(3 * features[:, 0] - 2 * features[:, 1])))).astype(float)
    found = calibration.fit(features, right, ("selection", "margin", "retrieval"))
    assert min(found[name] for name in ("selection", "margin", "retrieval")) >= 0
    assert found["selection"] > 0.5


def test_a_fit_stays_finite_where_a_feature_tells_all_or_nothing():
    features = np.column_stack([np.repeat([1.0, -1.0], 50), np.zeros(100), np.zeros(100)])
    found = calibration.fit(features, np.repeat([1.0, 0.0], 50), ("selection", "margin", "retrieval"))
    assert 0.5 < found["selection"] < 20
    assert found["margin"] == found["retrieval"] == 0.0


def test_the_lowest_threshold_by_trying_all():
    sure = np.round(np.random.default_rng(3).random(60), 2)  # with ties
    for most in (0.0, 0.07, 0.1, 0.5):
        cut = calibration.lowest_threshold(sure, most)
        assert (sure >= cut).mean() <= most
        below = sure[sure < cut].max()
        assert (sure >= below).mean() > most  # any lower one would answer too many
    assert calibration.lowest_threshold(sure, 1.0) == 0.0
    assert calibration.lowest_threshold(np.zeros(0), 0.1) == 0.0
