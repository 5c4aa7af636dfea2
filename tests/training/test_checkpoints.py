"""A checkpoint is there whole or not at all, and a run that died leaves nothing for good."""

import shutil

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def save(folder, step):
    from mundap.training import checkpoints

    model = torch.nn.Linear(2, 2)
    state = checkpoints.RunState(model, torch.optim.AdamW(model.parameters()), torch.get_rng_state().unsqueeze(0))
    checkpoints.save(folder, step, state, {})


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_old_one_is_gone_by_one_rename_and_what_a_dead_run_left_is_removed(tmp_path, monkeypatch):
    for step in (1, 2):
        save(tmp_path, step)
    (tmp_path / ".step-00000001.tmp").mkdir()  # of a run that died as it saved, and went on from another step
    with monkeypatch.context() as dying:
        dying.setattr(shutil, "rmtree", lambda path, ignore_errors=False: None)  # as if killed before
        save(tmp_path, 3)
    assert [name for name in names(tmp_path) if not name.startswith(".")] == ["step-00000002", "step-00000003"]
    save(tmp_path, 4)
    assert names(tmp_path) == ["step-00000003", "step-00000004"]


def test_a_run_that_has_only_to_end_keeps_two(tmp_path):
    """Killed behind the last checkpoint's rename, before the oldest went: nothing but the sweep removes it."""
    from mundap.training import checkpoints

    for step in (1, 2, 3):
        (tmp_path / f"step-{step:08d}").mkdir()
    (tmp_path / ".step-00000004.tmp").mkdir()
    checkpoints.sweep(tmp_path)
    assert names(tmp_path) == ["step-00000002", "step-00000003"]
