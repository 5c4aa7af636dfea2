import pytest
from hypothesis import given
from hypothesis import strategies as st

from mundap.text import scores
from mundap.text.scores import judge

answers = st.text(alphabet="aAn theTHE.,'-!?\t 0123xyéß서울", max_size=30)


@pytest.fixture(scope="module")
def squad():
    squad = pytest.importorskip("torchmetrics.functional.text").squad

    def scored(prediction, answer):
        target = {"answers": {"answer_start": [0], "text": [answer]}, "id": "q"}
        found = squad({"prediction_text": prediction, "id": "q"}, target)
        return float(found["exact_match"]), float(found["f1"])

    return scored


@given(prediction=answers, answer=answers)
def test_em_and_f1_agree_with_torchmetrics(squad, prediction, answer):
    em, overlap = squad(prediction, answer)
    assert 100 * judge(prediction, [answer], "string")[0] == em
    assert squad(prediction, scores.normalize(prediction))[0] == 100
    if scores.normalize(prediction) and scores.normalize(answer):
        assert 100 * judge(prediction, [answer], "string")[1] == pytest.approx(overlap)


def test_the_best_of_several_answers_counts():
    assert judge("The Beatles!", ["Queen", "beatles"], "string")[0] == 1.0
    assert judge("John Lennon", ["Paul", "John Winston Lennon"], "string")[1] == pytest.approx(0.8)
    assert judge("x", [], "string")[1] == 0.0


def test_korean_f1_counts_characters():
    assert judge("《황금종려상》", ["황금종려상"], "cjk")[0] == 1.0
    assert judge("서울시", ["서울"], "cjk")[1] == pytest.approx(2 * (2 / 3) / (2 / 3 + 1))
    assert judge("서울시", ["서울"], "string")[1] == 0.0


def korquad(prediction, answer):
    """KorQuAD's rule, written down once more from its description, character by character."""

    def characters(text):
        kept = [" " if character in "'\"《》<>〈〉()‘’" else character for character in text]
        return [c.lower() for c in kept if c not in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~" and not c.isspace()]

    left, right = characters(prediction), characters(answer)
    rest, same = list(right), 0
    for character in left:
        if character in rest:
            rest.remove(character)
            same += 1
    if not same:
        return 0.0
    return 2 * same / (len(left) + len(right))


@pytest.mark.parametrize(
    ("prediction", "answer", "em", "f1"),
    [
        ("서울", "서울", 1, 1),
        ("서울은", "서울", 0, 0.8),  # 2 of 3 and 2 of 2
        ("서울특별시", "서울", 0, 4 / 7),  # 2 of 5 and 2 of 2
        ("대한민국 서울", "서울 대한민국", 0, 1),  # the order of characters does not matter to F1
        ("황금 종려상", "황금종려상", 0, 1),  # nor do spaces, but they do to exact match
        ("'기생충'(2019)", "기생충 2019", 1, 1),
        ("《기생충》", "〈기생충〉", 1, 1),
        ("BTS", "bts", 1, 1),
        ("부산", "서울", 0, 0),
        ("1,234명", "1234명", 1, 1),
    ],
)
def test_korquad_by_hand(prediction, answer, em, f1):
    assert judge(prediction, [answer], "cjk")[0] == em
    assert judge(prediction, [answer], "cjk")[1] == pytest.approx(f1)
    assert korquad(prediction, answer) == pytest.approx(f1)


korean_answers = st.text(alphabet="서울은는대한민국 《》()'.,aA12", max_size=20)


@given(prediction=korean_answers, answer=korean_answers)
def test_korquad_agrees_with_its_description(prediction, answer):
    assert judge(prediction, [answer], "cjk")[1] == pytest.approx(korquad(prediction, answer))


def test_figures_are_labelled_by_their_rule():
    assert scores.labels(["cjk"]) == ("exact match (KorQuAD)", "F1 of characters (KorQuAD)")
    assert scores.labels(["string"])[1] == "F1 of words (SQuAD)"
    assert "each question" in scores.labels(["string", "cjk"])[0]
