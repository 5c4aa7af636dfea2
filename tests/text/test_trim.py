import unicodedata

import pytest

from mundap.text import korean
from mundap.text.trim import trim_answers

# A passage with the answer to trim between bars, and what must be left.
CASES = [
    ("대한민국의 수도는 |서울은| 한강을 끼고 있다.", "서울"),
    ("그는 |서울에서| 태어났다.", "서울"),
    ("이 영화는 |황금종려상을| 받았다.", "황금종려상"),
    ("수도는 |서울이다.|", "서울"),
    ("그해는 |1996년이었다.|", "1996년"),
    ("|2019년 5월 25일에| 열렸다.", "2019년 5월 25일"),
    ("모두 |스무 명이| 왔다.", "스무 명"),
    ("모두 |25개의| 구가 있다.", "25개"),
    ("그것을 만든 이는 |세종대왕께서| 아니다.", "세종대왕"),
    ("주인공은 |김 선생님은| 아니다.", "김 선생님"),
    ("|이순신 장군은| 장수였다.", "이순신 장군"),
    ("|방탄소년단(BTS)은| 가수다.", "방탄소년단(BTS)"),
    ("감독은 |봉준호[4]| 이다.", "봉준호"),
    ("(감독은 |봉준호)가| 만들었다.", "봉준호"),
    ("|메르켈(독일어| 이름)은 총리다.", "메르켈"),
]
TABLE_CANNOT = {"1996년이었다.", "스무 명이", "세종대왕께서", "봉준호)가"}


def trimmed(marked, form="NFC"):
    before, answer, after = unicodedata.normalize(form, marked).split("|")
    [(start, end)] = trim_answers([(before + answer + after, len(before), len(before + answer))])
    return (before + answer + after)[start:end]


@pytest.mark.parametrize(("marked", "answer"), CASES)
def test_an_answer_ends_before_its_particle(marked, answer):
    assert trimmed(marked) == answer


@pytest.mark.parametrize(("marked", "answer"), CASES)
def test_also_without_kiwi_where_a_table_can_tell(marked, answer, monkeypatch):
    monkeypatch.setattr(korean, "installed", lambda: False)
    if marked.split("|")[1] not in TABLE_CANNOT:
        assert trimmed(marked) == answer


@pytest.mark.parametrize(("marked", "answer"), CASES[:5])
def test_decomposed_hangul_is_trimmed_where_it_stands(marked, answer):
    assert unicodedata.normalize("NFC", trimmed(marked, form="NFD")) == answer


@pytest.mark.parametrize(
    "marked",
    [
        "|서울|은 수도다.",
        "|고양이|가 운다.",
        "노래 《|나의 살던 고향은|》을 불렀다.",
        "영화 '|사랑하기 때문에|'가 나왔다.",
        "|에서|",
        "제목은 |Listen Up!| 이다.",
        "🎉 |서울|🎉은 수도다.",
    ],
)
def test_what_is_no_particle_stays(marked):
    assert trimmed(marked) == marked.split("|")[1]


def test_emoji_do_not_shift_the_places():
    assert trimmed("🎉🎉 수도는 |서울은| 🎉") == "서울"


def test_other_languages_and_impossible_spans_are_left_alone():
    assert trimmed("|東京は.| 首都") == "東京は."
    assert trim_answers([("서울은", 2, 2), ("서울은", 0, 9)]) == [(2, 2), (0, 9)]
