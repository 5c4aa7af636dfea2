"""Search an index, and let a reader rerank what was found."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mundap.errors import Message, UsageError
from mundap.index.index import MAX_K, Index
from mundap.index.modes import Mode
from mundap.reader.answers import selection, z_scores
from mundap.reader.choice import LanguageReaders, reader_for
from mundap.reader.runtime import Reader
from mundap.records import Hit, SearchResult

RERANK_DEPTH = 50
"""How many passages a reader reranks, if not more are wanted."""

UNSCORED = -1e3
"""The score of a passage that the reader cannot read. It comes behind those that it can, whatever theirs is."""


def search(
    index: Index,
    questions: Sequence[str],
    k: int = 10,
    mode: Mode | None = None,
    reader: Reader | LanguageReaders | None = None,
    **options: Any,
) -> list[SearchResult]:
    """The best passages for each question.

    Args:
        index: Where to search.
        questions: Plain text.
        k: How many passages.
        mode: How to search.
        reader: Reranks what was found. A question in a script that it does not know keeps the order of the search.
        options: As for `Index.search_batch`.
    """
    if not 1 <= k <= MAX_K:  # the index itself may be asked for more than k
        raise UsageError("k = {k}: choose between 1 and {most}", k=k, most=MAX_K)
    mode = mode or index.default_mode
    depth = k
    if reader is not None:
        depth = max(k, RERANK_DEPTH)
    results = []
    for question, found in zip(questions, index.search_batch(questions, depth, mode, **options), strict=True):
        hits: Sequence[Hit] = found
        note = ""
        if reader is not None:
            hits, note = _reranked(reader, question, hits)
        results.append(SearchResult(question, mode, tuple(hits[:k]), note))
    return results


def _reranked(reader: Reader | LanguageReaders, question: str, hits: Sequence[Hit]) -> tuple[Sequence[Hit], str]:
    """The hits reranked, or as they are with a note why."""
    chosen, known = reader_for(reader, question, hits)
    if known:
        return rerank(chosen, question, hits), ""
    note = "the reader ({name}) knows English only: the order is that of the search"
    return hits, Message(note, name=chosen.config.name)


def rerank(reader: Reader, question: str, hits: Sequence[Hit]) -> list[Hit]:
    """The same hits in the order of `rerank_order`, with its scores."""
    passages = [(hit.passage.title, hit.passage.text) for hit in hits]
    order = rerank_order(reader, question, passages, [hit.score for hit in hits])
    return [replace(hits[place], rank=rank, score=score) for rank, (place, score) in enumerate(order, 1)]


def rerank_order(
    reader: Reader, question: str, passages: Sequence[tuple[str, str]], retrieval: Sequence[float]
) -> list[tuple[int, float]]:
    """Rank (title, text) pairs by what a reader says of each and by how well it was found, as answers are ranked.

    The reader sees question and passage together, as a cross-encoder does, but it was trained on few passages; the
    search knows all of them. Together they put the answer first more often than either alone (the reader's card). A
    passage in a script that the reader does not know is not scored: what the reader says of it means nothing. Such
    passages come last, in the order they had.

    Returns:
        Positions of the passages with their scores, best first.
    """
    weight = reader.config.retrieval_weight
    prior = weight * z_scores(retrieval)
    known_places = [reader.knows_script(text) for _, text in passages]
    known = [place for place in range(len(passages)) if known_places[place]]
    scores = [UNSCORED] * len(passages)
    for place, windows in zip(known, reader.read(question, [passages[place] for place in known]), strict=True):
        scores[place] = selection(passages[place][1], windows, reader.config) + float(prior[place])
    # Where the first ones are nearly equal, what is far behind them may fall below UNSCORED, though it was read.
    order = sorted(range(len(passages)), key=lambda place: (not known_places[place], -scores[place]))
    return [(place, scores[place]) for place in order]
