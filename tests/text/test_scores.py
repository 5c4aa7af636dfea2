import pytest
from hypothesis import given
from hypothesis import strategies as st

from mundap.text import scores

reference = pytest.importorskip("transformers.data.metrics.squad_metrics")
answers = st.text(alphabet="aAn theTHE.,'-!?\t 0123xyéß서울", max_size=30)


@given(answers, answers)
def test_em_and_f1_agree_with_transformers_squad_metrics(prediction, answer):
    assert scores.normalize(prediction) == reference.normalize_answer(prediction)
    assert scores.exact_match(prediction, [answer]) == reference.compute_exact(answer, prediction)
    if scores.normalize(prediction) and scores.normalize(answer):
        assert scores.f1(prediction, [answer]) == pytest.approx(reference.compute_f1(answer, prediction))


def test_the_best_of_several_answers_counts():
    assert scores.exact_match("The Beatles!", ["Queen", "beatles"]) == 1.0
    assert scores.f1("John Lennon", ["Paul", "John Winston Lennon"]) == pytest.approx(0.8)
    assert scores.f1("x", []) == 0.0


def test_korean_f1_counts_characters():
    assert scores.exact_match_korean("《황금종려상》", ["황금종려상"]) == 1.0
    assert scores.f1_korean("서울시", ["서울"]) == pytest.approx(2 * (2 / 3) / (2 / 3 + 1))
    assert scores.f1("서울시", ["서울"]) == 0.0
