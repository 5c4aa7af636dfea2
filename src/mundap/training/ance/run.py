"""Both processes on one machine: the trainer here, the inferencer beside it, started again if it dies."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from mundap.disk import disk_errors, write_atomic
from mundap.errors import UsageError
from mundap.machine import cores
from mundap.training import recipe_files, towers
from mundap.training.ance import trainer
from mundap.training.ance.exchange import ExchangeFolder
from mundap.training.ance.inferencer import Inferencer, Listener
from mundap.training.examples import ExampleFile
from mundap.training.learner import StepCallback, Tell, TrainingResult
from mundap.training.loop import is_first, refuse_incomplete
from mundap.training.recipe import AnceRecipe, DataSet

_LOG = logging.getLogger(__name__)
_RESTARTS = 3  # in a row, without a generation in between
_GRACE = 10.0  # seconds for the inferencer to leave
_FOLLOWS = "MUNDAP_FOLLOWS_STDIN"


def train(
    recipe: AnceRecipe,
    callback: StepCallback = lambda progress: None,
    alone: bool = False,
    device: str = "",
    tell: Tell = lambda line: None,
    ray: str = "",
) -> TrainingResult:
    """Train with ANCE; unless `alone` or synchronous, start an inferencer beside the trainer.

    Args:
        recipe: The settings.
        callback: Called after every step.
        alone: Do not start an inferencer: they run elsewhere.
        device: The inferencer's device.
        tell: Called with what the recipe left to the checkpoint.
        ray: The address of a Ray cluster that encodes the corpus for the inferencer, or `local`.
    """
    if ray and (alone or recipe.synchronous):
        raise UsageError("a cluster runs the inferencer, which this run does not start: leave out the cluster")
    refuse_incomplete(recipe)
    recipe = towers.with_similarity(recipe, tell)
    if alone or recipe.synchronous or not is_first():
        return trainer.train(recipe, callback)
    half = max(1, cores() // 2)
    if not torch.cuda.is_available():
        torch.set_num_threads(half)  # two processes that use all cores each are slower than one
    with _inferencer_beside(recipe, half, device, ray):
        return trainer.train(recipe, callback)


def infer(recipe: AnceRecipe, device: str = "", tell: Listener = lambda progress: None, ray: str = "") -> None:
    """Produce negatives until the trainer has finished, alone or with a Ray cluster that encodes the corpus."""
    if not recipe.output_dir or not recipe.train:
        raise UsageError("the recipe has no output_dir or no train: the inferencer takes the trainer's own recipe")
    recipe = towers.with_similarity(recipe)
    out = Path(recipe.output_dir)
    exchange = ExchangeFolder(out / trainer.EXCHANGE)
    scratch = out / "data"
    with disk_errors(out):
        scratch.mkdir(parents=True, exist_ok=True)
    sets = [ExampleFile(one, scratch) for one in recipe.train]
    where = torch.device(device or _default_device())
    stop = threading.Event()
    if os.environ.get(_FOLLOWS):
        threading.Thread(target=_leave_with_parent, daemon=True).start()
    if not ray:
        Inferencer(recipe, sets, exchange, where, tell=tell).run(stop)
        return
    from mundap.training.ance import cluster

    with cluster.over(ray, _absolute(recipe), device) as elsewhere:
        Inferencer(recipe, sets, exchange, where, tell=tell, elsewhere=elsewhere).run(stop)


def _default_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "cpu"


def _leave_with_parent() -> None:
    """Exit when the pipe from the trainer closes, however the trainer ended."""
    sys.stdin.buffer.read()
    os._exit(0)


@contextmanager
def _inferencer_beside(recipe: AnceRecipe, threads: int, device: str, ray: str) -> Iterator[None]:
    folder = Path(recipe.output_dir) / trainer.EXCHANGE
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "finished").unlink(missing_ok=True)
        write_atomic(folder / "recipe.toml", recipe_files.dump(_absolute(recipe)).encode())
    over = threading.Event()
    child: list[subprocess.Popen[bytes]] = []

    def keep_alive() -> None:
        exchange, failures, seen = ExchangeFolder(folder), 0, -1
        while not over.is_set() and not exchange.finished:
            child[:] = [_start(folder / "recipe.toml", threads, device, ray)]
            child[0].wait()
            newest = max(exchange.published(), default=-1)
            if newest != seen:
                failures = 0
            failures += 1
            seen = newest
            if failures > _RESTARTS:
                _LOG.warning("the inferencer died %d times: the negatives stay as they are", failures)
                return

    keeper = threading.Thread(target=keep_alive, daemon=True, name="inferencer")
    keeper.start()
    try:
        yield
    finally:
        over.set()
        for process in child:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()


def _start(recipe: Path, threads: int, device: str, ray: str) -> "subprocess.Popen[bytes]":
    environment = {
        name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    }
    environment |= {"OMP_NUM_THREADS": str(threads), _FOLLOWS: "1"}
    command = [sys.executable, "-m", "mundap", "train", "ance", str(recipe), "--only", "inferencer"]
    if device:
        command += ["--device", device]
    if ray:
        command.append(f"--ray={ray}")
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment)  # noqa: S603


def _absolute(recipe: AnceRecipe) -> AnceRecipe:
    """The recipe with absolute paths."""

    def whole(path: str) -> str:
        if not path:
            return ""
        return str(Path(path).resolve())

    def files(sets: tuple[DataSet, ...]) -> tuple[DataSet, ...]:
        return tuple(replace(one, path=whole(one.path)) for one in sets)

    return replace(
        recipe,
        base_model=whole(recipe.base_model),
        passage_base_model=whole(recipe.passage_base_model),
        output_dir=whole(recipe.output_dir),
        index=whole(recipe.index),
        train=files(recipe.train),
        dev=files(recipe.dev),
    )
