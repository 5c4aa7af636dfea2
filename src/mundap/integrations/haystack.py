"""A retriever for Haystack (extra `haystack`)."""

import asyncio
import glob
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from mundap.errors import ExtraMissing, UsageError
from mundap.index.corpus import Filters
from mundap.index.modes import Mode
from mundap.integrations.search import Search, facts

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ImportError as error:
    raise ExtraMissing("the Haystack retriever", "haystack") from error


@component
class MundapRetriever:
    """Passages of an index as Haystack documents: a component, for pipelines, which can be saved with it.

    A document's id is the passage's; its `meta` has source, offsets, rank and scores.

    Filters are written as Haystack writes them, of `==` and `in` joined by AND; the fields are those of the documents'
    own metadata, and `document` and `source`: `{"field": "meta.language", "operator": "==", "value": "ko"}`.

    Args:
        index: The folder of an index; None for `.mundap/` here or in the nearest parent.
        top_k: How many passages.
        mode: `bm25`, `dense` or `hybrid`, the default where there are vectors.
        filters: Only passages that match. Those given to `run` take their place.
        rerank: Whether a reader reranks what was found.
        reader: Which one; by default that of the package.

    Example:
        >>> retriever = MundapRetriever("my-index", top_k=3)
        >>> retriever.run("Which river runs through Vienna?")["documents"][0].meta["source"]
    """

    def __init__(
        self,
        index: str | Path | None = None,
        top_k: int = 10,
        mode: Mode | None = None,
        filters: dict[str, Any] | None = None,
        rerank: bool = False,
        reader: str | Path | None = None,
    ) -> None:
        self.index = index
        self.top_k = top_k
        self.mode = mode
        self.filters = filters
        self.rerank = rerank
        self.reader = reader
        _parsed(filters)  # so that a mistake in them is reported now

    @cached_property
    def _search(self) -> Search:
        return Search(self.index, self.mode, self.rerank, self.reader)

    def warm_up(self) -> None:
        """Open the index."""
        _ = self._search.index

    def to_dict(self) -> dict[str, Any]:
        """What the component can be made again from."""
        saved: dict[str, Any] = default_to_dict(
            self,
            index=None if self.index is None else str(self.index),
            top_k=self.top_k,
            mode=self.mode,
            filters=self.filters,
            rerank=self.rerank,
            reader=None if self.reader is None else str(self.reader),
        )
        return saved

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The component that was saved."""
        made: Self = default_from_dict(cls, data)
        return made

    @component.output_types(documents=list[Document])
    def run(self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None) -> dict[str, Any]:
        """The best passages for a question.

        Args:
            query: Plain text.
            filters: In the place of the component's own.
            top_k: In the place of the component's own.
        """
        wanted = _parsed(self.filters if filters is None else filters)
        hits = self._search(query, self.top_k if top_k is None else top_k, wanted)
        documents = [
            Document(id=hit.passage.id, content=hit.passage.text, meta=facts(hit), score=hit.score) for hit in hits
        ]
        return {"documents": documents}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, filters: dict[str, Any] | None = None, top_k: int | None = None
    ) -> dict[str, Any]:
        """As `run`, in a thread of its own."""
        return await asyncio.to_thread(self.run, query, filters, top_k)


def _parsed(filters: Mapping[str, Any] | None) -> Filters | None:
    """Haystack's filters as ours."""
    if not filters:
        return None
    several: dict[str, list[str]] = {"document": [], "source": []}
    metadata: dict[str, str] = {}
    for field, values in _conditions(filters):
        if field in several:
            if several[field]:
                raise UsageError(f"filters: two conditions on {field}: give one, with the operator 'in'")
            several[field] = values
        elif len(values) != 1 or metadata.get(field, values[0]) != values[0]:
            raise UsageError(f"filters: {field} can have one value only; document and source can have several")
        else:
            metadata[field] = values[0]
    sources = tuple(map(glob.escape, several["source"]))
    return Filters(tuple(several["document"]), sources, metadata)


def _conditions(filters: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Each field with the values it may have; all must hold."""
    if not isinstance(filters, Mapping):
        raise UsageError(f"filters: {filters!r} is not understood. Write a dictionary.")
    operator, conditions = filters.get("operator"), filters.get("conditions")
    if operator == "AND" and isinstance(conditions, Sequence):
        pairs = []
        for condition in conditions:
            pairs += _conditions(condition)
        return pairs
    field, value = filters.get("field"), filters.get("value")
    values = {"==": [value], "in": value}.get(str(operator))
    if not isinstance(field, str) or not isinstance(values, list) or not values:
        raise UsageError(f"filters: {filters!r} is not understood. Use the operators == and in, joined by AND.")
    return [(field.removeprefix("meta."), [str(one) for one in values])]
