import asyncio

import pytest

from mundap import Filters, Index
from mundap.errors import UsageError

pytest.importorskip("llama_index.core", reason="needs the extra `llamaindex`")

from llama_index.core import QueryBundle
from llama_index.core.llms import MockLLM
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, NodeRelationship

from mundap.integrations.llamaindex import MundapRetriever


def test_nodes_have_text_id_offsets_and_metadata(folder):
    hit = Index(folder).search("river", 1)[0]
    found = MundapRetriever(folder, similarity_top_k=1).retrieve("river")[0]
    node = found.node
    assert (found.score, node.node_id, node.get_content()) == (hit.score, hit.passage.id, hit.passage.text)
    assert (node.start_char_idx, node.end_char_idx) == (hit.passage.start, hit.passage.end)
    assert node.ref_doc_id == node.relationships[NodeRelationship.SOURCE].node_id == hit.passage.document
    known = {"bm25": hit.bm25, "dense": hit.dense, "rank": 1, "source": hit.passage.source, "passage": hit.passage.id}
    assert known.items() <= node.metadata.items()
    shown = node.get_content(MetadataMode.LLM)
    assert "source: " in shown and "bm25" not in shown


def test_options(folder, tiny_reader):
    index = Index(folder)
    only = Filters(metadata={"language": "en"})
    found = MundapRetriever(index, 2, mode="bm25", filters=only).retrieve("river")
    assert [one.metadata["title"] for one in found] == ["Two > Head"]
    reranked = MundapRetriever(index, 3, rerank=True, reader=tiny_reader).retrieve(QueryBundle("music"))
    assert [one.metadata["rank"] for one in reranked] == [1, 2, 3]


def test_a_query_engine(folder):
    engine = RetrieverQueryEngine.from_args(
        MundapRetriever(folder, similarity_top_k=3, mode="bm25"),
        llm=MockLLM(),  # its answer is the prompt
        node_postprocessors=[SimilarityPostprocessor(similarity_cutoff=0.0)],
    )
    answer = engine.query("한강은 어디에 흐르나?")
    assert "서울은 대한민국의 수도이다. 한강이 흐른다." in answer.response
    assert [one.node.node_id for one in answer.source_nodes] == ["sub/세.txt"]
    assert asyncio.run(engine.aquery("한강은 어디에 흐르나?")).response == answer.response


def test_async_gives_the_same(folder):
    retriever = MundapRetriever(folder, similarity_top_k=3)
    assert asyncio.run(retriever.aretrieve("river")) == retriever.retrieve("river")


def test_bad_input(folder):
    with pytest.raises(UsageError, match="the question is empty"):
        MundapRetriever(folder).retrieve(" ")
    with pytest.raises(UsageError, match="choose between 1 and"):
        MundapRetriever(folder, similarity_top_k=0).retrieve("river")
    with pytest.raises(UsageError, match="choose one of bm25"):
        MundapRetriever(folder, mode="magic").retrieve("river")
