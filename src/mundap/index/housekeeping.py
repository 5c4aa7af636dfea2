"""Clean up the folder of an index: what in it is ours, and what is no longer used."""

import contextlib
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from mundap.errors import UsageError
from mundap.index.manifest import COMMITTED, IN_PROGRESS, Manifest

# What the sweeper may touch: names that only we give.
_SWEPT = re.compile(
    r"(deleted-[0-9-]+\.bin|manifest(\.next)?\.json)\.tmp|deleted-\d{6,}-\d{6,}-\d+\.bin|dense-\d{6,}\.(faiss|bytes)"
    r"|lexical-\d{6,}|segments/\d{6,}"
)
_OURS = re.compile(f"{_SWEPT.pattern}|lock|segments|{re.escape(COMMITTED)}|{re.escape(IN_PROGRESS)}")


def sweep(root: Path, states: Iterable[Manifest], unfinished: str) -> None:
    """Remove what none of the states lists.

    Args:
        root: The index.
        states: What is in use.
        unfinished: The name of a segment that is being written, if there is one.
    """
    used = {f"segments/{unfinished}"}
    for manifest in states:
        used.update(entry.path for entry in manifest.files())
        used.update(f"segments/{segment.name}" for segment in manifest.segments)
        used.add(manifest.lexical.folder)
    for name in _names(root):
        if name in used or not _SWEPT.fullmatch(name):
            continue
        if (root / name).is_dir():
            shutil.rmtree(root / name, ignore_errors=True)
        else:
            with contextlib.suppress(PermissionError):  # on Windows, while a reader has it open: the next writer's turn
                (root / name).unlink()


def refuse_foreign(root: Path) -> None:
    """Refuse a folder that holds something other than an index.

    Raises:
        UsageError: It does.
    """
    if root.exists() and not root.is_dir():
        raise UsageError("{path} is a file. Choose a folder for the index.", path=root)
    if not root.is_dir() or _is_manifest(root / COMMITTED) or _is_manifest(root / IN_PROGRESS):
        return
    for name in _names(root):
        if not _OURS.fullmatch(name):
            message = "{path} is not empty and is not an index ({name}). Choose another folder."
            raise UsageError(message, path=root, name=Path(name).name)


def _names(root: Path) -> list[str]:
    """What is in the folder of an index, and in that of its segments."""
    paths = (*root.iterdir(), *(root / "segments").glob("*"))
    return [path.relative_to(root).as_posix() for path in paths]


def _is_manifest(path: Path) -> bool:
    """Whether a file named like a manifest is one of mundap's, even if it is damaged or of another format."""
    try:
        return b'"format"' in path.read_bytes()[:64]
    except OSError:
        return False
