import pytest
from hypothesis import given
from hypothesis import strategies as st

from mundap.text import judge, scores

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
    assert scores.exact_match_korean(prediction, [answer]) == em
    assert scores.f1_korean(prediction, [answer]) == pytest.approx(f1)
    assert korquad(prediction, answer) == pytest.approx(f1)


korean_answers = st.text(alphabet="서울은는대한민국 《》()'.,aA12", max_size=20)


@given(prediction=korean_answers, answer=korean_answers)
def test_korquad_agrees_with_its_description(prediction, answer):
    assert scores.f1_korean(prediction, [answer]) == pytest.approx(korquad(prediction, answer))


def test_figures_are_labelled_by_their_rule():
    assert judge.labels(["cjk"]) == ("exact match (KorQuAD)", "F1 of characters (KorQuAD)")
    assert judge.labels(["string"])[1] == "F1 of words (SQuAD)"
    assert "each question" in judge.labels(["string", "cjk"])[0]
