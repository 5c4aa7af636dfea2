"""Which directory is meant: the one given, or `.mundap/` here or in the nearest parent, as git does."""

from pathlib import Path

from mundap.errors import IndexMissing
from mundap.index.manifest import COMMITTED, IN_PROGRESS

NAME = ".mundap"


def to_read(given: str | Path | None) -> Path:
    """The index a command reads.

    Raises:
        IndexMissing: None was given and none is found.
    """
    if given is not None:
        return Path(given)
    if found := _nearest():
        return found
    raise IndexMissing(f"no index here: neither {Path.cwd()} nor any folder above has {NAME}/. "
                       "Make one with `mundap index PATHS…`, or name one with -i.")  # fmt: skip


def to_write(given: str | Path | None) -> Path:
    """The index a command makes or changes."""
    return Path(given) if given is not None else _nearest() or Path.cwd() / NAME


def _nearest() -> Path | None:
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / NAME / COMMITTED).is_file() or (folder / NAME / IN_PROGRESS).is_file():
            return folder / NAME
    return None
