"""Questions as models see them, and as they are compared."""

import re

_ASKING = re.compile(r"\b(?:who|whom|whose|what|when|where|which|why|how)\b", re.IGNORECASE)


def normalize_question(question: str) -> str:
    """The question as models see it: only the right single quote becomes an apostrophe, as in DPR."""
    return question.replace("\u2019", "'")


def plain(question: str) -> str:
    """A question in the form in which two files have the same one: normalised, with single spaces."""
    return " ".join(normalize_question(question).split())


def without_question_words(question: str) -> str:
    """A question without its question words: who, what, when and the like."""
    return _ASKING.sub(" ", question)
