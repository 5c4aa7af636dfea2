"""benchmarks/papers.py: sets that have no passages, and test questions of their own."""

import gzip
import importlib.util
import json
from pathlib import Path

import pytest

PAPERS = Path(__file__).parents[2] / "benchmarks" / "papers.py"


@pytest.fixture
def papers():
    spec = importlib.util.spec_from_file_location("papers", PAPERS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_web_questions_that_are_tested_are_not_learnt(papers, tmp_path, monkeypatch):
    from mundap.datasets import queries

    def put(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()))

    for part, questions in zip(
        papers.WQ, (["who is a?", "Who  is b"], ["who is c?"], ["who is d?", "is g?"]), strict=True
    ):
        put(part, json.dumps([{"qId": "1", "qText": one, "answers": [one[-2:]]} for one in questions]))
    put(papers.WQ_TEST, json.dumps({"question": "who is b?", "answer": ["b"]}) + "\n")
    put(papers.TREC, "1\tx\tWho is e?\te+\n2\tx\twho is f?\tf+\n")
    put(papers.TREC_TEST, json.dumps({"question": "who is e?", "answers": ["e+"]}) + "\n")
    put("dpr-qa/topics.dpr.nq.test.txt.gz", "Is g\t['g']\n")
    put(papers.PSGS, "id\ttext\ttitle\n")
    article = {
        "title": "T",
        "paragraphs": [{"context": "c d", "qas": [{"question": "q?", "answers": [{"text": "c"}]}]}],
    }
    for paths in papers.SETS.values():
        put(paths[0], json.dumps({"data": [article] * 2}))
    monkeypatch.setattr("sys.argv", ["papers.py", str(tmp_path), "-o", str(tmp_path / "out")])
    papers.main()
    learnt, _ = queries.read_all(tmp_path / "out" / "sets" / "wq-train.jsonl")
    assert [one.text for one in learnt] == ["who is a?", "who is c?", "who is d?"]
    tested, _ = queries.read_all(tmp_path / "out" / "sets" / "wq-test.jsonl")
    assert [(one.text, one.answers) for one in tested] == [("who is b?", ("b",))]
    learnt, _ = queries.read_all(tmp_path / "out" / "sets" / "trec-train.jsonl")
    assert [one.text for one in learnt] == ["who is f?"]
