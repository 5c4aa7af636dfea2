import asyncio
import subprocess
import sys

import pytest

from mundap import Filters, Index
from mundap.errors import IndexMissing, UsageError

pytest.importorskip("langchain_core", reason="needs the extra `langchain`")

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import ConfigurableField, RunnablePassthrough

from mundap.integrations.langchain import MundapRetriever


def test_documents_have_text_id_and_metadata(folder):
    hit = Index(folder).search("river", 1)[0]
    document = MundapRetriever(index=folder, k=1).invoke("river")[0]
    assert isinstance(document, Document)
    assert (document.page_content, document.id) == (hit.passage.text, hit.passage.id)
    known = {"score": hit.score, "bm25": hit.bm25, "dense": hit.dense, "rank": 1, "source": hit.passage.source}
    assert known.items() <= document.metadata.items()
    whole = Index(folder).document(document.metadata["document"]).text
    assert whole[document.metadata["start"] : document.metadata["end"]] == document.page_content


def test_options_of_the_retriever_and_of_a_call(folder, tiny_reader):
    index = Index(folder)
    only = Filters(metadata={"language": "en"})
    retriever = MundapRetriever(index=index, k=2, mode="bm25", filters=only)
    assert [one.metadata["title"] for one in retriever.invoke("river")] == ["Two > Head"]
    assert len(retriever.invoke("river", filters=Filters())) == 2
    assert len(retriever.invoke("river", filters=Filters(), k=1)) == 1
    reranked = MundapRetriever(index=index, k=3, rerank=True, reader=tiny_reader).invoke("music")
    assert [one.metadata["rank"] for one in reranked] == [1, 2, 3]


def test_a_chain(folder):
    def joined(documents):
        return "\n".join(f"[{one.metadata['source'].rsplit('/')[-1]}] {one.page_content}" for one in documents)

    retriever = MundapRetriever(index=folder, k=1, mode="bm25")
    prompt = PromptTemplate.from_template("Answer {question} from:\n{context}")
    chain = {"context": retriever | joined, "question": RunnablePassthrough()} | prompt | (lambda value: value.text)
    answer = (chain | StrOutputParser()).invoke("한강은 어디에 흐르나?")
    assert answer.startswith("Answer 한강은 어디에 흐르나? from:\n[세.txt] 서울은 대한민국의 수도이다.")


def test_async_and_batches_give_the_same(folder):
    retriever = MundapRetriever(index=folder, k=3)
    expected = retriever.invoke("river")
    assert asyncio.run(retriever.ainvoke("river")) == expected
    assert asyncio.run(retriever.ainvoke("river", k=1)) == expected[:1]
    assert retriever.batch(["river", "music"] * 8) == [expected, retriever.invoke("music")] * 8


def test_a_field_can_be_configured_at_run_time(folder):
    field = ConfigurableField(id="k")
    chain = MundapRetriever(index=folder).configurable_fields(k=field)
    assert len(chain.with_config(configurable={"k": 2}).invoke("river")) == 2


def test_bad_input(folder, tmp_path):
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        MundapRetriever(index=folder, k=0)
    with pytest.raises(ValueError, match="'bm25', 'dense' or 'hybrid'"):
        MundapRetriever(index=folder, mode="magic")
    with pytest.raises(UsageError, match="the question is empty"):
        MundapRetriever(index=folder).invoke(" ")
    with pytest.raises(IndexMissing, match="Make one with"):
        MundapRetriever(index=tmp_path / "nothing").invoke("river")
    assert MundapRetriever(index=folder, k=1).invoke("\udcff\x00 river <script>")[0].metadata["rank"] == 1


def test_without_the_package_the_extra_is_named():
    code = "import sys; sys.modules['langchain_core'] = None\nimport mundap.integrations.langchain"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install '.[langchain]'" in done.stderr
