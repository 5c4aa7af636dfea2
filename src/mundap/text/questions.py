"""Questions as models see them, and as they are compared."""

import re
from collections.abc import Iterable

_ASKING = re.compile(r"\b(?:who|whom|whose|what|when|where|which|why|how)\b", re.IGNORECASE)


def normalize_questions(questions: Iterable[str]) -> list[str]:
    """Questions as models see them: only the right single quote becomes an apostrophe, as in DPR."""
    return [question.replace("\u2019", "'") for question in questions]


def plain(question: str) -> str:
    """Normalise a question to compare it across files, with single spaces."""
    (normalized,) = normalize_questions([question])
    return " ".join(normalized.split())


def without_question_words(question: str) -> str:
    """A question without its question words: who, what, when and the like."""
    return _ASKING.sub(" ", question)
