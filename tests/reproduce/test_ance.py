"""The ANCE experiment from end to end, on a tiny real checkpoint; and its figures by their definition."""

import json

import numpy as np
import pytest

from mundap import reproduce
from mundap.errors import UsageError
from mundap.reproduce import AnceScale, Task
from tests.training.ance.conftest import pool  # noqa: F401
from tests.training.conftest import files, one_thread  # noqa: F401

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")
pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def task(files, pool, tmp_path_factory):  # noqa: F811
    folder = tmp_path_factory.mktemp("reproduce")
    examples = [json.loads(line) for line in (files / "b.jsonl").read_text().splitlines()]
    rows = [{"question": one["question"] + " then", "answers": one["answers"]} for one in examples]
    (folder / "test.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    scale = AnceScale(30, 10, 120, 3, 2, 1, 8, 32, seeds=2, refresh=2)
    return Task(pool, files / "a.jsonl", folder / "test.jsonl", files / "start", folder / "out", scale, in_batch=True)


def test_the_experiment_runs_and_goes_on(task):
    from mundap.reproduce.ance import arms

    told = []
    found = reproduce.run("ance", task, told.append)
    assert set(found["arms"]) == {"BM25 (no training)", "start", *arms(task)}
    for figures in found["arms"].values():
        values = [figures["retrieval"][name]["mean"] for name in ("top1", "top5", "top20", "top100")]
        assert values == sorted(values)
        assert 0 <= values[0] <= 100
    ages = [json.loads(line)["stale"] for line in (task.out / "runs/warm-up-ance-0/log.jsonl").read_text().splitlines()]
    assert ages == [0, 1, 0]  # a refresh every two batches
    seen = json.loads((task.out / "results.json").read_text())["evidence"]
    for kinds in seen["negatives"].values():
        assert 60 < kinds["ANN"]["overlap"] <= 100  # the top 100 are most of so small a corpus
        assert all(kinds[kind]["gradient_top"] > 0 for kind in kinds)
    page = (task.out / "report.html").read_text()
    assert page.count("<svg") == 6
    assert "http" not in page
    assert "With the batch's negatives as well, ANCE is" in found["verdict"]
    assert set(found["against"]["warm-up -> ANCE + in-batch"]) == set(found["arms"]) - {"warm-up -> ANCE + in-batch"}
    before = {path: path.stat().st_mtime_ns for path in (task.out / "ranks").iterdir()}
    again = reproduce.run("ance", task)
    assert again == found
    assert {path: path.stat().st_mtime_ns for path in (task.out / "ranks").iterdir()} == before


def test_the_start_is_shallow_and_its_top_is_new(task):
    from mundap.models.checkpoint import open_checkpoint

    before, after = open_checkpoint(task.start).network, open_checkpoint(task.out / "data" / "start").network
    assert len(after.encoder.layer) == 2
    pairs = zip(before.encoder.layer[0].parameters(), after.encoder.layer[0].parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    name = "attention.self.query.weight"
    assert not torch.equal(before.encoder.layer[1].get_parameter(name), after.encoder.layer[1].get_parameter(name))


def test_held_back_questions_are_not_trained_on_and_random_negatives_have_no_answer(task):
    rows = [json.loads(line) for line in (task.out / "data" / "examples.jsonl").read_text().splitlines()]
    test = [json.loads(line)["question"] for line in (task.out / "data" / "test.jsonl").read_text().splitlines()]
    assert not {row["question"] for row in rows} & set(test)
    for row in rows:
        assert row["negative_ctxs"]
        assert not any(answer in one["text"].split() for one in row["negative_ctxs"] for answer in row["answers"])


def test_figures_by_their_definition():
    from mundap.reproduce.figures import interval
    from mundap.reproduce.ranking import measured

    found = measured(np.array([1, 0, 3, 11, 100]))
    assert found == pytest.approx({"top1": 20, "top5": 40, "top20": 60, "top100": 80, "mrr10": (1 + 1 / 3) / 5})
    one = interval([1.0, 2.0, 3.0])
    assert one["mean"] == 2
    assert one["half_width"] == pytest.approx(2.4841, abs=1e-3)  # 4.3027 / sqrt(3)


def test_holm_against_the_definition():
    from mundap.reproduce.figures import holm

    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])  # R's p.adjust says the same


def test_another_scale_in_the_same_folder_is_refused(task):
    from dataclasses import replace

    with pytest.raises(UsageError, match="Choose another -o"):
        reproduce.run("ance", replace(task, scale=replace(task.scale, steps=9)))
    with pytest.raises(UsageError, match="no experiment"):
        reproduce.run("bert", task)
    with pytest.raises(UsageError, match="leave out --reader"):
        reproduce.run("ance", replace(task, reader=task.start))
