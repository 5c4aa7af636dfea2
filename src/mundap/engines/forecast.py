"""Estimate the cost of a build beforehand: `mundap index --dry-run`.

The files are read and cut, which is quick; some passages are encoded to see how fast this machine is. The rest is the
arithmetic of `plan.py`.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mundap.encoder.runtime import Encoder
from mundap.engines.plan import GB, Machines, Need, plan
from mundap.errors import UsageError
from mundap.index.build import Options, settings_for
from mundap.index.dense import kind_for
from mundap.index.files import find_files
from mundap.machine import cores, memory

_TRIED = 32  # passages that are encoded to see how long it takes
_EVERY = 1000  # passages, of which one is kept to be tried
_OF_VECTORS = ("encoding, CPU", "approximate index")


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a build will make and take.

    Attributes:
        passages: How many there will be.
        text_bytes: Of all passages together.
        model: The encoder; `none` if there is none.
        dense: The kind of vector index; `none` if there is none.
        needs: Hours, memory and disk, with the arithmetic.
        free: Bytes free where the index goes.
        memory: Bytes of memory that are free, under the limit of a container too; None where that is not told.
    """

    passages: int
    text_bytes: int
    model: str
    dense: str
    needs: tuple[Need, ...]
    free: int
    memory: int | None = None

    @property
    def fits(self) -> bool:
        """Whether there is room on the disk."""
        return self._bytes("disk") <= self.free

    @property
    def fits_memory(self) -> bool:
        """Whether there is memory enough to search the index, as far as that is known."""
        return self.memory is None or self._bytes("memory") <= self.memory

    def _bytes(self, name: str) -> float:
        return next(need.amount for need in self.needs if need.name == name) * GB

    def as_dict(self) -> dict[str, Any]:
        """The forecast as `--json` prints it."""
        return {
            "passages": self.passages,
            "text_bytes": self.text_bytes,
            "model": self.model,
            "dense": self.dense,
            "needs": [need.as_dict() for need in self.needs],
            "free_bytes": self.free,
            "fits": self.fits,
            "free_memory_bytes": self.memory,
            "fits_memory": self.fits_memory,
        }


def forecast(
    paths: Sequence[str | Path],
    out: Path,
    options: Options,
    fresh: bool = False,
    tell: Callable[[int], None] = lambda _: None,
) -> Forecast:
    """Read and split the files, and estimate what their index takes. Nothing is written.

    Raises:
        UsageError: Standard input was given, which could be read only once.
    """
    if any(str(path) == "-" for path in paths):
        raise UsageError("standard input can be read only once: give files")
    with find_files(paths, Path.cwd(), options, out) as files:
        settings = settings_for(out, options, fresh, files)
        read = _read(files.passages(settings), tell)
    if not read.passages:
        raise UsageError(f"nothing to index in {', '.join(map(str, paths))}: no passage could be read")
    text = read.text_bytes / read.passages
    free, there = _free(out.resolve()), memory()
    spare = None
    if there:
        spare = there.free
    if not settings.model:
        made = plan(read.passages, 1, Machines(cores=cores()), text)
        needs = tuple(need for need in (*made.making, *made.embedded) if need.name not in _OF_VECTORS)
        return Forecast(read.passages, read.text_bytes, "none", "none", needs, free, spare)
    machines = Machines(cores=cores(), rate=_rate(settings.model, read.tried))
    made = plan(read.passages, settings.dimension, machines, text)
    kind = kind_for(settings.dense, read.passages)
    needs = (*made.making, *made.embedded)
    return Forecast(read.passages, read.text_bytes, settings.model, kind, needs, free, spare)


@dataclass(slots=True)
class _Read:
    """What the files hold, and some passages to try the encoder with."""

    passages: int = 0
    text_bytes: int = 0
    tried: list[tuple[str, str]] = field(default_factory=list)


def _read(passages: Iterable[tuple[str, str]], tell: Callable[[int], None]) -> _Read:
    read = _Read()
    for title, text in passages:
        read.passages += 1
        read.text_bytes += len(title.encode()) + len(text.encode())
        now_and_then = read.passages % _EVERY == 0
        if len(read.tried) < _TRIED // 2 or (now_and_then and len(read.tried) < _TRIED):
            read.tried.append((title, text))
        if now_and_then:
            tell(read.passages)
    return read


def _free(out: Path) -> int:
    """Bytes free where the index goes, of which there may be no folder yet."""
    above = next(folder for folder in (out, *out.parents) if folder.exists())
    return shutil.disk_usage(above).free


def _rate(model: str, passages: Sequence[tuple[str, str]]) -> float:
    """Passages a second that one core encodes here; the first few only warm up."""
    encoder = Encoder.from_pretrained(model, threads=1)
    encoder.encode_passages(passages[:2])
    started = time.perf_counter()
    encoder.encode_passages(passages)
    return len(passages) / (time.perf_counter() - started)
