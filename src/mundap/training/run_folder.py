"""The folder of a run: recipe, environment, and the check that a run in it may be resumed."""

import json
import platform
import subprocess
from pathlib import Path

import torch

from mundap.disk import write_atomic
from mundap.errors import MundapError
from mundap.training import checkpoints, recipe_files
from mundap.training.examples import size_of
from mundap.training.processes import Processes
from mundap.training.recipe import TrainingRecipe
from mundap.version import __version__

_MAY_CHANGE = ("checkpoint_minutes", "output_dir")


def claim(folder: Path, recipe: TrainingRecipe, processes: Processes) -> None:
    """Write the recipe and the environment of a run into its folder.

    Raises:
        MundapError: The folder holds a run with another recipe, or with other data.
    """
    path, environment = folder / "recipe.toml", folder / "environment.json"
    sizes = [size_of(one.path) for one in recipe.train]
    if path.exists() and checkpoints.newest(folder / "checkpoints"):
        changed = recipe_files.difference(path.read_text("utf-8"), recipe, free=_MAY_CHANGE)
        if changed:
            raise MundapError(
                f"{folder} holds a run with another recipe ({changed} is new). "
                "Continue with the old recipe, or train into another folder."
            )
        _refuse_other_data(folder, recipe, sizes, environment)
    write_atomic(path, recipe_files.dump(recipe).encode())
    facts = {
        "mundap": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "processes": processes.world,
        "device": str(processes.device),
        "git": _revision(),
        "train_bytes": sizes,
    }
    write_atomic(environment, json.dumps(facts, indent=2).encode())


def _refuse_other_data(folder: Path, recipe: TrainingRecipe, sizes: list[int], environment: Path) -> None:
    """The training files must be as large as they were when the run began."""
    if not environment.exists():
        return
    known = json.loads(environment.read_text("utf-8")).get("train_bytes", sizes)
    for one, before, now in zip(recipe.train, known, sizes, strict=True):
        if before != now:
            raise MundapError(
                f"{one.path} has changed since the run in {folder} began ({before:,} bytes, now {now:,}). "
                "Put the old file back, or train into another folder."
            )


def _revision() -> str:
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False)  # noqa: S607
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
