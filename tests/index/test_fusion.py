import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mundap.index import fusion


def test_zscore_by_hand():
    bm25, dense = np.array([4.0, 2.0, 0.0]), np.array([0.1, 0.3, 0.2])
    lists = (np.array([4.0, 2.0]), np.array([0.3, 0.2, 0.1]))
    scores = fusion.zscore(bm25, dense, lists, 0.7)
    left = (bm25 - 3) / 1
    right = (dense - 0.2) / np.std([0.1, 0.2, 0.3])
    assert scores == pytest.approx(0.3 * left + 0.7 * right)


def test_an_empty_list_leaves_the_other_to_decide():
    dense = np.array([0.1, 0.3, 0.2])
    scores = fusion.zscore(np.zeros(3), dense, (np.empty(0), np.sort(dense)[::-1]), 0.7)
    assert list(np.argsort(-scores)) == [1, 2, 0]


def test_a_single_match_is_better_than_none():
    scores = fusion.zscore(np.array([5.0, 0.0]), np.array([0.2, 0.2]), (np.array([5.0]), np.array([0.2, 0.2])), 0.7)
    assert scores[0] > scores[1]


def test_equals_are_equals_whatever_rounding_makes_of_them():
    """Scores that differ in the last bit of a float32 are not put millions of deviations apart."""
    bm25 = np.array([3.8220003, 3.822, 3.8219998, 0.0], np.float32)
    assert len(set(bm25.tolist())) == 4
    scores = fusion.zscore(bm25, np.zeros(4), (bm25[:3], np.empty(0)), 0.5)
    assert scores.tolist() == [0.5, 0.5, 0.5, 0.0]


def test_linear():
    assert fusion.linear(np.array([2.0]), np.array([0.5]), 1.1) == pytest.approx([2.55])


def test_reciprocal_rank_by_its_definition():
    ours = fusion.reciprocal_rank(np.array([1, 2, 3, 4]), (np.array([3, 1, 2]), np.array([2, 4])))
    assert ours == pytest.approx([1 / 62, 1 / 63 + 1 / 61, 1 / 61, 1 / 62])


@given(st.integers(0, 10_000), st.integers(1, 60), st.sampled_from([0.0, 0.3, 0.75, 1.0]), st.booleans())
@settings(max_examples=80, deadline=None)
def test_only_scores_that_matter_are_completed_and_the_best_are_the_same(seed, k, weight, papers):
    """Candidates: 400 of either list out of 3,000 passages, most of them in one of the two alone."""
    generator = np.random.default_rng(seed)
    lexical = np.maximum(generator.gamma(2, 2, 3000) - 2, 0).astype(np.float32)
    dense = (generator.normal(0, 0.1, 3000) + 0.02 * lexical).astype(np.float32)
    left, right = np.argsort(-lexical)[:400], np.argsort(-dense)[:400]
    numbers = np.union1d(left, right)
    missing = ~np.isin(numbers, left)
    asked = []

    def join(values):
        if papers:
            return fusion.linear(values, dense[numbers], 1.1)
        return fusion.zscore(values, dense[numbers], (lexical[left], dense[right]), weight)

    def score(places):
        asked.extend(places.tolist())
        return lexical[numbers[places]]

    values = np.where(missing, 0, lexical[numbers])
    most = float(lexical[left[-1]])
    found = fusion.complete(join, values, missing, most, k, score)
    expected = join(lexical[numbers])
    best = np.lexsort((numbers, -found))[:k]
    assert best.tolist() == np.lexsort((numbers, -expected))[:k].tolist()
    assert found[best] == pytest.approx(expected[best])
    assert values[best].tolist() == lexical[numbers[best]].tolist()
    assert len(asked) == len(set(asked))
    assert set(asked) <= set(np.flatnonzero(missing).tolist())
    if k <= 10 and (papers or weight in (0.3, 0.75)):
        assert len(asked) < missing.sum()


def test_a_list_that_is_not_full_leaves_nothing_to_complete():
    values = np.array([2.0, 0.0, 1.0])
    missing = np.array([False, True, False])
    scores = fusion.complete(lambda one: one * 2, values, missing, 0.0, 2, lambda _: pytest.fail("asked"))
    assert scores.tolist() == [4, 0, 2]


@pytest.mark.parametrize(("most", "asked"), [(5.0, True), (3.0, False)])
def test_a_candidate_is_completed_if_the_most_it_can_have_brings_it_to_the_top(most, asked):
    """The first has 10; the second 6 without its BM25 score."""
    dense = np.array([0.0, 6.0])
    values = np.array([10.0, 0.0])
    looked = []
    scores = fusion.complete(
        lambda one: one + dense,
        values,
        np.array([False, True]),
        most,
        1,
        lambda places: looked.append(places.tolist()) or np.array([most]),
    )
    assert looked == ([[1]] if asked else [])
    assert scores.tolist() == ([10, 11] if asked else [10, 6])
