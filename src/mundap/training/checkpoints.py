"""The state of a run on disk: weights, optimizer, position, random state. Complete or absent; never a pickle."""

import contextlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from safetensors.torch import save as serialize

from mundap.disk import checksums, disk_errors, sync_folder
from mundap.errors import MundapError

_KEPT = 2
_STATE = "state.json"
AVERAGE = "average.safetensors"
_RANDOM = "random.safetensors"


@dataclass(frozen=True, slots=True)
class RunState:
    """What a checkpoint holds besides facts.

    Attributes:
        model: The model in training.
        optimizer: Its optimizer.
        random: The random state of every process, a row each.
        average: The model with the averaged weights, where there is one.
    """

    model: Any
    optimizer: Any
    random: Any
    average: Any = None


def save(folder: Path, step: int, state: RunState, facts: dict[str, Any]) -> None:
    """Write a checkpoint to the side and rename it into place; then remove all but the newest two.

    Args:
        folder: The folder of all checkpoints of a run.
        step: Steps done.
        state: What to keep.
        facts: Anything else that can be JSON.
    """
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        made = folder / f".step-{step:08d}.tmp"
        made.mkdir()
        try:
            _save(made / "model.safetensors", _weights(state.model))
            _save(made / "optimizer.safetensors", _moments(state.model, state.optimizer))
            _save(made / _RANDOM, {"random": state.random})
            if state.average is not None:
                _save(made / AVERAGE, _weights(state.average))
            sums = checksums(sorted(made.iterdir()))
            with (made / _STATE).open("w", encoding="utf-8") as file:
                json.dump({"step": step, "sha256": sums, **facts}, file)
                file.flush()
                os.fsync(file.fileno())
            sync_folder(made)
            final = folder / f"step-{step:08d}"
            _remove(final)
            made.rename(final)
            sync_folder(folder)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
    sweep(folder)


def sweep(folder: Path) -> None:
    """Remove partial checkpoints that a killed process left, and all but the newest two."""
    for left in folder.glob(".*"):
        shutil.rmtree(left, ignore_errors=True)
    for old in sorted(folder.glob("step-*"))[:-_KEPT]:
        _remove(old)


def _remove(checkpoint: Path) -> None:
    """Remove a checkpoint, by one rename first: half of one must not look like one."""
    gone = checkpoint.with_name(f".{checkpoint.name}.gone")
    with contextlib.suppress(FileNotFoundError):
        checkpoint.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def steps(folder: Path) -> list[int]:
    """The steps whose checkpoints are there, ascending."""
    return sorted(int(path.name.removeprefix("step-")) for path in folder.glob("step-*"))


def newest(folder: Path) -> Path | None:
    """The newest checkpoint that is complete."""
    for path in sorted(folder.glob("step-*"), reverse=True):
        try:
            facts = json.loads((path / _STATE).read_text("utf-8"))
            if checksums(path / name for name in facts["sha256"]) == facts["sha256"]:
                return path
        except (OSError, ValueError, KeyError):
            continue
    return None


def load(path: Path, model: Any, optimizer: Any) -> tuple[dict[str, Any], Any]:
    """Load a checkpoint into model and optimizer; gives its facts and the random states.

    Raises:
        MundapError: It belongs to another model.
    """
    load_weights(path / "model.safetensors", model)
    moments = load_file(path / "optimizer.safetensors")
    names = dict(_named(model))
    state: dict[int, dict[str, Any]] = {}
    groups = optimizer.state_dict()["param_groups"]
    numbers = {id(parameter): number for number, parameter in enumerate(_in_order(optimizer))}
    for key, value in moments.items():
        name, _, part = key.rpartition("::")
        number = numbers.get(id(names.get(name)))
        if number is None:
            raise MundapError(f"{path} belongs to another model: it has {name}")
        state.setdefault(number, {})[part] = value
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    return json.loads((path / _STATE).read_text("utf-8")), load_file(path / _RANDOM)["random"]


def save_weights(path: Path, model: Any) -> None:
    """Write the weights alone, atomically."""
    temporary = path.with_name(path.name + ".tmp")
    with disk_errors(path):
        _save(temporary, _weights(model))
        temporary.replace(path)
        sync_folder(path.parent)


def load_weights(path: Path, model: Any) -> None:
    """Load the weights alone.

    Raises:
        MundapError: They belong to another model.
    """
    weights = load_file(path)
    names = dict(_named(model))
    if set(weights) != set(names):
        odd = sorted(set(weights) ^ set(names))[:3]
        raise MundapError(f"{path} belongs to another model: {', '.join(odd)}. Start a new run in another folder.")
    with torch.no_grad():
        for name, parameter in names.items():
            if parameter.shape != weights[name].shape:
                raise MundapError(f"{path} belongs to another model: {name} has another shape")
            parameter.copy_(weights[name])


def _named(model: Any) -> list[tuple[str, Any]]:
    """Parameters by name, each once: the towers may be one network."""
    return list(model.named_parameters())


def _weights(model: Any) -> dict[str, Any]:
    return {name: parameter.detach().cpu().contiguous() for name, parameter in _named(model)}


def _moments(model: Any, optimizer: Any) -> dict[str, Any]:
    found = {}
    for name, parameter in _named(model):
        for part, value in optimizer.state.get(parameter, {}).items():
            found[f"{name}::{part}"] = torch.as_tensor(value).detach().cpu().contiguous()
    return found


def _in_order(optimizer: Any) -> list[Any]:
    parameters = []
    for group in optimizer.param_groups:
        parameters += group["params"]
    return parameters


def _save(path: Path, tensors: dict[str, Any]) -> None:
    with path.open("wb") as file:  # not the library's own writing, whose errors are not the system's
        file.write(serialize(tensors))
        file.flush()
        os.fsync(file.fileno())
