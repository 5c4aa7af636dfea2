"""Where answers stand: the spans a reader learns from, and whether has_answer and find_answers agree."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mundap.text import answers
from mundap.text.answers import find_answers, has_answer, matches_pattern
from mundap.text.scores import judge


def found(text, wanted, mode="string"):
    return [text[start:end] for start, end in find_answers(text, wanted, mode)]


@pytest.mark.parametrize(
    ("text", "wanted", "mode", "expected"),
    [
        ("New York, new  york and Newer York", ["new york"], "string", ["New York", "new  york"]),
        ("a b a b a", ["a b a"], "string", ["a b a", "a b a"]),  # overlapping places are places
        ("Rome, Oslo", ["oslo", "rome", "Rome"], "string", ["Rome", "Oslo"]),  # in order, each once
        ("U.S. troops, U S troops", ["U.S."], "string", ["U.S."]),
        ("anything", ["", " "], "string", []),
        ("born 1867, died 1934", [r"18\d\d", r"\d+"], "regex", ["1867", "1934"]),
        ("aaa", ["x*"], "regex", []),  # an empty match is no place
        ("서울은 수도, 남서울은 아니다", ["서울"], "cjk", ["서울"]),
        ("BTS는 2019년에", ["bts", "2019"], "cjk", ["BTS", "2019"]),
        ("東京都は", ["東京"], "cjk", ["東京"]),
    ],
)
def test_places_of_answers(text, wanted, mode, expected):
    assert found(text, wanted, mode) == expected


@given(
    st.text(alphabet="abAB.'é\u0301 -12ß한", max_size=30),
    st.lists(st.text(alphabet="abAB.'é\u0301 -1한", min_size=1, max_size=4), max_size=3),
)
def test_an_answer_that_is_there_has_a_place_and_one_that_is_not_has_none(text, wanted):
    assert bool(find_answers(text, wanted)) == has_answer(text, wanted)


@pytest.mark.parametrize(
    ("text", "wanted", "mode"),
    [
        ("Café de Paris", ["caf\u00e9"], "regex"),
        ("Cafe\u0301 de Paris", ["caf\u00e9"], "regex"),
        (unicodedata.normalize("NFD", "서울은 수도이다"), ["서울"], "cjk"),
        ("ＢＴＳ는 Straße에 있다", ["bts"], "cjk"),  # ß is two letters in folded text
    ],
)
def test_what_a_passage_is_said_to_have_can_be_learnt_from_it(text, wanted, mode):
    """A positive whose answer has no place teaches nothing."""
    assert has_answer(text, wanted, mode)
    (place,) = find_answers(text, wanted, mode)
    assert has_answer(text[slice(*place)], wanted, mode)


def test_a_pattern_that_would_take_for_ever_is_given_up(monkeypatch):
    monkeypatch.setattr(answers, "_PATIENCE", 0.1)
    pattern, text = "(a|aa|aaa|a?a)+$", "a" * 40 + "!"
    assert find_answers(text, [pattern], "regex") == []
    assert not matches_pattern(text, [pattern])


def test_a_prediction_is_judged_by_the_rule_of_its_answers():
    assert judge("The Beatles!", ["beatles"], "string") == (1.0, 1.0)
    assert judge("John Lennon", ["John Winston Lennon"], "string") == (0.0, pytest.approx(0.8))
    assert judge("서울시", ["서울"], "cjk") == (0.0, pytest.approx(0.8))
    assert judge("《황금종려상》", ["황금종려상"], "cjk") == (1.0, 1.0)
    # a pattern must describe how the prediction begins, as in DrQA's evaluation; F1 means nothing here
    assert judge("1867 in Warsaw", [r"18\d\d"], "regex") == (1.0, 1.0)
    assert judge("in 1867", [r"18\d\d"], "regex") == (0.0, 0.0)
    assert judge("x", ["(broken", r"X"], "regex") == (1.0, 1.0)
