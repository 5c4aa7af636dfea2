"""What all experiments share: data, arms, claims, resuming, tidying, the command."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mundap import experiments
from mundap.errors import MundapError, UsageError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def plan_of(measure, better=0.9, worse=0.1):
    from mundap.experiments.frame import Arm, Claim, Column, Plan, Quoted

    rng = np.random.default_rng(0)
    rows = {"good": rng.random(200) < better, "bad": rng.random(200) < worse}
    arms = [Arm(name, measure(name, row.astype(float)), {"top20": 50.0}) for name, row in rows.items()]
    return Plan(
        title="A title", source="a paper", columns=(Column("top20", "top-20"),), arms=arms,
        claims=(Claim("good beats bad", "good", "bad", "top20"),),
        quoted=(Quoted("another system", {"top20": 12.3}, "somebody 2020"),), caution="Small.",
    )  # fmt: skip


@pytest.mark.parametrize(
    "better, worse, verdict", [(0.9, 0.1, "holds"), (0.1, 0.9, "contradicted"), (0.5, 0.5, "not settled")]
)
def test_claims_are_judged_by_paired_tests(inputs, better, worse, verdict):
    from mundap.experiments import frame
    from mundap.experiments.lab import Lab

    called = []

    def measure(name, row):
        return lambda lab, seed: called.append((name, seed)) or {"top20": row}

    plan = plan_of(measure, better, worse)
    found = frame.run("x", plan, Lab(inputs))
    assert found["claims"][0]["verdict"] == verdict
    assert found["arms"]["good"]["top20"]["paper"] == 50.0
    assert called == [("good", 0), ("bad", 0), ("good", 1), ("bad", 1)]
    page, text = (inputs.out / "report.html").read_text(), (inputs.out / "results.md").read_text()
    assert "[50.0]" in page and "[50.0]" in text
    assert "<i>another system</i>" in page and "*another system* (quoted, somebody 2020)" in text
    # What is done is not done again; one that is missing is.
    again = frame.run("x", plan, Lab(inputs))
    assert len(called) == 4
    assert again == found
    (inputs.out / "outcomes" / "bad-1.json").unlink()
    frame.run("x", plan, Lab(inputs))
    assert called[4:] == [("bad", 1)]


def test_intervals_and_holm_by_their_definitions():
    from mundap.experiments.frame import _holm, _interval

    one = _interval([1.0, 2.0, 3.0])
    assert one["mean"] == 2
    assert one["half_width"] == pytest.approx(2.4841, abs=1e-3)  # 4.3027 / sqrt(3)
    assert _holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])  # R's p.adjust says the same


def test_figures_of_ranks_by_their_definition():
    from mundap.experiments.ranking import figures_of

    found = {name: row.mean() for name, row in figures_of(np.array([1, 0, 3, 11, 100])).items()}
    expected = {
        "top1": 0.2,
        "top5": 0.4,
        "top20": 0.6,
        "top100": 0.8,
        "mrr10": (1 + 1 / 3) / 5,
        "ndcg10": (1 + 1 / 2) / 5,
    }
    assert found == pytest.approx(expected)


def test_the_data_is_cut_and_keeps_test_questions_apart(inputs):
    from mundap.encoder.checkpoints import open_checkpoint
    from mundap.experiments.lab import Lab

    data = Lab(inputs).data
    assert set(data.test) == {"one", "two"}
    for name in data.test:
        rows = [json.loads(line) for line in data.train[name].read_text().splitlines()]
        assert 8 <= len(rows) == data.questions[name] <= 24
        assert not {row["question"] for row in rows} & {one.text for one in data.test[name].questions}
        for row in rows:
            assert row["hard_negative_ctxs"] and row["negative_ctxs"]
            wrong = [*row["hard_negative_ctxs"], *row["negative_ctxs"]]
            assert not any(answer in one["text"].split() for one in wrong for answer in row["answers"])
    assert data.first == "one"
    # The base model: the lower layer as it was, the upper initialised anew.
    before, after = open_checkpoint(inputs.base_model).network, open_checkpoint(data.base_model).network
    pairs = zip(before.encoder.layer[0].parameters(), after.encoder.layer[0].parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    name = "attention.self.query.weight"
    assert not torch.equal(before.encoder.layer[1].get_parameter(name), after.encoder.layer[1].get_parameter(name))
    assert Lab(replace(inputs, scale=replace(inputs.scale, time="other words"))).data == data
    with pytest.raises(UsageError, match="Choose another folder"):
        Lab(replace(inputs, scale=replace(inputs.scale, steps=9))).data  # noqa: B018


def test_data_that_is_missing_is_named(tmp_path, inputs):
    from mundap.experiments.data import DataFiles, find_data

    with pytest.raises(UsageError, match="no corpus"):
        find_data(tmp_path)
    (tmp_path / "corpus.jsonl").write_text("{}\n")
    (tmp_path / "a-train.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match=r"NAME-train\.json and NAME-test\.json"):
        find_data(tmp_path)
    one = DataFiles(inputs.files.corpus, {"one": inputs.files.sets["one"]})
    with pytest.raises(UsageError, match="two data sets or more"):
        experiments.run("cross-dataset", replace(inputs, files=one))
    rows = inputs.files.sets["one"][0].read_text().splitlines(keepends=True)
    (tmp_path / "few.jsonl").write_text("".join(rows[:3]))
    few = DataFiles(inputs.files.corpus, {"one": (tmp_path / "few.jsonl", inputs.files.sets["one"][1])})
    with pytest.raises(MundapError, match="too few"):
        experiments.run("negatives", replace(inputs, files=few, out=tmp_path / "few"))


def test_the_command(inputs, data, monkeypatch):
    from click.testing import CliRunner

    from mundap.cli import main
    from mundap.experiments import scales

    listed = CliRunner().invoke(main, ["reproduce", "list"]).output
    assert all(f"{name} " in listed for name in experiments.EXPERIMENTS)
    assert "--scale full: days" in listed
    assert "cross-batch          ~ 3 min  ~0.7 GB  RocketQA's" in listed
    with pytest.raises(UsageError, match="no experiment 'bert'"):
        CliRunner().invoke(main, ["reproduce", "bert"], catch_exceptions=False)
    with pytest.raises(UsageError, match="--base-model"):
        CliRunner().invoke(main, ["reproduce", "negatives"], catch_exceptions=False)
    with pytest.raises(UsageError, match="no scale 'huge'"):
        given = ["--base-model", str(data / "base"), "-o", str(inputs.out), "--scale", "huge"]
        CliRunner().invoke(main, ["reproduce", "negatives", *given], catch_exceptions=False)
    monkeypatch.setitem(scales.SCALES, "tiny", replace(inputs.scale, seeds=1))
    given = ["--data", str(data), "--base-model", str(data / "base"), "-o", str(inputs.out), "--scale", "tiny"]
    done = CliRunner().invoke(main, ["reproduce", "cross-batch", *given], catch_exceptions=False)
    assert "Cross-batch negatives beat in-batch ones: " in done.output
    assert str(inputs.out / "cross-batch" / "report.html") in done.output
    # Another experiment with the same arm takes its ranks from there: the model is gone and not trained again.
    logs = {path.parent.name: path.stat().st_mtime_ns for path in inputs.out.glob("runs/*/log.jsonl")}
    found = CliRunner().invoke(main, ["reproduce", "negatives", *given, "--json"], catch_exceptions=False)
    assert json.loads(found.stdout)["experiment"] == "negatives"
    shared = json.loads((inputs.out / "negatives" / "runs.json").read_text())["gold-in-batch-7-0"]
    assert (inputs.out / "runs" / shared / "log.jsonl").stat().st_mtime_ns == logs[shared]
    assert not list(inputs.out.glob("runs/*/model"))


def test_full_scale_cuts_nothing_and_says_what_it_takes(inputs):
    from mundap.experiments import frame
    from mundap.experiments.lab import Lab

    told = []
    whole = replace(inputs.scale, questions=0, test=0, passages=0, layers=0, new_layers=0)
    lab = Lab(replace(inputs, scale=whole), told.append)
    frame.run("x", plan_of(lambda name, row: lambda lab, seed: {"top20": row}), lab)
    assert lab.data.passages == 110  # the whole corpus
    assert sum(lab.data.questions.values()) > 2 * 8
    assert any("110 passages, " in line and " hours on this machine" in line for line in told)
