"""The one decision on what is a negative."""

from mundap.mining.rule import NegativeRule
from mundap.records import Context, Question

QUESTION = Question("1", "Who wrote Middlemarch?", ("George Eliot",))
POSITIVE = Context(
    "p", text="Middlemarch is a novel by George Eliot that was published in eight parts in 1871 and 1872."
)
RULE = NegativeRule(QUESTION, [POSITIVE, Context("", text="Another passage with  the answer")])


def test_a_positive_is_no_negative_by_id_or_by_text():
    assert not RULE.is_negative("p", "anything else")
    assert not RULE.is_negative("x", "Another passage with the\nanswer")
    assert RULE.is_negative("", "A passage without an id is not a positive for having none.")


def test_what_has_the_answer_is_no_negative():
    assert not RULE.is_negative("x", "A walk with george eliot.")
    assert RULE.is_negative("x", "A walk with George and Eliot.")


def test_what_repeats_a_positive_is_no_negative():
    shortened = "Middlemarch is a novel that was published in eight parts in 1871 and 1872."
    assert not RULE.is_negative("x", shortened)
    assert NegativeRule(QUESTION, [POSITIVE], duplicate=None).is_negative("x", shortened)
    assert NegativeRule(QUESTION, [POSITIVE], duplicate=1.0).is_negative("x", shortened)


def test_further_ids_count():
    assert not NegativeRule(QUESTION, [POSITIVE], ids={"document"}).is_negative("document", "anything")
