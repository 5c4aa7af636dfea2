"""What a run of a reader keeps, leaves out, and refuses."""

import dataclasses
import json

import pytest

from mundap.errors import ModelError, MundapError
from mundap.training.recipe import DataSet
from tests.training.test_reader import files, recipe

pytest.importorskip("torch")
pytestmark = pytest.mark.torch
__all__ = ["files"]  # fixtures


def test_a_reranker_is_not_taken_for_a_reader(files, tmp_path):
    from mundap import Index
    from mundap.pipeline.ask import ask
    from mundap.pipeline.search import search
    from mundap.reader.export import export_reader
    from mundap.reader.runtime import Reader
    from mundap.training.reader import train

    train(recipe(files, tmp_path / "run", selection_only=True, dev=(), max_steps=2))
    export_reader(tmp_path / "run" / "model", tmp_path / "onnx", precisions=["fp32"])
    reader = Reader(tmp_path / "onnx")
    assert not reader.config.spans
    (tmp_path / "one.txt").write_text("a b c")
    index = Index.build([tmp_path / "one.txt"], tmp_path / "i", model="none")
    assert len(search(index, ["a"], reader=reader)[0].hits) == 1
    with pytest.raises(ModelError, match="trained to rerank passages"):
        ask(index, "a", reader)


def test_of_weights_that_do_as_well_the_trained_ones_are_kept(files, tmp_path):
    from mundap.training.reader import train

    done = train(recipe(files, tmp_path / "run", max_steps=4, learning_rate=1e-12, eval_steps=2))
    assert done.figures["all"]["f1"] == done.before["all"]["f1"]
    assert done.best_step == 4


def test_rows_that_teach_nothing_are_told(files, tmp_path):
    from mundap.training.reader import train

    rows = (files / "a.jsonl").read_text()
    (tmp_path / "a.jsonl").write_text(rows + '{"question": "q?", "answers": ["b"], "positive_ctxs": []}\n{"half\n')
    done = train(recipe(files, tmp_path / "run", train=(DataSet(str(tmp_path / "a.jsonl")),), dev=(), max_steps=1))
    assert done.left_out == {"a": {"no positive passage with a text": 1, "not JSON": 1}}
    for row in (one := [json.loads(line) for line in rows.splitlines()]):
        row["answers"] = []
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, one)))
    ranking = recipe(files, tmp_path / "other", train=(DataSet(str(tmp_path / "b.jsonl")),), dev=(), max_steps=1)
    with pytest.raises(MundapError, match="selection_only"):
        train(ranking)
    train(dataclasses.replace(ranking, selection_only=True))


def test_a_run_does_not_go_on_with_other_data(files, tmp_path):
    from mundap.training.reader import train

    path = tmp_path / "a.jsonl"
    path.write_text((files / "a.jsonl").read_text())
    chosen = recipe(files, tmp_path / "run", train=(DataSet(str(path)),), dev=(), max_steps=1)
    train(chosen)
    path.write_text("".join((files / "a.jsonl").read_text().splitlines(keepends=True)[:20]))
    with pytest.raises(MundapError, match="has changed since the run"):
        train(chosen)
