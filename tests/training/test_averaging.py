"""The mean of the last steps' weights: what it is, that it survives a stop, and that it must earn its place."""

import json

import pytest

from tests.training.parts import write_files
from tests.training.test_reader import example, recipe

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("train"), example, (("a", 1, 40), ("dev", 3, 12)))


def trained(files, out, watch=lambda progress: None, **changes):
    from mundap.training.reader import train

    steady = {"dev": (), "warmup_ratio": 0.0, "lr_scheduler_type": "constant", "checkpoint_minutes": 1e-9}
    return train(recipe(files, out, **{**steady, **changes}), watch)


def weights_of(out):
    from mundap.reader.checkpoints import open_reader

    return dict(open_reader(out / "model").model.named_parameters())


def test_it_is_the_mean_of_the_last_steps(files, tmp_path):
    for steps in (3, 4):
        trained(files, tmp_path / str(steps), max_steps=steps)
    done = trained(files, tmp_path / "mean", max_steps=4, average_last=0.5)
    assert done.averaged == 2
    third, fourth = weights_of(tmp_path / "3"), weights_of(tmp_path / "4")
    for name, value in weights_of(tmp_path / "mean").items():
        torch.testing.assert_close(value, (third[name] + fourth[name]) / 2, rtol=1e-4, atol=1e-6)
    assert not torch.equal(third["spans.weight"], fourth["spans.weight"])


def test_a_run_that_is_stopped_has_the_same_mean(files, tmp_path):
    def stop(progress):
        if progress.step == 5:
            raise KeyboardInterrupt

    trained(files, tmp_path / "whole", max_steps=6, average_last=0.7)
    with pytest.raises(KeyboardInterrupt):
        trained(files, tmp_path / "stopped", stop, max_steps=6, average_last=0.7)
    done = trained(files, tmp_path / "stopped", max_steps=6, average_last=0.7)
    assert (done.resumed, done.averaged) == (4, 5)  # .3 of six steps are left out: the first
    whole, stopped = weights_of(tmp_path / "whole"), weights_of(tmp_path / "stopped")
    for name, value in whole.items():
        torch.testing.assert_close(stopped[name], value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("score, taken", [(1.0, True), (-1.0, False)])
def test_it_is_taken_only_if_the_dev_sets_agree(files, tmp_path, monkeypatch, score, taken):
    """The scores are told: of the start, of the last step, and of the mean."""
    from mundap.training.reader import ReaderLearner

    whole, out = tmp_path / "whole", tmp_path / "mean"
    trained(files, whole, max_steps=4)
    told = iter([0.0, 0.5, score])
    monkeypatch.setattr(ReaderLearner, "score", lambda self, figures: next(told))
    done = trained(files, out, max_steps=4, average_last=0.5, dev=recipe(files, out).dev, eval_steps=4)
    assert bool(done.averaged) == taken
    same = torch.equal(weights_of(out)["spans.weight"], weights_of(whole)["spans.weight"])
    assert same != taken
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert "average" in rows[-1]
    assert "average of the last steps" in (out / "report.html").read_text()
