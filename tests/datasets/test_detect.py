"""What a file is, from its beginning: every kind the field has, told by one function."""

import gzip

import pytest

from mundap.datasets.detect import detect
from mundap.errors import MundapError


def put(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "layout", "questions"),
    [
        ('[{"question": "a"}]', "array", "json"),
        ('{"data": [{"title": "t", "paragraphs": []}]}\n', "object", "json"),
        ('{\n  "version": 1,\n "data": []}', "object", "json"),
        ('{"question": "a"}\n{"question": "b"}\n', "lines", "jsonl"),
        ("who sings it\t['Linda Davis']\n", "table", "csv"),
        ("1 what is it about?\tGinger & Rosa, Two\n", "table", "wikimovies"),
        ("1\tFACTOID\twho?\tpattern\n", "table", "trec"),
        ("1048585\twhat is paula deen's brother\n", "table", "queries"),
        ("1988\t['Seoul']\n", "table", "csv"),
    ],
)
def test_questions(tmp_path, content, layout, questions):
    found = detect(put(tmp_path, content))
    assert (found.layout, found.questions) == (layout, questions)


@pytest.mark.parametrize(
    ("content", "examples"),
    [
        ('[{"question": "a", "positive_ctxs": []}]', "dpr-json"),
        ('{"question": "a", "positive_ctxs": []}\n{"question": "b"}\n', "dpr-jsonl"),
        ('{"query": "a", "positive_passages": []}\n{"query": "b"}\n', "tevatron"),
        ("who?\tyes\tno\n", "triples"),
        ("400296\t1540783\t3518497\n", "triple-ids"),
    ],
)
def test_training_examples(tmp_path, content, examples):
    found = detect(put(tmp_path, content))
    assert found.examples == examples
    assert found.has_positives


@pytest.mark.parametrize(
    ("content", "run"),
    [
        ('[{"question": "a", "ctxs": []}]', "dpr"),
        ('{"question": "a", "ctxs": []}\n{"question": "b", "ctxs": []}\n', "dpr-lines"),
        ('{"0": {"question": "a", "contexts": []}}', "pyserini"),
        ("1 Q0 d1 1 2.5 tag\n", "trec"),
        ("1\td1\t1\n", "trec"),
        ("188714\t1000052\tfoods and supplements\tWatch portion sizes\n", "top1000"),
    ],
)
def test_runs(tmp_path, content, run):
    assert detect(put(tmp_path, content)).run == run


def test_a_folder_an_empty_file_and_a_compressed_one(tmp_path):
    assert detect(tmp_path).examples == "beir"
    assert detect(put(tmp_path, "")).layout == "empty"
    packed = tmp_path / "a.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf [1]"))
    assert detect(packed).layout == "array"
    with pytest.raises(MundapError, match="no such file"):
        detect(tmp_path / "none")
