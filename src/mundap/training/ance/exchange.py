"""The folder through which trainer and inferencers exchange files. A file with its final name is complete.

    weights/step-00000100.safetensors   the model after so many batches, by the trainer
    rounds/step-00000100/               vectors made with it so far, by the inferencers
    negatives/step-00000100/            what was found with them: published by one rename
    tokens/                             token ids of the corpus, which stay the same from round to round
    finished                            the trainer needs no more

Nobody waits for anybody. A claim is a file lock, which the system releases when its process dies.
"""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from mundap.disk import checksums, disk_errors, sync_file, sync_folder, write_atomic
from mundap.training import checkpoints

_NAME = re.compile(r"step-(\d{8})(?:\.safetensors)?")
_KEPT = 2
_STATE = "state.json"


class ExchangeFolder:
    """The folder of one ANCE run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tokens = folder / "tokens"
        self._weights = folder / "weights"
        self._rounds = folder / "rounds"
        self._negatives = folder / "negatives"
        with disk_errors(folder):
            for part in (self.tokens, self._weights, self._rounds, self._negatives):
                part.mkdir(parents=True, exist_ok=True)

    def begin(self, step: int) -> None:
        """The trainer (re)starts at a step: remove everything of later steps, left by a run that was lost."""
        (self.folder / "finished").unlink(missing_ok=True)
        for later in _steps(self._weights):
            if later > step:
                self._weights_at(later).unlink(missing_ok=True)
        for later in self.published():
            if later > step:
                self.drop(later)
        for later in _steps(self._rounds):
            if later > step:
                shutil.rmtree(self.round(later), ignore_errors=True)
        for half in (*self._negatives.glob(".*"), *self.tokens.glob(".*.tmp")):
            shutil.rmtree(half, ignore_errors=True)
            if half.is_file():
                half.unlink(missing_ok=True)

    def finish(self) -> None:
        """Tell the inferencers that no more negatives are needed, and remove their vectors."""
        write_atomic(self.folder / "finished", b"")
        for step in _steps(self._rounds):
            shutil.rmtree(self.round(step), ignore_errors=True)

    @property
    def finished(self) -> bool:
        """Whether the trainer is done."""
        return (self.folder / "finished").exists()

    def put_weights(self, step: int, model: Any) -> None:
        """Publish the model's current weights."""
        if not self._weights_at(step).exists():
            checkpoints.save_weights(self._weights_at(step), model)

    def load_weights(self, step: int, model: Any) -> None:
        """Load the weights of a step into a model."""
        checkpoints.load_weights(self._weights_at(step), model)

    def has_weights(self, step: int) -> bool:
        """Whether the weights of a step are here."""
        return self._weights_at(step).exists()

    def next_round(self) -> int | None:
        """The round to work on: one that is under way, or a new one with the newest weights if they are unused."""
        with self.claim(self._rounds / "choice.lock", wait=True):
            done = self.published()
            under_way = [step for step in _steps(self._rounds) if step not in done and self.has_weights(step)]
            if under_way:
                return under_way[-1]
            newest = _steps(self._weights)[-1:]
            if not newest or newest[0] in done:
                return None
            with disk_errors(self._rounds):
                self.round(newest[0]).mkdir(exist_ok=True)
            return newest[0]

    def round(self, step: int) -> Path:
        """The folder of a round's vectors."""
        return self._rounds / f"step-{step:08d}"

    @contextlib.contextmanager
    def claim(self, path: Path, wait: bool = False) -> Iterator[bool]:
        """Whether this process has the lock. It is released at the end of the block, or when the process dies."""
        if not path.parent.is_dir():  # the round is over and its folder gone
            yield False
            return
        lock = FileLock(path)
        try:
            lock.acquire(blocking=wait)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def published(self) -> list[int]:
        """The steps whose negatives are here, ascending."""
        return _steps(self._negatives)

    def publish(self, step: int, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> None:
        """Make a round's negatives visible, all at once, and remove its vectors."""
        made = self._negatives / f".step-{step:08d}.tmp"
        final = self._negatives / f"step-{step:08d}"
        with disk_errors(self._negatives):
            shutil.rmtree(made, ignore_errors=True)  # of a process that died in the middle
            made.mkdir()
            for name, array in arrays.items():
                np.save(made / f"{name}.npy", array)
                sync_file(made / f"{name}.npy")
            sums = checksums(sorted(made.iterdir()))
            write_atomic(made / _STATE, json.dumps({"step": step, "sha256": sums, **facts}).encode())
            made.rename(final)
            sync_folder(self._negatives)
        shutil.rmtree(self.round(step), ignore_errors=True)

    def open_negatives(self, step: int) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """What was published for a step, memory-mapped; None if it is missing or damaged."""
        folder = self._negatives / f"step-{step:08d}"
        try:
            facts = json.loads((folder / _STATE).read_text("utf-8"))
            if checksums(folder / name for name in facts["sha256"]) != facts["sha256"]:
                return None
            return {Path(name).stem: np.load(folder / name, mmap_mode="r") for name in facts["sha256"]}, facts
        except (OSError, ValueError, KeyError):
            return None

    def sweep(self, now: int, needed: int, weights_too: bool) -> None:
        """Remove old generations.

        Args:
            now: The trainer's step; a later generation is of a run that was lost.
            needed: The step from which on a checkpoint may need them again; the newest stay in any case.
            weights_too: Whether it may need the weights again as well.
        """
        for step in self.published():
            if step > now:
                self.drop(step)
        published = self.published()
        # The generation that was the newest at `needed` is one of those it would go on with.
        first = max((step for step in published if step <= needed), default=needed)
        for step in published[:-_KEPT]:
            if step < first:
                self.drop(step)
        if published:
            self._drop_rounds(before=published[-1])
        if weights_too:
            self._drop_weights(before=first)
        else:
            self._drop_weights(before=now)

    def _drop_rounds(self, before: int) -> None:
        for step in _steps(self._rounds):
            if step < before:
                shutil.rmtree(self.round(step), ignore_errors=True)

    def _drop_weights(self, before: int) -> None:
        """Remove weights of earlier steps, but the newest and those of a round that is under way."""
        under_way = set(_steps(self._rounds))
        for step in _steps(self._weights)[:-_KEPT]:
            if step < before and step not in under_way:
                self._weights_at(step).unlink(missing_ok=True)

    def drop(self, step: int) -> None:
        """Remove a generation, by one rename first: half of one must not look complete."""
        gone = self._negatives / f".gone-{step:08d}"
        shutil.rmtree(gone, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            (self._negatives / f"step-{step:08d}").rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def _weights_at(self, step: int) -> Path:
        return self._weights / f"step-{step:08d}.safetensors"


def _steps(folder: Path) -> list[int]:
    found = (_NAME.fullmatch(entry.name) for entry in os.scandir(folder))
    return sorted(int(name[1]) for name in found if name)
