"""From questions to results, in batches: what evaluations and result files are made of."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mundap.index.index import MAX_QUESTION, Index, Mode
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
        mode: `bm25`, `dense` or `hybrid`.
        by_document: Results are documents, each by its best passage: what relevance judgements speak of.
        options: As for `Index.search_batch`.
    """
    stream = iter(questions)
    while batch := list(itertools.islice(stream, _BATCH)):
        texts = [question.text[:MAX_QUESTION] for question in batch]
        found = index.search_batch(texts, k, mode, by_document=by_document, **options)
        for question, hits in zip(batch, found, strict=True):
            yield Result(question, tuple(_context(hit, by_document) for hit in hits))


def rerank(
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
        yield Result(question, tuple(_context(hit, by_document) for hit in hits))


def _context(hit: Hit, by_document: bool) -> Context:
    passage = hit.passage
    return Context(passage.document if by_document else passage.id, passage.title, passage.text, hit.score)
