"""Data and a scale below tiny, on which every experiment runs in seconds."""

import json

import numpy as np
import pytest

from mundap.experiments.scales import Scale
from tests.training.conftest import one_thread  # noqa: F401
from tests.training.parts import WORDS, example

SCALE = Scale(
    questions=24, test=8, passages=90, steps=2, layers=2, new_layers=1, batch_sizes=(2, 4, 8), passage_length=32, seeds=2,
    refresh_batches=1, reader_steps=1, reader_batch_size=4, reader_length=48, num_passages=2, read=2,
)  # fmt: skip


def sentence(rng):
    return f"{' '.join(rng.choice(WORDS, 8)).capitalize()}."


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A data folder with two sets: a corpus of all their passages and some more, questions with gold passages."""
    pytest.importorskip("torch")
    from tests.encoder.test_export import make_checkpoint

    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(5)
    passages = []
    for name, count in (("one", 40), ("two", 30)):
        rows = []
        for number in range(count):
            made = example(number, rng)
            (positive,) = made.positives
            answer = f"answer{name}{number}"
            text = f"{positive.text} {answer} {sentence(rng)} {sentence(rng)}"
            passages.append({"_id": f"{name}{number}", "title": positive.title, "text": text})
            gold = [{"title": positive.title, "text": text}]
            rows.append({"question": made.question.text, "answers": [answer], "positive_ctxs": gold})
        for part, some in (("train", rows[:-10]), ("test", rows[-10:])):
            (folder / f"{name}-{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
    for number in range(40):
        passages.append({"_id": f"x{number}", "title": "t", "text": f"{sentence(rng)} {sentence(rng)} {sentence(rng)}"})
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in passages))
    make_checkpoint(folder / "base")
    return folder


@pytest.fixture
def inputs(data, tmp_path):
    from mundap.experiments.data import find_data
    from mundap.experiments.lab import Inputs

    return Inputs(find_data(data), data / "base", tmp_path / "out", SCALE)
