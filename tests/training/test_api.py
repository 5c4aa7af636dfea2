"""Training from Python, as docs/training.md shows it."""

import doctest
import re
from pathlib import Path

import pytest

import mundap
from mundap.errors import UsageError
from tests.training.parts import recipe, write_files

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.torch

SHORT = {"max_steps": 1, "batch_size": 4, "question_length": 16, "passage_length": 40}


def test_a_retriever_from_settings_a_file_and_a_record(files, tmp_path):
    from mundap.training import recipe_files

    told, steps = [], []
    given = {"train": files / "a.jsonl", "dev": files / "dev.jsonl", "base_model": files / "start", **SHORT}
    result = mundap.train_retriever(callback=steps.append, tell=told.append, output_dir=tmp_path / "run", **given)
    assert result.model == str(tmp_path / "run" / "model")
    assert set(result.before["all"]) == set(result.figures["all"]) == {"nll", "rank", "top1", "top5", "top20"}
    assert [one.step for one in steps] == [1]
    assert "similarity = dot, temperature = 1" in told[0]
    (tmp_path / "r.toml").write_text(recipe_files.dump(recipe(files, tmp_path / "from-file", dev=(), max_steps=2)))
    assert mundap.train_retriever(tmp_path / "r.toml", max_steps=1).steps == 1
    record = recipe(files, tmp_path / "from-record", dev=(), max_steps=2)
    assert mundap.train_retriever(record, max_steps=1).steps == 1
    with pytest.raises(UsageError, match="Did you mean batch_size"):
        mundap.train_retriever(record, batchsize=3)


def test_a_reader_from_settings(files, tmp_path):
    given = {"train": str(files / "a.jsonl"), "base_model": str(files / "start"), "output_dir": str(tmp_path / "run")}
    result = mundap.train_reader(num_passages=2, **given, **SHORT)
    assert (result.steps, result.model) == (1, str(tmp_path / "run" / "model"))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the files that the examples name."""
    from tests.encoder.test_export import make_checkpoint

    write_files(tmp_path, sets=(("train", 1, 70), ("dev", 3, 20)))
    for name in ("all-MiniLM-L6-v2", "MiniLM", "base"):
        make_checkpoint(tmp_path / name, positions=512)  # the examples have the default lengths
    (tmp_path / "recipe.toml").write_text('train = "train.jsonl"\nbase_model = "base"\noutput_dir = "from-recipe"\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_code_of_the_page_on_training_runs(place):
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 1
    exec(compile(blocks[0], "docs/training.md", "exec"), {})
    for run in ("run", "from-recipe", "reading"):
        assert (place / run / "model" / "config.json").is_file()


def test_the_examples_of_the_docstrings_run(place):
    from mundap.training import api

    found = doctest.testmod(api)
    assert (found.attempted, found.failed) == (4, 0)
    assert (place / "run" / "model").is_dir()
    assert (place / "reading" / "model").is_dir()
