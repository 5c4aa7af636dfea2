"""Candidate spans against the worked example of the design and against a plain count of all pairs."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mundap.reader.spans import candidates, softmax, without_bridge

STARTS = {7: 0.97, 3: 0.95, 15: 0.88, 23: 0.78, 18: 0.72, 6: 0.71, 1: 0.70, 30: 0.52, 26: 0.50, 11: 0.48}
ENDS = {8: 0.92, 12: 0.85, 40: 0.81, 37: 0.79, 21: 0.76, 31: 0.60, 15: 0.57, 11: 0.51, 27: 0.47, 22: 0.45}


def row(values, length=41):
    return np.array([values.get(token, 0.0) for token in range(length)])


def possible(starts, ends, first, longest):
    """Every pair with its product, best first, counted out."""
    pairs = [(a * b, s, t) for s, a in starts.items() for t, b in ends.items() if first <= s <= t and t - s < longest]
    return sorted(pairs, reverse=True)


@pytest.mark.parametrize("longest", [1, 2, 10, 30, 100])
def test_the_worked_example(longest):
    found = candidates(row(STARTS), row(ENDS), max_length=longest)
    expected = possible(STARTS, ENDS, 0, longest)
    assert {(span.start, span.end) for span in found} == {(s, t) for _, s, t in expected}
    assert [span.score for span in found] == pytest.approx([score for score, _, _ in expected])
    assert all(span.end >= span.start for span in found)


def test_the_best_of_the_worked_example():
    found = candidates(row(STARTS), row(ENDS))
    assert (found[0].start, found[0].end) == (7, 8)
    assert found[0].score == pytest.approx(0.8924)
    assert (found[1].start, found[1].end) == (3, 8)  # .95 x .92, and not the next start with the next end
    assert len(candidates(row(STARTS), row(ENDS), max_length=100)) == 73  # of 100; 27 would end before they start


def test_no_span_begins_before_the_text():
    """Question and title come first: where they score high no answer may be."""
    starts, ends = row(STARTS), row(ENDS)
    starts[:5] = ends[:5] = 1.0
    found = candidates(starts, ends, first=7)
    assert min(span.start for span in found) == 7
    assert (found[0].start, found[0].end) == (7, 8)
    assert candidates(starts, ends, first=41) == []


def test_only_the_ten_best_starts_and_ends_are_paired():
    rising = np.linspace(0.1, 0.9, 30)
    found = candidates(rising, rising)
    assert {span.start for span in found} == set(range(20, 30))
    assert len(found) == 55
    assert len(candidates(rising, rising, top=3)) == 6


def test_the_longest_answer_is_obeyed():
    found = candidates(row(STARTS), row(ENDS), max_length=5)
    assert max(span.end - span.start for span in found) == 4  # 7 to 11 is five tokens


def test_when_every_pair_is_impossible_the_best_start_gets_the_best_end_it_can_have():
    starts, ends = np.full(60, 0.001), np.full(60, 0.001)
    starts[30:40] = np.linspace(0.9, 0.99, 10)  # the last is the best
    ends[5:15] = 0.9  # all before
    ends[42], ends[40] = 0.5, 0.01
    (only,) = candidates(starts, ends)
    assert (only.start, only.end) == (39, 42)
    assert only.score == pytest.approx(0.99 * 0.5)
    (only,) = candidates(starts, ends, max_length=2)
    assert (only.start, only.end) == (39, 40)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is not a fault
@given(st.data())
def test_any_scores_give_possible_spans_in_order(data):
    length = data.draw(st.integers(1, 25))
    first = data.draw(st.integers(0, length - 1))
    longest = data.draw(st.integers(1, 12))
    values = st.lists(st.floats(0, 1, width=32), min_size=length, max_size=length)
    starts, ends = np.array(data.draw(values)), np.array(data.draw(values))
    found = candidates(starts, ends, first, longest)
    assert found
    for span in found:
        assert first <= span.start <= span.end < length
        assert span.end - span.start < longest
        assert span.score == pytest.approx(starts[span.start] * ends[span.end])
    assert [span.score for span in found] == sorted((span.score for span in found), reverse=True)


def test_probabilities_sum_to_one_for_any_logits():
    assert softmax(np.array([1000.0, 1000.0, -1000.0], np.float32)) == pytest.approx([0.5, 0.5, 0.0])
    assert softmax(np.array([0.0, np.log(3.0)])) == pytest.approx([0.25, 0.75])


def test_a_span_from_one_answer_to_the_end_of_another_is_no_answer():
    """Two candidates in one sentence, such as Sala Baker and the villain he plays."""
    starts, ends = row({2: 0.6, 8: 0.38}), row({3: 0.35, 8: 0.6})
    found = candidates(starts, ends)
    assert (found[0].start, found[0].end) == (2, 8)
    assert [(span.start, span.end) for span in without_bridge(found)][:2] == [(8, 8), (2, 3)]


def test_a_long_answer_stays_whole_where_its_parts_are_unlikely():
    for starts, ends in (({2: 0.9, 8: 0.05}, {3: 0.5, 8: 0.5}), ({2: 0.5, 8: 0.5}, {3: 0.05, 8: 0.9})):
        found = candidates(row(starts), row(ends))
        assert without_bridge(found) == found
    assert without_bridge([]) == []
