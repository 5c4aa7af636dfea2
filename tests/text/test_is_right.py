"""What a person would call right, and the group of languages a question belongs to."""

import pytest

from mundap.text.language import group
from mundap.text.scores import is_right


@pytest.mark.parametrize(
    ("text", "answer", "right"),
    [
        ("황금종려상", "칸 영화제 황금종려상", True),
        ("칸 영화제 황금종려상", "황금종려상", True),
        ("1988년 9월 17일에", "1988년 9월 17일", True),
        ("500만명", "약 500만 명", True),  # spaces as one likes
        ("서울", "서울특별시", False),  # less than half of it
        ("1945년", "1954년", False),  # the same characters, KorQuAD's F1 is 1
        ("10명", "110명", False),  # a number is not cut in two
        ("1", "10", False),
        ("東京都", "東京都千代田区", False),
        ("千代田区", "東京都千代田区", True),
        ("à Paris", "Paris", True),
        ("art", "arts", False),  # nor is a word of Latin letters
        ("", "서울", False),
        ("...", "서울", False),
    ],
)
def test_close_is_an_answer_with_more_or_less_at_its_edges(text, answer, right):
    assert is_right(text, ["없다", answer], "cjk", "close") is right
    assert is_right(text, [answer], "cjk") is False


def test_an_exact_match_is_right_by_either_rule():
    for rule in ("exact", "close"):
        assert is_right("the Nile", ["Nile"], "string", rule)
        assert is_right("1988", [r"19\d\d"], "regex", rule)
    assert not is_right("1988", ["1988 AD"], "regex", "close")  # a pattern is not a text to be compared with


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("서울은?", "ko"),
        ("BTS의 리더는 누구인가?", "ko"),
        ("日本の首都は?", "ja-zh"),
        ("谁写了红楼梦?", "ja-zh"),
        ("What does 김치 mean?", None),
        ("Où est Paris ?", None),
        ("", None),
    ],
)
def test_a_short_question_has_a_group_by_its_script(text, expected):
    assert group(text) == expected
