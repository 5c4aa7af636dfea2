import pytest
from hypothesis import given
from hypothesis import strategies as st

from mundap.text import scores

answers = st.text(alphabet="aAn theTHE.,'-!?\t 0123xyéß서울", max_size=30)


@pytest.fixture(scope="module")
def squad():
    from torchmetrics.functional.text import squad

    def scored(prediction, answer):
        target = {"answers": {"answer_start": [0], "text": [answer]}, "id": "q"}
        found = squad({"prediction_text": prediction, "id": "q"}, target)
        return float(found["exact_match"]), float(found["f1"])

    return scored


@given(prediction=answers, answer=answers)
def test_em_and_f1_agree_with_torchmetrics(squad, prediction, answer):
    em, overlap = squad(prediction, answer)
    assert 100 * scores.exact_match(prediction, [answer]) == em
    assert squad(prediction, scores.normalize(prediction))[0] == 100
    if scores.normalize(prediction) and scores.normalize(answer):
        assert 100 * scores.f1(prediction, [answer]) == pytest.approx(overlap)


def test_the_best_of_several_answers_counts():
    assert scores.exact_match("The Beatles!", ["Queen", "beatles"]) == 1.0
    assert scores.f1("John Lennon", ["Paul", "John Winston Lennon"]) == pytest.approx(0.8)
    assert scores.f1("x", []) == 0.0


def test_korean_f1_counts_characters():
    assert scores.exact_match_korean("《황금종려상》", ["황금종려상"]) == 1.0
    assert scores.f1_korean("서울시", ["서울"]) == pytest.approx(2 * (2 / 3) / (2 / 3 + 1))
    assert scores.f1("서울시", ["서울"]) == 0.0
