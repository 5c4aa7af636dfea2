"""Evaluation of retrieval that reranks: what the reader is given."""

import json

import pytest

from mundap import Index, Reader
from mundap.datasets.runs import read_run
from mundap.evaluation.retrieval import RetrievalTask, measure
from mundap.pipeline.search import rerank, search
from mundap.reader.choice import LanguageReaders
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
    options = {"rerank": True, "reader": str(reader), "out": str(out)}
    measure(RetrievalTask(index=index, folder=str(folder), modes=("bm25",), **options))
    (found,) = read_run(out)
    others = [hit for hit in index.search(question, 100, "bm25") if hit.passage.id != "q"]
    expected = rerank(Reader(reader), question, others)
    assert [one.id for one in found.contexts] == [hit.passage.id for hit in expected]
    assert [float(one.score) for one in found.contexts] == pytest.approx([hit.score for hit in expected])


def test_the_reader_that_reranks_is_chosen_by_language_as_in_a_search(tmp_path, monkeypatch):
    """Of an English reader and one for all languages; the installed ones take seconds to open."""
    english = Reader(make_reader(tmp_path / "en", scripts="latin"))
    both = LanguageReaders(english, str(make_reader(tmp_path / "all")))
    monkeypatch.setattr(LanguageReaders, "from_pretrained", lambda name: both)
    texts = {"a": "王は the king です。", "b": "王は a film villain です。", "c": "王は a film です。"}
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(f"{text} 東京は日本の首都であり、川が流れる。")
    index = Index.build([tmp_path / f"{name}.txt" for name in texts], tmp_path / "i", model="none")
    rows = [{"id": "1", "question": "王は?", "answers": ["x"]}, {"id": "2", "question": "film king", "answers": ["x"]}]
    (tmp_path / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    out = tmp_path / "run.json"
    task = RetrievalTask(index, str(tmp_path / "questions.jsonl"), rerank=True, cuts=(3,), out=str(out))
    assert not any("not reranked" in note for note in measure(task).notes)
    for result in read_run(out):
        expected = search(index, [result.question.text], reader=both)[0].hits
        assert [one.id for one in result.contexts] == [hit.passage.id for hit in expected]
        assert [float(one.score) for one in result.contexts] == [hit.score for hit in expected]
        assert result.contexts[0].id == "b.txt"
