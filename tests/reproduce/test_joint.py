"""The experiment on joint training from end to end, on a tiny real checkpoint; and its figures by their definition."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mundap import reproduce
from mundap.errors import ModelError, MundapError, UsageError
from mundap.reproduce import AnceScale, JointScale, Task
from tests.training.ance.conftest import pool  # noqa: F401
from tests.training.conftest import files, one_thread  # noqa: F401

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def task(files, pool, tmp_path_factory):  # noqa: F811
    folder = tmp_path_factory.mktemp("reproduce")
    examples = [json.loads(line) for line in (files / "b.jsonl").read_text().splitlines()]
    rows = [{"question": one["question"] + " then", "answers": one["answers"]} for one in examples]
    (folder / "test.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    scale = JointScale(30, 10, 120, 3, 2, 1, 8, 32, 2, reader_steps=2, reader_batch=4, window=48, read=3)
    return Task(pool, files / "a.jsonl", folder / "test.jsonl", files / "start", folder / "out", scale)


@pytest.fixture(scope="module")
def found(task):
    return reproduce.run("joint", task)


def written(task):
    """Everything in OUT that takes work, and when it was written."""
    paths = [path for part in ("data", "runs", "outcomes") for path in (task.out / part).rglob("*") if path.is_file()]
    return {path: path.stat().st_mtime_ns for path in paths if path.name != "task.json"}


def test_every_arm_has_its_figures(task, found):
    from mundap.reproduce.joint import ARMS

    assert set(found["arms"]) == set(ARMS)
    for arm, figures in found["arms"].items():
        values = [figures["retrieval"][name]["mean"] for name in ("top1", "top5", "top20", "top100")]
        assert values == sorted(values)
        assert 0 <= values[0] <= 100
        exact, overlap = (figures["answers"][name]["mean"] for name in ("exact_match", "f1"))
        assert 0 <= exact <= overlap <= 100
        curve = found["exact_match_by_passages"][arm]
        assert list(curve) == ["1", "2", "3"]
        assert curve["3"] == exact
        assert all(len(value["runs"]) == 2 for kind in figures.values() for value in kind.values())
    assert set(found["against"]["DPR -> joint"]) == set(ARMS) - {"DPR -> joint"}
    assert "one after the other" in found["verdict"]
    assert json.loads((task.out / "results.json").read_text())["verdict"] == found["verdict"]
    page = (task.out / "report.html").read_text()
    assert page.count("<svg") == 2
    assert "http" not in page


def test_each_arm_learns_what_it_says(task, found):
    """The start's passage side stays in a joint run; without one the question side stays too."""
    from mundap.models.checkpoint import open_checkpoint

    def moved(run, role, start):
        before = open_checkpoint(start).network.state_dict()
        after = open_checkpoint(task.out / "runs" / run, role).network.state_dict()
        return max(float((after[key] - before[key]).abs().max()) for key in before) > 0

    start, trained = task.out / "data/start", task.out / "runs/dpr-0/model"
    assert moved("dpr-0/model", "question", start)
    for run, before in (("start-joint-0/retriever", start), ("dpr-joint-0/retriever", trained)):
        assert moved(run, "question", before)
        assert not moved(run, "passage", before)
    rows = {path.name: json.loads(path.read_text()) for path in (task.out / "outcomes").iterdir()}
    assert rows["start-reader-0.json"]["ranks"] == rows["start-reader-1.json"]["ranks"]
    assert not list(task.out.glob("runs/*/checkpoints"))


def test_readers_learn_from_what_their_retriever_finds(task, found):
    lists = {}
    for name in ("start", "dpr-0"):
        rows = [json.loads(line) for line in (task.out / f"data/found-{name}.jsonl").read_text().splitlines()]
        lists[name] = [[one["text"] for one in row["hard_negative_ctxs"]] for row in rows]
        for row in rows:
            assert not any(
                answer in one["text"].split() for one in row["hard_negative_ctxs"] for answer in row["answers"]
            )
    assert lists["start"] != lists["dpr-0"]


def test_what_is_done_is_not_done_again(task, found):
    before = written(task)
    told = []
    assert reproduce.run("joint", task, told.append) == found
    assert written(task) == before
    assert len(told) == 8
    gone = task.out / "outcomes" / "dpr-joint-1.json"
    kept = gone.read_bytes()
    gone.unlink()
    assert reproduce.run("joint", task) == found
    assert gone.read_bytes() == kept
    assert {path for path, time in written(task).items() if time != before[path]} == {gone}


def test_a_joint_run_killed_between_its_two_models_is_finished(task, found):
    """A run has its reader before its retriever."""
    import shutil

    shutil.rmtree(task.out / "runs/start-joint-0/retriever")
    (task.out / "outcomes/start-joint-0.json").unlink()
    assert reproduce.run("joint", task) == found


def test_wrong_input_is_refused_before_anything_is_done(task, tmp_path):
    fresh = replace(task, out=tmp_path / "out")
    with pytest.raises(ModelError, match=r"nothing has no config\.json"):
        reproduce.run("joint", replace(fresh, reader=tmp_path / "nothing"))
    with pytest.raises(UsageError, match="leave out --in-batch"):
        reproduce.run("joint", replace(fresh, in_batch=True))
    with pytest.raises(UsageError, match="give a JointScale"):
        reproduce.run("joint", replace(fresh, scale=AnceScale(30, 10, 120, 3, 2, 1, 8, 32, 2, 2)))
    assert not fresh.out.exists()
    (tmp_path / "few.jsonl").write_text(task.train.read_text().splitlines()[0] + "\n")
    with pytest.raises(MundapError, match="too few"):
        reproduce.run("joint", replace(fresh, train=tmp_path / "few.jsonl"))


def test_the_command_says_what_came_out(task, found, monkeypatch):
    from click.testing import CliRunner

    from mundap.cli import main

    here = replace(reproduce.EXPERIMENTS["joint"], scales={"tiny": task.scale})
    monkeypatch.setitem(reproduce.EXPERIMENTS, "joint", here)
    options = {"-i": task.index, "--train": task.train, "--test": task.test, "--start": task.start, "-o": task.out}
    given = ["--scale", "tiny", *(str(part) for pair in options.items() for part in pair)]
    done = CliRunner().invoke(main, ["reproduce", "joint", *given], catch_exceptions=False)
    for words in ("start -> joint: top1 ", ", exact match ", found["verdict"], found["report"]):
        assert words in done.output
    listed = CliRunner().invoke(main, ["reproduce"]).output.splitlines()
    assert [line.split(":")[0] for line in listed] == ["ance", "joint"]
    with pytest.raises(UsageError, match="no experiment 'bert'"):
        CliRunner().invoke(main, ["reproduce", "bert", *given], catch_exceptions=False)


def test_another_reader_in_the_same_folder_is_refused(task, found):
    with pytest.raises(UsageError, match="Choose another -o"):
        reproduce.run("joint", replace(task, reader=task.start))


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        (0.0, ("is no better than", "is not contradicted")),
        (-0.4, ("is worse than", "is met")),
        (0.4, ("is better than", "is not met")),
    ],
)
def test_the_verdict_says_what_the_figures_say(ours, words):
    from mundap.reproduce.joint import AFTER, ARMS, Outcome, _against, _figures, _verdict

    def outcome(share):
        right = np.arange(100) < 100 * share
        return Outcome(right.astype(int), np.stack([right, right], 1).reshape(100, 1, 2).astype(float))

    outcomes = {arm: [outcome(0.5 + ours if arm == AFTER else 0.5)] for arm in ARMS}
    arms = {arm: _figures(every) for arm, every in outcomes.items()}
    against = {arm: _against(outcomes, arm) for arm in outcomes}
    said = _verdict(arms, against)
    assert f"trained retriever {words[0]} one after the other: {50 + 100 * ours:.1f} exact match against 50.0" in said
    assert words[1] in said
    assert "from the start is no better" in said
    assert against[AFTER]["DPR -> reader"]["answers"]["exact_match"]["difference"] == pytest.approx(100 * ours)


def test_readers_that_know_nothing_are_told_of():
    from mundap.reproduce.joint import ARMS, Outcome, _against, _figures, _verdict

    outcomes = {arm: [Outcome(np.zeros(9, int), np.zeros((9, 1, 2)))] for arm in ARMS}
    arms = {arm: _figures(every) for arm, every in outcomes.items()}
    assert "--reader" in _verdict(arms, {arm: _against(outcomes, arm) for arm in outcomes})
