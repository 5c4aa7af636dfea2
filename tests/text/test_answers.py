import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mundap.text import answers
from mundap.text.answers import has_answer, looks_like_pattern, tokens


def test_tokens_are_runs_of_letters_digits_and_marks_or_single_signs():
    assert tokens("Don't stop: 3.5 km²!") == ["don", "'", "t", "stop", ":", "3", ".", "5", "km²", "!"]


def test_text_is_decomposed_so_both_spellings_of_an_accent_match():
    assert has_answer("Caf\u00e9 de Paris", ["cafe\u0301"])
    assert not has_answer("Cafe de Paris", ["caf\u00e9"])


@pytest.mark.parametrize(
    ("text", "answer", "found"),
    [
        ("The capital is New York City.", "new york", True),
        ("The capital is Newer York.", "new york", False),
        ("He was born in 1976.", "197", False),
        ("a a b", "a b", True),
        ("U.S. troops", "U.S.", True),
        ("U S troops", "U.S.", False),
        ("zero\u200bwidth", "width", True),
        ("tab\tand\u00a0space", "and space", True),
    ],
)
def test_a_string_answer_is_a_contiguous_run_of_tokens(text, answer, found):
    assert has_answer(text, [answer]) is found


@pytest.mark.parametrize("mode", ["string", "regex", "cjk"])
@pytest.mark.parametrize("answer", ["", "  ", "\n"])
def test_an_empty_answer_matches_nothing(mode, answer):
    assert not has_answer("anything at all", [answer], mode)


def test_any_of_several_answers_suffices():
    assert has_answer("in Busan", ["Seoul", "Busan"])
    assert not has_answer("in Busan", [])


def test_regex_answers_ignore_case_and_see_each_line():
    assert has_answer("first\nBorn 1867 in Warsaw", [r"^born\s+18\d\d"], "regex")
    assert not has_answer("first Born 1867", [r"^born"], "regex")


def test_a_broken_regex_matches_nothing_and_says_so(caplog):
    with caplog.at_level(logging.WARNING):
        assert not has_answer("a ( b", ["(unclosed"], "regex")
    assert "(unclosed" in caplog.text


def test_regex_signs_mean_nothing_in_string_mode():
    assert not has_answer("abc", ["a.c"])
    assert has_answer("a.c", ["a.c"])


def test_string_mode_keeps_the_reference_behaviour_for_korean_and_chinese():
    assert not has_answer("서울은 수도이다", ["서울"])
    assert not has_answer("東京都は日本の首都", ["東京"])


@pytest.mark.parametrize(
    ("text", "answer", "found"),
    [
        ("서울은 수도이다", "서울", True),
        ("남서울은 다르다", "서울", False),
        ("황금 종려상을 받았다", "황금종려상", True),
        ("東京都は日本の首都", "東京", True),
        ("2019년에 개봉", "2019", True),
        ("12019년", "2019", False),
        ("BTS는 그룹", "bts", True),
        ("ABTS는 그룹", "bts", False),
        (
            "\u1109\u1165\u110b\u116e\u11af\u110b\u1173\u11ab 수도",
            "서울",
            True,
        ),  # decomposed, as macOS writes it
    ],
)
def test_cjk_mode_finds_words_with_particles_and_without_spaces(text, answer, found):
    assert has_answer(text, [answer], "cjk") is found


def test_a_pattern_that_would_take_for_ever_is_given_up(monkeypatch, caplog):
    monkeypatch.setattr(answers, "_PATIENCE", 0.2)
    with caplog.at_level(logging.WARNING):
        assert not has_answer("a" * 40 + "!", ["(a|aa|aaa|a?a)+$"], "regex")
    assert "too long" in caplog.text


def slow_tokens(text):
    """The definition, word for word."""
    import unicodedata

    import regex

    pattern = regex.compile(r"([\p{L}\p{N}\p{M}]+)|([^\p{Z}\p{C}])", regex.UNICODE)
    return [match.group().lower() for match in pattern.finditer(unicodedata.normalize("NFD", text))]


def slow_has_answer(text, answers):
    words = slow_tokens(text)
    for answer in answers:
        part = slow_tokens(answer)
        if part and any(words[n : n + len(part)] == part for n in range(len(words) - len(part) + 1)):
            return True
    return False


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=40))
def test_tokens_by_the_definition(text):
    assert tokens(text) == slow_tokens(text)


@given(
    st.text(alphabet="aAΣςσ.'’éİ\u0301 \t\n-12서", max_size=30), st.lists(st.text(alphabet="aAΣςσ.'é 1서", max_size=4))
)
def test_the_quick_look_before_never_changes_the_verdict(text, answers):
    assert has_answer(text, answers) == slow_has_answer(text, answers)


@pytest.mark.parametrize("answer", [r"Sept?(ember)?", r"20\s?,?\s?320", "a|b", "5778.*K", "[0-9][0-9]"])
def test_patterns_are_recognised(answer):
    assert looks_like_pattern(answer)


@pytest.mark.parametrize(
    "answer", ["Who Are You?", "C++", "$1.5 million", "AC/DC (band)", "50%", "[sic]", "U.S.", "a.m."]
)
def test_ordinary_answers_are_no_patterns(answer):
    assert not looks_like_pattern(answer)


@pytest.mark.parametrize("pattern", ["(?a)x", "(?L)x", "(" * 3000 + ")" * 3000, "a{2000000000}", "x" * 30_000, "(a"])
def test_patterns_that_cannot_be_used_match_nothing(pattern):
    assert not has_answer("a x", [pattern], "regex")
    assert answers.broken_patterns([pattern]) == [pattern]


def test_a_slow_pattern_costs_its_patience_once(monkeypatch):
    import time

    monkeypatch.setattr(answers, "_PATIENCE", 0.5)
    started = time.monotonic()
    assert not any(has_answer("a" * 40 + "!", ["(a|aa)+(a|aa)+(a|aa)+$"], "regex") for _ in range(100))
    assert time.monotonic() - started < 25  # not a hundred times
