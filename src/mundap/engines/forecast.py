"""What a build will take, told before it: `mundap index --dry-run`.

The files are read and cut, which is quick; some passages are encoded to see how fast this machine is. The rest is the
arithmetic of `plan.py`.
"""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mundap.encoder.runtime import Encoder
from mundap.engines.plan import ENCODING, GB, Machines, Need, plan
from mundap.errors import UsageError
from mundap.index.build import Options, settings_for
from mundap.index.dense import kind_for
from mundap.index.outline import passages_of
from mundap.machine import cores

_TRIED = 32  # passages that are encoded to see how long it takes
_EVERY = 1000  # passages, of which one is kept to be tried


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
    """

    passages: int
    text_bytes: int
    model: str
    dense: str
    needs: tuple[Need, ...]
    free: int

    @property
    def fits(self) -> bool:
        """Whether there is room on the disk."""
        return next(need.amount for need in self.needs if need.name == "disk") * GB <= self.free

    def as_dict(self) -> dict[str, Any]:
        """The forecast as it stands in `--json` output."""
        return {
            "passages": self.passages,
            "text_bytes": self.text_bytes,
            "model": self.model,
            "dense": self.dense,
            "needs": [need.as_dict() for need in self.needs],
            "free_bytes": self.free,
            "fits": self.fits,
        }


def forecast(
    paths: Sequence[str | Path],
    out: Path,
    options: Options,
    fresh: bool = False,
    tell: Callable[[int], None] = lambda _: None,
) -> Forecast:
    """Read and cut the files, and reckon what an index of all of them takes. Nothing is written.

    Raises:
        UsageError: Standard input was given, which could be read only once.
    """
    if any(str(path) == "-" for path in paths):
        raise UsageError("standard input can be read only once: give files")
    settings = settings_for(out, options, fresh, paths)
    count = size = 0
    tried: list[tuple[str, str]] = []
    for title, text in passages_of(paths, options, settings, out):
        count += 1
        size += len(title.encode()) + len(text.encode())
        if len(tried) < _TRIED // 2 or (count % _EVERY == 0 and len(tried) < _TRIED):
            tried.append((title, text))
        if count % _EVERY == 0:
            tell(count)
    if not count:
        raise UsageError(f"nothing to index in {', '.join(map(str, paths))}: no passage could be read")
    above = next(folder for folder in (out.resolve(), *out.resolve().parents) if folder.exists())
    free = shutil.disk_usage(above).free
    rate = _rate(settings.model, tried) if settings.model else ENCODING.value
    made = plan(count, settings.dimension or 1, Machines(cores=cores(), rate=rate), text=size / count)
    needs = (*made.making, *made.embedded)
    if not settings.model:
        needs = tuple(need for need in needs if need.name not in _OF_VECTORS)
        return Forecast(count, size, "none", "none", needs, free)
    return Forecast(count, size, settings.model, kind_for(settings.dense, count), needs, free)


_OF_VECTORS = ("encoding, CPU", "approximate index")


def _rate(model: str, passages: Sequence[tuple[str, str]]) -> float:
    """Passages a second that one core encodes here; the first few only warm up."""
    encoder = Encoder.from_pretrained(model, threads=1)
    encoder.encode_passages(passages[:2])
    started = time.perf_counter()
    encoder.encode_passages(passages)
    return len(passages) / (time.perf_counter() - started)
