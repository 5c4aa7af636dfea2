"""Ask an index: retrieve, read, answer."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mundap.errors import ModelError, UsageError
from mundap.index.index import MAX_K, Index, Mode
from mundap.models.folder import is_foreign
from mundap.models.reader import Reader, Scored
from mundap.reader.answers import AMONG, Candidate, confidence, rank, selection
from mundap.records import Answer, Answered, Found, Hit

READ = 10
"""How many passages are read."""

FIRST = 2
"""How many passages are read before the question is whether that is enough."""

RERANKED = 50
"""How many passages are put in order."""


def ask(
    index: Index,
    question: str,
    reader: Reader | None = None,
    k: int = READ,
    answers: int = 1,
    threshold: float | None = None,
    mode: Mode | None = None,
    **options: Any,
) -> Answered:
    """Answer a question from an index, or say that there is no answer in it.

    Args:
        index: Where to look.
        question: Plain text.
        reader: By default the one that comes with the package.
        k: How many passages are read.
        answers: How many different answers at most.
        threshold: The least confidence of an answer; by default the reader's own, fitted on dev data.
        mode: How to search.
        options: As for `Index.search`.

    Example:
        >>> ask(Index("my-index"), "Who wrote Middlemarch?").answers[0].text
    """
    reader = reader or Reader.from_pretrained()
    hits = index.search(question, found_for(k), mode, **options)
    return read(reader, question, hits, answers, threshold, k)


def found_for(k: int) -> int:
    """How many passages are looked for so that k can be read: how sure an answer is, is seen beside the others."""
    return max(k, AMONG) if k > 0 else k


def read(
    reader: Reader,
    question: str,
    hits: Sequence[Hit],
    answers: int = 1,
    threshold: float | None = None,
    k: int | None = None,
) -> Answered:
    """Answer a question from passages that were found for it, of which the first k, or all, are read."""
    if answers < 1:
        raise UsageError("at least one answer must be asked for")
    shown = tuple(hits[:k])
    if is_foreign(question, reader.config.scripts):
        note = f"the reader ({reader.config.name}) knows no other writing than Latin: nothing was read"
        return Answered(question, (), None, shown, note)
    least = reader.config.threshold if threshold is None else threshold
    found = settle(reader, hits, lambda part: scores(reader, question, shown[part]), answers > 1, least, k)
    good = tuple(answer for answer in found if answer.confidence >= least)[:answers]
    if found and found[0].confidence < least:  # what comes after the best is no answer either
        good = ()
    guess = found[0] if found and not good else None
    more = len(found[:answers]) - max(len(good), guess is not None) if answers > 1 else 0
    return Answered(question, good, guess, shown, more=more)


def scores(reader: Reader, question: str, hits: Sequence[Hit]) -> list[list[Scored]]:
    """What the reader says of each passage; it does not depend on the others."""
    return reader.read(question, [(hit.passage.title, hit.passage.text) for hit in hits])


def settle(
    reader: Reader,
    hits: Sequence[Hit],
    score: Callable[[slice], Sequence[Sequence[Scored]]],
    whole: bool = False,
    least: float = 0.0,
    k: int | None = None,
) -> list[Answer]:
    """All different answers in the passages, best first.

    Where the first few give an answer so sure that the rest hardly ever changes it, that is not read.

    Args:
        reader: Which; how sure is sure enough was fitted with its confidence.
        hits: The passages.
        score: Reads a part of them.
        whole: Read all of them in any case.
        least: The least confidence of an answer: what is less sure is no reason to stop.
        k: How many are read at most; the others only show how far these stand out.
    """
    size = len(hits[:k])
    first = min(FIRST, size) if reader.config.enough and not whole else size
    scored = score(slice(first))
    found = choose(reader, hits, scored)
    if size == first or (found and found[0].confidence >= max(reader.config.enough, least)):
        return found
    return choose(reader, hits, [*scored, *score(slice(first, size))])


def choose(reader: Reader, hits: Sequence[Hit], scored: Sequence[Sequence[Scored]]) -> list[Answer]:
    """All different answers in those of the passages that were read, the first ones or all, best first.

    None is surer than the one before it.

    Raises:
        ModelError: The reader cannot find answers.
    """
    if not reader.config.spans:
        raise ModelError(
            f"{reader.folder} was trained to put passages in order (--selection-only) and finds no answers: use it as "
            "the --reader of `mundap search --rerank`, or leave out --reader"
        )
    texts = [hit.passage.text for hit in hits[: len(scored)]]
    answers: list[Answer] = []
    sure = 1.0
    for one in rank(texts, scored, [hit.score for hit in hits], reader.config):
        sure = min(sure, confidence(one.features, reader.config.confidence))
        answers.append(_answer(one, hits[one.passage], sure))
    return answers


def _answer(one: Candidate, hit: Hit, sure: float) -> Answer:
    passage = hit.passage
    return Answer(
        passage.text[one.start : one.end],
        sure,
        hit,
        passage.start + one.start,
        passage.start + one.end,
        one.score,
        one.selection,
        one.span,
        one.support,
        one.features,
    )


def find(
    index: Index,
    questions: Sequence[str],
    k: int = READ,
    mode: Mode | None = None,
    reader: Reader | None = None,
    **options: Any,
) -> list[Found]:
    """What the index finds for each question, in the reader's order if there is one. Options as for `Index.search`.

    A question in a writing that the reader does not know keeps the order of the search, with a note.
    """
    if not 1 <= k <= MAX_K:  # the index sees a larger number where a reader puts things in order
        raise UsageError(f"k = {k}: choose between 1 and {MAX_K}")
    mode = mode or index.default_mode
    size = k if reader is None else max(k, RERANKED)
    found: Sequence[Sequence[Hit]] = index.search_batch(questions, size, mode, **options)
    return [_found(reader, question, mode, hits, k) for question, hits in zip(questions, found, strict=True)]


def _found(reader: Reader | None, question: str, mode: Mode, hits: Sequence[Hit], k: int) -> Found:
    if reader is None:
        return Found(question, mode, tuple(hits))
    if is_foreign(question, reader.config.scripts):
        note = f"the reader ({reader.config.name}) knows no other writing than Latin: the order is that of the search"
        return Found(question, mode, tuple(hits[:k]), note)
    return Found(question, mode, tuple(rerank(reader, question, hits)[:k]))


def rerank(reader: Reader, question: str, hits: Sequence[Hit]) -> list[Hit]:
    """The same hits, best first by the reader's selection score: a cross-encoder's order."""
    fit = fits(reader, question, [(hit.passage.title, hit.passage.text) for hit in hits])
    order = sorted(range(len(hits)), key=lambda number: -fit[number])
    return [replace(hits[number], rank=place, score=fit[number]) for place, number in enumerate(order, 1)]


def fits(reader: Reader, question: str, passages: Sequence[tuple[str, str]]) -> list[float]:
    """How well each (title, text) fits a question, in the reader's opinion."""
    scored = reader.read(question, passages)
    return [selection(text, row, reader.config) for (_, text), row in zip(passages, scored, strict=True)]
