"""The log of a run: a line per step and per validation in log.jsonl, and in TensorBoard where it is installed."""

import json
from pathlib import Path
from typing import Any

from mundap.disk import disk_errors, write_atomic

NAME = "log.jsonl"


class Log:
    """Written by one process of a run.

    Args:
        out: The folder of the run.
    """

    def __init__(self, out: Path) -> None:
        self._path = out / NAME
        self._board = _tensorboard(out)

    def write(self, facts: dict[str, Any]) -> None:
        """Add a line; it has a `step`."""
        with disk_errors(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(facts) + "\n")
        if self._board is not None:
            self._plot(facts, facts["step"])
            for label, figures in facts.get("dev", {}).items():
                self._plot({f"dev/{label}/{name}": value for name, value in figures.items()}, facts["step"])

    def _plot(self, facts: dict[str, Any], step: int) -> None:
        for name, value in facts.items():
            if isinstance(value, float):
                self._board.add_scalar(name, value, step)

    def forget(self, after: int = -1) -> None:
        """Drop the rows after a step; all rows by default."""
        if self._path.exists():
            lines = [line for line in self._path.read_bytes().splitlines(keepends=True) if _step_of(line) <= after]
            write_atomic(self._path, b"".join(lines))


def _tensorboard(out: Path) -> Any:
    """A writer for TensorBoard, if that is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(out / "tensorboard"))


def _step_of(line: bytes) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return 1 << 62  # half a line, written as the machine went down
