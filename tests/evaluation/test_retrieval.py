"""Evaluation of retrieval that reranks: what the reader is given."""

import json

import pytest

from mundap import Index, Reader
from mundap.datasets.runs import read_run
from mundap.evaluation.retrieval import RetrievalTask, measure
from mundap.pipeline.search import rerank
from tests.conftest import make_reader


def test_a_question_that_is_a_document_too_does_not_count_in_reranking(tmp_path):
    """It is found far better than all others, which would look equally far behind it."""
    question = "who is the king of the moon and the river?"
    texts = {"q": question, "a": "the king", "b": "the moon and the river", "c": "the river of the lord", "d": "a moon"}
    rows = [json.dumps({"id": name, "text": text}) for name, text in texts.items()]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    index = Index.build([tmp_path / "rows.jsonl"], tmp_path / "i", model="none")
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    (folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": question}))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\n")
    reader = make_reader(tmp_path / "r", retrieval_weight=2.0)
    out = tmp_path / "run.json"
    measure(RetrievalTask(index=index, folder=str(folder), modes=("bm25",), reranker=str(reader), out=str(out)))
    (found,) = read_run(out)
    others = [hit for hit in index.search(question, 100, "bm25") if hit.passage.id != "q"]
    expected = rerank(Reader(reader), question, others)
    assert [one.id for one in found.contexts] == [hit.passage.id for hit in expected]
    assert [float(one.score) for one in found.contexts] == pytest.approx([hit.score for hit in expected])
