"""The tables of the shipped models' cards can be made again: here from a few questions and a tiny reader."""

import gzip
import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from mundap import Index
from tests.conftest import make_reader


@pytest.fixture
def figures():
    path = Path(__file__).parent.parent / "recipes" / "reader" / "figures.py"
    spec = importlib.util.spec_from_file_location("reader_figures", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_row_of_the_readers_card(figures, tmp_path, tiny_model, monkeypatch, capsys):
    texts = {"who?": ("a film with a villain", "villain"), "who else?": ("music for a king", "king")}
    paragraphs = [
        {"context": text, "qas": [{"id": asked, "question": asked, "answers": [{"text": answer, "answer_start": 0}]}]}
        for asked, (text, answer) in texts.items()
    ]
    data, made = tmp_path / figures.SQUAD, {"data": [{"title": "t", "paragraphs": paragraphs}]}
    data.parent.mkdir()
    data.write_bytes(gzip.compress(json.dumps(made).encode()))
    examples = tmp_path / "examples"
    (examples / "encyclopedia").mkdir(parents=True)
    for name, (text, _) in texts.items():
        (examples / "encyclopedia" / f"{name[:-1]}.txt").write_text(text)
    rows = [{"question": "who?", "answers": ["villain"], "language": "en"}]
    rows += [{"question": "누구?", "answers": ["왕"], "language": "ko"}]
    (examples / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(figures, "EXAMPLES", examples)
    reader = make_reader(tmp_path / "reader")
    shutil.copy(reader / "reader.fp32.onnx", reader / "reader.int8.onnx")
    Index.build([examples / "encyclopedia"], tmp_path / "pool", model=str(tiny_model))
    figures.test(tmp_path, reader, tmp_path / "pool", reader, None)
    lines = capsys.readouterr().out.splitlines()
    found = [json.loads(line) for line in lines[1::2]]
    assert [(row["row"], row["questions"]) for row in found] == [
        ("SQuAD dev, all questions, gold paragraph, int8", 2),
        ("SQuAD dev, 1,000 questions, gold paragraph, int8", 2),
        ("SQuAD dev, 1,000 questions, gold paragraph, fp32", 2),
        ("SQuAD dev, 500 questions, 10 passages of a pool of 2", 2),
        ("example encyclopaedia, English questions, 10 passages", 1),
    ]
    assert lines[0] == "SQuAD dev, all questions, gold paragraph, int8: exact match 100.0, F1 100.0 (2 questions)"
    assert found[4]["confidence"]["questions_asked_again"] == 1
    figures.test(tmp_path, reader, None, None, 1)
    assert capsys.readouterr().out.splitlines()[-1] == "left out without --fp32 and --pool"
