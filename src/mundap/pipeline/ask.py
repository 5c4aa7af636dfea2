"""Ask an index: retrieve, read, answer."""

from typing import Any

from mundap.index.index import Index
from mundap.index.modes import Mode
from mundap.reader.answering import answer_from
from mundap.reader.answers import AMONG
from mundap.reader.choice import LanguageReaders
from mundap.reader.runtime import Reader
from mundap.records import AskResult

NUM_PASSAGES = 10
"""Number of passages to read."""


def ask(
    index: Index,
    question: str,
    reader: Reader | LanguageReaders | None = None,
    k: int = NUM_PASSAGES,
    answers: int = 1,
    threshold: float | None = None,
    mode: Mode | None = None,
    **options: Any,
) -> AskResult:
    """Answer a question from an index, or say that there is no answer in it.

    Args:
        index: Where to look.
        question: Plain text.
        reader: By default the installed reader that knows the language.
        k: Number of passages to read.
        answers: Maximum number of different answers.
        threshold: Minimum confidence of an answer; by default the reader's own, fitted on dev data.
        mode: How to search.
        options: As for `Index.search`.

    Example:
        >>> ask(Index("my-index"), "Who wrote Middlemarch?").answers[0].text
    """
    reader = reader or LanguageReaders.from_pretrained()
    hits = index.search(question, search_depth(k), mode, **options)
    return answer_from(reader, question, hits, answers, threshold, k)


def search_depth(k: int) -> int:
    """How many passages to search for so that k can be read.

    Confidence depends on how far a passage stands out among the first that were found, so a few more are needed.
    """
    if k > 0:
        return max(k, AMONG)
    return k
