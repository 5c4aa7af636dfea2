"""From the passages found for a question to its answers: how many are read, which spans are answers, how sure."""

from collections.abc import Callable, Sequence

from mundap.errors import Message, ModelError, UsageError
from mundap.models.folder import FittedConfidence
from mundap.reader.answers import Candidate, rank
from mundap.reader.choice import LanguageReaders, reader_for
from mundap.reader.confidence import confidence
from mundap.reader.runtime import Reader, Scored
from mundap.records import Answer, AskResult, Hit
from mundap.text.overlap import question_words_in

FIRST_PASSAGES = 2
"""How many passages are read before the reader may stop."""

_NOT_READ = (
    "the reader ({name}) knows English only: nothing was read. For answers in this language install the multilingual "
    "models, in a clone of mundap: pip install ./packages/mundap-models-multilingual"
)


def answer_from(
    reader: Reader | LanguageReaders,
    question: str,
    hits: Sequence[Hit],
    answers: int = 1,
    threshold: float | None = None,
    k: int | None = None,
) -> AskResult:
    """Answer a question from the passages that were found for it: the first k are read, by default all."""
    if answers < 1:
        raise UsageError("ask for at least one answer")
    read = tuple(hits[:k])
    reader, known = reader_for(reader, question, read)
    if not known:
        note = Message(_NOT_READ, name=reader.config.name)
        return AskResult(question, (), None, read, note)
    fitted = reader.config.fitted_for(question)
    if threshold is None:
        threshold = fitted.threshold
    readings: list[list[Scored]] = []

    def read_part(part: slice) -> list[list[Scored]]:
        scored = read_passages(reader, question, read[part])
        readings.extend(scored)
        return scored

    found = read_until_sure(reader, question, hits, read_part, answers > 1, threshold, k, fitted)
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
    fitted: FittedConfidence | None = None,
) -> list[Answer]:
    """All different answers in the passages, best first.

    If the first few passages give an answer so sure that the others hardly ever change it, the others are not read.

    Args:
        reader: Whose spans they are.
        question: What is asked.
        hits: The passages.
        read_part: Reads some of them.
        read_all: Never stop early.
        threshold: The least confidence of an answer: what is less sure is no reason to stop.
        k: How many are read at most; the others only show how far these stand out.
        fitted: The reader's confidence for this question, if it was looked up already.
    """
    size = len(hits[:k])
    fitted = fitted or reader.config.fitted_for(question)
    if read_all or not fitted.early_stop or size <= FIRST_PASSAGES:
        return rank_answers(reader, question, hits, read_part(slice(size)), fitted)
    first = read_part(slice(FIRST_PASSAGES))
    answers = rank_answers(reader, question, hits, first, fitted)
    if answers and answers[0].confidence >= max(fitted.early_stop, threshold):
        return answers
    return rank_answers(reader, question, hits, [*first, *read_part(slice(FIRST_PASSAGES, size))], fitted)


def rank_answers(
    reader: Reader,
    question: str,
    hits: Sequence[Hit],
    scored: Sequence[Sequence[Scored]],
    fitted: FittedConfidence | None = None,
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
    texts = [passage.unwrapped() for passage in passages]
    words = question_words_in(question, [f"{passage.title} {passage.text}" for passage in passages])
    curve = (fitted or reader.config.fitted_for(question)).confidence
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
