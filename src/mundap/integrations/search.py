"""The part that all adapters share: an index, and how it is searched."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from mundap.index.corpus import Filters
from mundap.index.index import Index
from mundap.index.latest import Latest
from mundap.index.modes import Mode
from mundap.pipeline.search import search
from mundap.reader.choice import LanguageReaders
from mundap.records import Hit

Where = Index | Path | str | None
"""An open index, the folder of one, or None for `.mundap/` here or in the nearest parent."""


class Search:
    """A way to search an index.

    Args:
        index: A folder is opened again when somebody commits to it; an open index stays as it is.
        mode: One of `mundap.index.modes`.
        rerank: Whether a reader reranks the hits.
        reader: Which one; by default that of the package.
    """

    def __init__(self, index: Where, mode: Mode | None, rerank: bool, reader: str | Path | None) -> None:
        self._index: Callable[[], Index]
        if isinstance(index, Index):
            self._index = lambda: index
        else:
            self._index = Latest(index)
        self._mode = mode
        self._rerank = rerank
        self._name = reader

    @property
    def index(self) -> Index:
        """The index, as it is now."""
        return self._index()

    @cached_property
    def _reader(self) -> LanguageReaders:
        return LanguageReaders.from_pretrained(self._name)

    def __call__(self, question: str, k: int, filters: Filters | None = None) -> list[Hit]:
        """The best passages."""
        reader = None
        if self._rerank:
            reader = self._reader
        return list(search(self.index, [question], k, self._mode, reader, filters=filters)[0].hits)


def facts(hit: Hit) -> dict[str, Any]:
    """The metadata of a hit as a flat dictionary, for frameworks: everything but its text and score.

    The document's own metadata comes with it, but never overwrites the hit's.
    """
    passage = hit.passage
    found: dict[str, Any] = {
        **passage.metadata,
        "passage": passage.id,
        "document": passage.document,
        "title": passage.title,
        "source": passage.source,
        "start": passage.start,
        "end": passage.end,
        "rank": hit.rank,
    }
    if hit.bm25 is not None:
        found["bm25"] = hit.bm25
    if hit.dense is not None:
        found["dense"] = hit.dense
    return found
