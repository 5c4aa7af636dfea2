"""The one decision on what is a negative."""

import numpy as np
import pytest

from mundap.mining.rule import Candidate, NegativeRule, negatives_in_batch
from mundap.records import Context, Example, Question

QUESTION = Question("1", "Who wrote Middlemarch?", ("George Eliot",))
POSITIVE = Context(
    "p", text="Middlemarch is a novel by George Eliot that was published in eight parts in 1871 and 1872."
)
RULE = NegativeRule(QUESTION, [POSITIVE, Context("", text="Another passage with  the answer")])


def test_a_positive_is_no_negative_by_id_or_by_text():
    assert not RULE.is_negative(Candidate("anything else", "p"))
    assert not RULE.is_negative(Candidate("Another passage with the\nanswer", "x"))
    assert RULE.is_negative(Candidate("A passage without an id is not a positive for having none."))


def test_what_has_the_answer_is_no_negative():
    assert not RULE.is_negative(Candidate("A walk with george eliot.", "x"))
    assert RULE.is_negative(Candidate("A walk with George and Eliot.", "x"))


def test_what_repeats_a_positive_is_no_negative():
    shortened = "Middlemarch is a novel that was published in eight parts in 1871 and 1872."
    assert not RULE.is_negative(Candidate(shortened, "x"))
    assert NegativeRule(QUESTION, [POSITIVE], duplicate=None).is_negative(Candidate(shortened, "x"))
    assert NegativeRule(QUESTION, [POSITIVE], duplicate=1.0).is_negative(Candidate(shortened, "x"))


def test_further_ids_count():
    assert not NegativeRule(QUESTION, [POSITIVE], ids={"document"}).is_negative(Candidate("anything", "document"))


@pytest.mark.parametrize(
    ("match", "answer"), [("string", "George Eliot"), ("regex", "Geo.ge\\sE"), ("cjk", "조지 엘리엇")]
)
def test_many_passages_at_once_are_judged_as_one_by_one(match, answer):
    texts = [
        "A walk with george eliot.",
        "A walk with George and Eliot.",
        "조지엘리엇은 소설가이다.",
        POSITIVE.text,
        "Middlemarch is a novel that was published in eight parts in 1871 and 1872.",
        "Something else.",
    ]
    rule = NegativeRule(Question("1", "?", (answer,)), [POSITIVE], match)
    passages = [Candidate(text) for text in texts]
    judged = rule.are_negatives(passages)
    assert judged == [rule.is_negative(Candidate(text)) for text in texts]
    assert judged == rule.are_negatives(passages)  # what was normalised serves again
    assert judged.count(True) == 3


def test_a_candidate_is_taken_apart_once_for_many_questions(monkeypatch):
    calls = []
    monkeypatch.setattr("mundap.text.answers.tokens", lambda text: calls.append(text) or text.lower().split())
    passage = Candidate("A walk with George and Eliot.", "x")
    calls.clear()
    for answer in ("George", "Eliot", "nobody"):
        NegativeRule(Question("1", "?", (answer,)), [POSITIVE]).is_negative(passage)
    assert calls.count(passage.text) == 1


def test_in_a_batch_a_near_duplicate_of_a_positive_stays_a_negative():
    """Only the answer and the positive's own text exclude a passage: duplicates are left to whoever mines."""
    examples = [Example(QUESTION, (POSITIVE,)), Example(Question("2", "?", ("sea",)), (Context(text="the sea"),))]
    near = Context(text=POSITIVE.text.replace(QUESTION.answers[0], "another"))
    passages = [POSITIVE, near, Context(text="a ship at sea"), Context(text="nothing of it")]
    candidates = np.array([[True, True, True, True], [True, True, True, False]])
    found = negatives_in_batch(examples, passages, ["string", "string"], candidates)
    assert found.tolist() == [[False, True, True, True], [True, True, False, False]]
