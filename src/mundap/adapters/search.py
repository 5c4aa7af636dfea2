"""What every adapter wraps: an index, and how it is searched."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from mundap.index.corpus import Filters
from mundap.index.index import Index, Mode
from mundap.index.latest import Latest
from mundap.models.folder import READER
from mundap.models.reader import Reader
from mundap.reader.ask import find
from mundap.records import Hit

Where = Index | Path | str | None
"""An open index, the folder of one, or None for `.mundap/` here or in the nearest parent."""


class Search:
    """A way to search an index.

    Args:
        index: A folder is opened again when somebody commits to it; an open index stays as it is.
        mode: `bm25`, `dense` or `hybrid`.
        rerank: Whether hits are put in the order of a reader.
        reader: Which one; by default that of the package.
    """

    def __init__(self, index: Where, mode: Mode | None, rerank: bool, reader: str | Path | None) -> None:
        self._index: Callable[[], Index] = (lambda: index) if isinstance(index, Index) else Latest(index)
        self._mode = mode
        self._rerank = rerank
        self._name = reader or READER

    @property
    def index(self) -> Index:
        """The index, as it is now."""
        return self._index()

    @cached_property
    def _reader(self) -> Reader:
        return Reader.from_pretrained(self._name)

    def __call__(self, question: str, k: int, filters: Filters | None = None) -> list[Hit]:
        """The best passages."""
        reader = self._reader if self._rerank else None
        return list(find(self.index, [question], k, self._mode, reader, filters=filters)[0].hits)


def facts(hit: Hit) -> dict[str, Any]:
    """All of a hit but its text and its score, flat: frameworks keep this beside the text.

    What a document's own metadata says comes with it, but never in the place of what is known of the hit.
    """
    passage = hit.passage
    scores = {"bm25": hit.bm25, "dense": hit.dense}
    return {
        **passage.metadata,
        "passage": passage.id,
        "document": passage.document,
        "title": passage.title,
        "source": passage.source,
        "start": passage.start,
        "end": passage.end,
        "rank": hit.rank,
        **{name: score for name, score in scores.items() if score is not None},
    }
