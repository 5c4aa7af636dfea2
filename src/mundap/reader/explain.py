"""Why an answer is what it is: what was read, passage by passage."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mundap.index.corpus import Filters
from mundap.index.index import Index
from mundap.models.reader import Reader
from mundap.reader.answers import selection
from mundap.reader.ask import choose, scores
from mundap.reader.spans import softmax
from mundap.records import Answer, Answered, Hit

DEEPEST = 100
"""How far down the list of the dense search a passage is looked for."""


@dataclass(frozen=True, slots=True)
class Row:
    """What is known of a passage that was read.

    Attributes:
        hit: The passage, as it was found.
        words: Of the question, found in its title or its text.
        dense: Its rank by vectors alone, if that is not beyond `DEEPEST`.
        best: Its best span, if it has any.
        selection: The probability that this passage, of all with a span, has the answer.
    """

    hit: Hit
    words: tuple[str, ...]
    dense: int | None
    best: Answer | None
    selection: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The row as it stands in `--json` output."""
        best = self.best
        return {
            "rank": self.hit.rank,
            "passage": self.hit.passage.id,
            "title": self.hit.passage.title,
            "words": list(self.words),
            "bm25": self.hit.bm25,
            "dense_rank": self.dense,
            "selection": self.selection if best else None,
            "best_span": {"text": best.text, "start": best.start, "end": best.end, "span": best.span} if best else None,
        }


def rows(index: Index, reader: Reader, found: Answered, filters: Filters | None = None) -> list[Row]:
    """A row for each passage that was found; none where nothing was read.

    Each passage is judged by itself: one that supports an answer has a span of its own, although the answer is listed
    under another passage.
    """
    if found.note or not found.hits:
        return []
    hits = found.hits
    ranked = index.search(found.question, DEEPEST, "dense", filters=filters) if index.encoder else []
    dense = {hit.passage.id: hit.rank for hit in ranked}
    scored = scores(reader, found.question, hits)
    best = [next(iter(choose(reader, [hit], [windows])), None) for hit, windows in zip(hits, scored, strict=True)]
    kept = [number for number, answer in enumerate(best) if answer is not None]
    chances = np.zeros(len(hits))
    if kept:
        fit = [selection(hits[number].passage.text, scored[number], reader.config) for number in kept]
        chances[kept] = softmax(np.array(fit))
    return [
        Row(hit, _words(index, hit, found.question), dense.get(hit.passage.id), answer, float(chance))
        for hit, answer, chance in zip(hits, best, chances, strict=True)
    ]


def _words(index: Index, hit: Hit, question: str) -> tuple[str, ...]:
    texts = (hit.passage.title, hit.passage.text)
    return tuple(
        dict.fromkeys(
            text[start:stop].lower() for text in texts for start, stop in index.analyzer.matches(text, question)
        )
    )
