"""Reading ends early where the first passages are sure enough, and nowhere else."""

import pytest

from mundap.evaluation.answers import AnswerOutcome
from mundap.evaluation.confidence import _early_stop
from mundap.reader.answering import FIRST_PASSAGES as FIRST
from mundap.reader.answering import answer_from
from mundap.reader.runtime import Reader
from mundap.records import Answer, Hit, Passage, Question
from tests.conftest import make_reader

CURVE = {"bias": 0.0, "selection": 0.5}


def hits(*texts):
    """Found in this order, with scores from 10 downwards."""
    return [
        Hit(rank, 11.0 - rank, Passage(str(rank), str(rank), "", text, "", 0, len(text)))
        for rank, text in enumerate(texts, 1)
    ]


@pytest.fixture
def reader(tmp_path):
    def make(**settings):
        found = Reader(make_reader(tmp_path / "reader", confidence=CURVE, **settings))
        found.seen = []
        scored = found.read
        found.read = lambda question, passages: found.seen.append(len(passages)) or scored(question, passages)
        return found

    return make


KING_FIRST = hits("the king", *["a film"] * 4, "the villain")


def test_a_sure_answer_ends_the_reading(reader):
    one = reader(early_stop=0.85)  # the king's confidence is 1 / (1 + exp(-2)) = .88
    assert answer_from(one, "who?", KING_FIRST).answers[0].text == "king"
    assert one.seen == [FIRST]


@pytest.mark.parametrize("settings, answers, seen", [
    ({"early_stop": 0.0}, 1, [6]),  # not fitted
    ({"early_stop": 0.9}, 1, [FIRST, 6 - FIRST]),  # not sure enough: the rest is read, nothing twice
    ({"early_stop": 0.85}, 2, [6]),  # who wants several answers wants all passages
])  # fmt: skip
def test_otherwise_everything_is_read(reader, settings, answers, seen):
    one = reader(**settings)
    assert answer_from(one, "who?", KING_FIRST, answers).answers[0].text == "villain"
    assert one.seen == seen


def test_confidence_does_not_depend_on_how_much_was_read(reader, tmp_path):
    """The retrieval margin is over all that was found, read or not."""
    curve = {**CURVE, "retrieval": 0.3}
    texts = hits("the king", *["a film"] * 6)
    sure = []
    for enough in (0.0, 0.5):
        folder = make_reader(tmp_path / f"r{enough}", confidence=curve, early_stop=enough)
        sure.append(answer_from(Reader(folder), "who?", texts).answers[0].confidence)
    assert sure[0] == sure[1]


def test_an_answer_that_would_not_be_shown_does_not_end_the_reading(reader):
    one = reader(early_stop=0.6)
    assert answer_from(one, "who?", KING_FIRST, threshold=0.9).answers[0].text == "villain"
    assert one.seen == [FIRST, 6 - FIRST]


def test_confidence_does_not_depend_on_how_many_are_to_be_read(tmp_path):
    """With k = 1 as with all: what is found besides is looked at, not read."""
    folder = make_reader(tmp_path / "r", confidence={**CURVE, "retrieval": 0.3})
    texts = hits("the king", *["a film"] * 19)
    found = [answer_from(Reader(folder), "who?", texts, k=k) for k in (1, 5, 10, 20)]
    assert len({one.answers[0].confidence for one in found}) == 1
    assert [len(one.hits) for one in found] == [1, 5, 10, 20]


def test_an_index_of_one_passage_answers_as_surely_as_is_typical(tmp_path):
    curve = {**CURVE, "retrieval": 1.0, "typical": 2.0}
    folder = make_reader(tmp_path / "r", confidence=curve)
    (answer,) = answer_from(Reader(folder), "who?", hits("the king")).answers
    assert answer.confidence == pytest.approx(1 / (1 + 2.718281828 ** -(2.0 + 2.0)), abs=1e-4)


def test_none_of_several_answers_is_surer_than_the_one_before_it(tmp_path):
    """The retriever's favourite comes first here, though by itself it is less sure than the second."""
    folder = make_reader(tmp_path / "r", confidence=CURVE, retrieval_weight=10.0)
    found = answer_from(Reader(folder), "who?", hits("the king", "the villain"), answers=2, threshold=0)
    assert [one.text for one in found.answers] == ["king", "villain"]
    assert found.answers[0].features[0] < found.answers[1].features[0]
    assert found.answers[0].confidence == found.answers[1].confidence


def test_early_stop_is_what_leaves_all_but_one_in_two_hundred_answers_as_they_are():
    def answer(text, selection):
        return Answer(text, 0.0, hits(text)[0], 0, 1, 0.0, 0.0, 0.0, 1, (selection, 0.0, 0.0, 0.0, 0.0))

    def outcome(selection, same):
        first = answer("one", selection)
        return AnswerOutcome(Question("q", "?", ("one",)), "one" if same else "two", 1.0, 1.0, first=(first, None))

    rows = [outcome(4 - n / 100, same=n not in (150, 250, 300)) for n in range(400)]
    enough, stopped = _early_stop(rows, CURVE, 0.0)
    assert stopped == pytest.approx(300 / 400, abs=0.005)  # two of 400 may change, the third may not
    sure = [1 / (1 + 2.718281828 ** -(0.5 * (4 - n / 100))) for n in range(400)]
    assert sure[300] < enough <= sure[298]
    assert _early_stop([outcome(3, same=False)] * 10, CURVE, 0.0) == (0.0, 0.0)
    assert _early_stop(rows, CURVE, 0.8)[0] == 0.8  # what is no answer is not enough
