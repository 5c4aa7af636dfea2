"""Every experiment from end to end at a scale below tiny, on a tiny real checkpoint."""

import json

import pytest

from mundap import experiments

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", list(experiments.EXPERIMENTS))
def test_the_experiment_runs(name, inputs):
    from dataclasses import replace

    if name == "ance":
        pytest.importorskip("sklearn")
    small = replace(inputs, scale=replace(inputs.scale, seeds=1))
    found = experiments.run(name, small)
    assert found["arms"]
    for row in found["arms"].values():
        for figure, value in row.items():
            assert value["mean"] >= 0, figure
            if figure.endswith(("top20", "top5", "top100", "top1", "exact_match", "f1")):
                assert value["mean"] <= 100
    for claim in found["claims"]:
        assert claim["verdict"] in ("holds", "contradicted", "not settled")
        assert {claim["better_arm"], claim["worse_arm"]} <= set(found["arms"])
    assert json.loads((inputs.out / "results.json").read_text())["claims"] == found["claims"]
    page = (inputs.out / "report.html").read_text()
    assert found["title"] in page
    assert "http" not in page
    assert found["title"] in (inputs.out / "results.md").read_text()
    for one in found["quoted"]:
        assert one["source"] in page
    left = sum(path.stat().st_size for path in inputs.out.rglob("*") if path.is_file())
    assert not list(inputs.out.glob("runs/*/model")) and not list(inputs.out.glob("runs/*/checkpoints"))
    assert left < 4_000_000
