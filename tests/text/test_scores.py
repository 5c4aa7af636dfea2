import pytest
from hypothesis import given
from hypothesis import strategies as st

from mundap.text import scores

answers = st.text(alphabet="aAn theTHE.,'-!?\t 0123xyéß서울", max_size=30)


@pytest.fixture(scope="module")
def squad():
    return pytest.importorskip("torchmetrics.functional.text", reason="needs the extra `dev`").squad


@given(prediction=answers, answer=answers)
def test_em_and_f1_agree_with_torchmetrics(squad, prediction, answer):
    target = {"answers": {"answer_start": [0], "text": [answer]}, "id": "q"}
    theirs = squad({"prediction_text": prediction, "id": "q"}, target)
    assert 100 * scores.exact_match(prediction, [answer]) == float(theirs["exact_match"])
    if scores.normalize(prediction) and scores.normalize(answer):
        assert 100 * scores.f1(prediction, [answer]) == pytest.approx(float(theirs["f1"]))


def test_the_best_of_several_answers_counts():
    assert scores.exact_match("The Beatles!", ["Queen", "beatles"]) == 1.0
    assert scores.f1("John Lennon", ["Paul", "John Winston Lennon"]) == pytest.approx(0.8)
    assert scores.f1("x", []) == 0.0


def test_korean_f1_counts_characters():
    assert scores.exact_match_korean("《황금종려상》", ["황금종려상"]) == 1.0
    assert scores.f1_korean("서울시", ["서울"]) == pytest.approx(2 * (2 / 3) / (2 / 3 + 1))
    assert scores.f1("서울시", ["서울"]) == 0.0
