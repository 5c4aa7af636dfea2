"""A retriever for LangChain (extra `langchain`)."""

from pathlib import Path
from typing import Any

from mundap.errors import ExtraMissing
from mundap.index.corpus import Filters
from mundap.index.modes import Mode
from mundap.integrations.search import Search, Where, facts

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables.config import run_in_executor
    from pydantic import Field, PrivateAttr
except ImportError as error:
    raise ExtraMissing("the LangChain retriever", "langchain") from error


class MundapRetriever(BaseRetriever):
    """Passages of an index as LangChain documents: a Runnable, for chains.

    A document's `id` is the passage's; its metadata has source, offsets, rank and scores. `k` and `filters` can also be
    given with a question: `retriever.invoke("…", k=3)`.

    Example:
        >>> retriever = MundapRetriever(index="my-index", k=3, filters=Filters(metadata={"language": "ko"}))
        >>> retriever.invoke("서울의 강은?")[0].metadata["source"]
    """

    index: Where = None
    """An open index, the folder of one, or None for `.mundap/` here or in the nearest parent."""
    k: int = Field(10, ge=1)
    """How many passages."""
    mode: Mode | None = None
    """`bm25`, `dense` or `hybrid`, the default where there are vectors."""
    filters: Filters | None = None
    """Only passages that match."""
    rerank: bool = False
    """Whether a reader reranks what was found."""
    reader: str | Path | None = None
    """Which one; by default that of the package."""

    _search: Search = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Find the index."""
        super().model_post_init(context)
        self._search = Search(self.index, self.mode, self.rerank, self.reader)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filters: Filters | None = None,
    ) -> list[Document]:
        hits = self._search(query, self.k if k is None else k, self.filters if filters is None else filters)
        return [
            Document(hit.passage.text, id=hit.passage.id, metadata={**facts(hit), "score": hit.score}) for hit in hits
        ]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        manager = run_manager.get_sync()
        found: list[Document] = await run_in_executor(
            None, self._get_relevant_documents, query, run_manager=manager, **options
        )
        return found
