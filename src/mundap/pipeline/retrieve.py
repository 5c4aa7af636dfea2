"""From questions to results, in batches: what evaluations and result files are made of."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mundap.index.index import MAX_QUESTION, Index
from mundap.index.modes import Mode
from mundap.records import Context, Hit, Question, Result

_BATCH = 256


def retrieve(
    index: Index,
    questions: Iterable[Question],
    k: int,
    mode: Mode | None = None,
    by_document: bool = False,
    **options: Any,
) -> Iterator[Result]:
    """Yield the best k passages for each question.

    Args:
        index: Where to search.
        questions: In any number; they are taken in batches.
        k: How many.
        mode: How to search.
        by_document: Results are documents, each by its best passage: what relevance judgements speak of.
        options: As for `Index.search_batch`.
    """
    stream = iter(questions)
    while batch := list(itertools.islice(stream, _BATCH)):
        texts = [question.text[:MAX_QUESTION] for question in batch]
        found = index.search_batch(texts, k, mode, by_document=by_document, **options)
        for question, hits in zip(batch, found, strict=True):
            yield _result(question, hits, by_document)


def retrieve_among(
    index: Index,
    questions: Iterable[Question],
    candidates: Iterable[Sequence[str]],
    mode: Mode | None = None,
    by_document: bool = False,
    **options: Any,
) -> Iterator[Result]:
    """Yield for each question its own candidates, ids of passages or documents, in this index's order."""
    for question, names in zip(questions, candidates, strict=True):
        hits = index.rerank(question.text[:MAX_QUESTION], names, mode, by_document=by_document, **options)
        yield _result(question, hits, by_document)


def _result(question: Question, hits: Sequence[Hit], by_document: bool) -> Result:
    contexts = []
    for hit in hits:
        passage = hit.passage
        if by_document:
            name = passage.document
        else:
            name = passage.id
        contexts.append(Context(name, passage.title, passage.text, hit.score))
    return Result(question, tuple(contexts))
