"""Find the index directory: the one given, or `.mundap/` here or in the nearest parent, as git does.

One that is found must be the user's own, as git wants it too: whoever can write to a folder above could else plant an
index there, and be given what is written into it.
"""

import os
from pathlib import Path

from mundap.errors import IndexMissing, UsageError
from mundap.index.manifest import COMMITTED, IN_PROGRESS

NAME = ".mundap"


def to_read(given: str | Path | None) -> Path:
    """The index a command reads.

    Raises:
        IndexMissing: None was given and none is found.
    """
    if given is not None:
        if "://" in str(given):
            raise UsageError("{address}: this command works on an index in a folder, not on an engine", address=given)
        folder = Path(given)
        # A project's folder stands for the index in it.
        if not _is_index(folder) and _is_index(folder / NAME):
            return folder / NAME
        return folder
    if found := _nearest():
        return found
    raise IndexMissing(
        "no index here: neither {here} nor any folder above has .mundap/. "
        "Make one with `mundap index PATHS…`, or name the folder of one.",
        here=Path.cwd(),
    )


def to_write(given: str | Path | None) -> Path:
    """The index a command makes or changes."""
    if given is not None:
        return to_read(given)
    return _nearest() or Path.cwd() / NAME


def _nearest() -> Path | None:
    here = Path.cwd()
    for folder in (here, *here.parents):
        if _is_index(folder / NAME):
            _refuse_foreign(folder / NAME)
            return folder / NAME
    return None


def _is_index(folder: Path) -> bool:
    return (folder / COMMITTED).is_file() or (folder / IN_PROGRESS).is_file()


def _refuse_foreign(folder: Path) -> None:
    """An index of somebody else is used only if it is named."""
    if not hasattr(os, "geteuid"):  # Windows
        return
    for path in (folder, folder / COMMITTED, folder / IN_PROGRESS):
        for look in (path.lstat, path.stat):  # a link, and what it leads to
            try:
                owner = look().st_uid
            except FileNotFoundError:
                continue
            if owner != os.geteuid():
                raise UsageError(
                    "{path} belongs to another user: an index that is found in a folder above is used only if it is "
                    "yours. If you trust it, name its folder: {folder}",
                    path=path,
                    folder=folder,
                )
