"""A retriever for LlamaIndex (extra `llamaindex`)."""

import asyncio
from pathlib import Path
from typing import Any

from mundap.errors import ExtraMissing
from mundap.index.corpus import Filters
from mundap.index.modes import Mode
from mundap.integrations.search import Search, Where, facts
from mundap.records import Hit

try:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
except ImportError as error:
    raise ExtraMissing("the LlamaIndex retriever", "llamaindex") from error

_NOT_FOR_MODELS = ["passage", "document", "start", "end", "rank", "bm25", "dense"]


class MundapRetriever(BaseRetriever):
    """Passages of an index as LlamaIndex nodes, for query engines.

    A node's id is the passage's; its metadata has source, offsets, rank and scores, of which a language model is shown
    what may help it, such as title and source.

    Args:
        index: An open index, the folder of one, or None for `.mundap/` here or in the nearest parent.
        similarity_top_k: How many passages.
        mode: `bm25`, `dense` or `hybrid`, the default where there are vectors.
        filters: Only passages that match.
        rerank: Whether a reader reranks what was found.
        reader: Which one; by default that of the package.
        options: For LlamaIndex's own base class.

    Example:
        >>> retriever = MundapRetriever("my-index", similarity_top_k=3)
        >>> retriever.retrieve("Which river runs through Vienna?")[0].metadata["source"]
    """

    def __init__(
        self,
        index: Where = None,
        similarity_top_k: int = 10,
        mode: Mode | None = None,
        filters: Filters | None = None,
        rerank: bool = False,
        reader: str | Path | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._search = Search(index, mode, rerank, reader)
        self._k = similarity_top_k
        self._filters = filters

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self._search(query_bundle.query_str, self._k, self._filters)
        return [NodeWithScore(node=_node(hit), score=hit.score) for hit in hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)


def _node(hit: Hit) -> TextNode:
    passage = hit.passage
    return TextNode(
        id_=passage.id,
        text=passage.text,
        metadata=facts(hit),
        start_char_idx=passage.start,
        end_char_idx=passage.end,
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=passage.document)},
        excluded_llm_metadata_keys=_NOT_FOR_MODELS,
        excluded_embed_metadata_keys=_NOT_FOR_MODELS,
    )
