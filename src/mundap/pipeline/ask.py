"""Ask an index: retrieve, read, answer."""

from collections.abc import Callable, Sequence
from typing import Any

from mundap.errors import Message, ModelError, UsageError
from mundap.index.index import Index
from mundap.index.modes import Mode
from mundap.pipeline.search import reader_for
from mundap.reader.answers import AMONG, Candidate, rank
from mundap.reader.choice import LanguageReaders
from mundap.reader.confidence import confidence
from mundap.reader.runtime import Reader, Scored
from mundap.records import Answer, AskResult, Hit
from mundap.text.overlap import question_words_in

NUM_PASSAGES = 10
"""How many passages are read."""

FIRST_PASSAGES = 2
"""How many passages are read before the reader may stop."""

_NOT_READ = (
    "the reader ({name}) knows English only: nothing was read. For answers in this language install the multilingual "
    "models, in a clone of mundap: pip install ./packages/mundap-models-multilingual"
)


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
        reader: By default, of those installed, the one that knows the language.
        k: How many passages are read.
        answers: How many different answers at most.
        threshold: The least confidence of an answer; by default the reader's own, fitted on dev data.
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


def answer_from(
    reader: Reader | LanguageReaders,
    question: str,
    hits: Sequence[Hit],
    answers: int = 1,
    threshold: float | None = None,
    k: int | None = None,
) -> AskResult:
    """Answer a question from passages that were found for it, of which the first k, or all, are read."""
    if answers < 1:
        raise UsageError("at least one answer must be asked for")
    read = tuple(hits[:k])
    reader = reader_for(reader, question, read)
    if not reader.knows_script(question):
        note = Message(_NOT_READ, name=reader.config.name)
        return AskResult(question, (), None, read, note)
    if threshold is None:
        threshold = reader.config.fitted_for(question).threshold
    readings: list[list[Scored]] = []

    def read_part(part: slice) -> list[list[Scored]]:
        scored = read_passages(reader, question, read[part])
        readings.extend(scored)
        return scored

    found = read_until_sure(reader, question, hits, read_part, read_all=answers > 1, threshold=threshold, k=k)
    good = _good_answers(found, threshold)[:answers]
    guess = None
    if found and not good:
        guess = found[0]
    more = 0
    if answers > 1:
        more = len(found[:answers]) - max(len(good), guess is not None)
    return AskResult(question, tuple(good), guess, read, more=more, threshold=threshold, readings=tuple(readings))


def _good_answers(found: Sequence[Answer], threshold: float) -> list[Answer]:
    """The answers that are sure enough; none if the best is not, for what comes after it is no answer either."""
    if not found or found[0].confidence < threshold:
        return []
    return [answer for answer in found if answer.confidence >= threshold]


def read_passages(reader: Reader, question: str, hits: Sequence[Hit]) -> list[list[Scored]]:
    """What the reader says of each passage; it does not depend on the others."""
    return reader.read(question, [(hit.passage.title, hit.passage.text) for hit in hits])


def read_until_sure(
    reader: Reader,
    question: str,
    hits: Sequence[Hit],
    read_part: Callable[[slice], Sequence[Sequence[Scored]]],
    read_all: bool = False,
    threshold: float = 0.0,
    k: int | None = None,
) -> list[Answer]:
    """All different answers in the passages, best first.

    If the first few passages give an answer so sure that the others hardly ever change it, the others are not read.

    Args:
        reader: With the confidence from which on it may stop (`early_stop`).
        question: What is asked.
        hits: The passages.
        read_part: Reads some of them.
        read_all: Never stop early.
        threshold: The least confidence of an answer: what is less sure is no reason to stop.
        k: How many are read at most; the others only show how far these stand out.
    """
    size = len(hits[:k])
    early_stop = reader.config.fitted_for(question).early_stop
    if read_all or not early_stop or size <= FIRST_PASSAGES:
        return rank_answers(reader, question, hits, read_part(slice(size)))
    first = read_part(slice(FIRST_PASSAGES))
    answers = rank_answers(reader, question, hits, first)
    if answers and answers[0].confidence >= max(early_stop, threshold):
        return answers
    return rank_answers(reader, question, hits, [*first, *read_part(slice(FIRST_PASSAGES, size))])


def rank_answers(
    reader: Reader, question: str, hits: Sequence[Hit], scored: Sequence[Sequence[Scored]]
) -> list[Answer]:
    """All different answers in the passages that were read, which may be the first few of the hits, best first.

    None is surer than the one before it.

    Raises:
        ModelError: The reader cannot find answers.
    """
    if not reader.config.spans:
        raise ModelError(
            f"{reader.folder} was trained to rerank passages and finds no answers: use it to rerank what a search "
            "finds, and another reader to ask"
        )
    passages = [hit.passage for hit in hits[: len(scored)]]
    texts = [passage.text for passage in passages]
    words = question_words_in(question, [f"{passage.title} {passage.text}" for passage in passages])
    curve = reader.config.fitted_for(question).confidence
    answers: list[Answer] = []
    sure = 1.0
    for candidate in rank(texts, scored, [hit.score for hit in hits], reader.config, words):
        sure = min(sure, confidence(candidate.features, curve))
        answers.append(_answer(candidate, hits[candidate.passage], sure))
    return answers


def _answer(candidate: Candidate, hit: Hit, sure: float) -> Answer:
    passage = hit.passage
    return Answer(
        text=passage.text[candidate.start : candidate.end],
        confidence=sure,
        hit=hit,
        start=passage.start + candidate.start,
        end=passage.start + candidate.end,
        score=candidate.score,
        selection=candidate.selection,
        span=candidate.span,
        support=candidate.support,
        features=candidate.features,
    )
