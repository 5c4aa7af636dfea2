"""The folder of an index: what in it is ours, and what of that is no longer used."""

import contextlib
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from mundap.errors import UsageError
from mundap.index.manifest import COMMITTED, IN_PROGRESS, Manifest

_MANIFESTS = (COMMITTED, IN_PROGRESS)
# What the sweeper may touch: names that only we give.
_OUR_FILE = re.compile(
    r"(deleted-[0-9-]+\.bin|manifest(\.next)?\.json)\.tmp|deleted-\d{6,}-\d{6,}-\d+\.bin|dense-\d{6,}\.faiss"
)
_OUR_LEXICAL = re.compile(r"lexical-\d{6,}")
_OUR_SEGMENT = re.compile(r"\d{6,}")


def sweep(root: Path, states: Iterable[Manifest], unfinished: str) -> None:
    """Remove what none of the states lists.

    Args:
        root: The index.
        states: What is in use.
        unfinished: The name of a segment that is being written, if there is one.
    """
    files: set[str] = set()
    lexical: set[str] = set()
    segments = {unfinished}
    for manifest in states:
        files |= {entry.path for entry in manifest.files()}
        segments |= {entry.name for entry in manifest.segments}
        lexical.add(manifest.lexical.folder)
    for path in root.iterdir():
        if _OUR_FILE.fullmatch(path.name) and path.name not in files:
            with contextlib.suppress(PermissionError):  # on Windows, while a reader has it open: the next writer's turn
                path.unlink()
        elif _OUR_LEXICAL.fullmatch(path.name) and path.name not in lexical:
            shutil.rmtree(path, ignore_errors=True)
    for folder in (root / "segments").glob("*"):
        if _OUR_SEGMENT.fullmatch(folder.name) and folder.name not in segments:
            shutil.rmtree(folder, ignore_errors=True)


def refuse_foreign(root: Path) -> None:
    """Never take over a folder that holds something else.

    Raises:
        UsageError: It does.
    """
    if root.exists() and not root.is_dir():
        raise UsageError("{path} is a file. Choose a folder for the index.", path=root)
    if not root.is_dir() or any((root / name).exists() and _is_manifest(root / name) for name in _MANIFESTS):
        return
    known = ("lock", "segments", *_MANIFESTS)
    foreign = [
        path
        for path in root.iterdir()
        if path.name not in known and not _OUR_FILE.fullmatch(path.name) and not _OUR_LEXICAL.fullmatch(path.name)
    ]
    foreign += [path for path in (root / "segments").glob("*") if not _OUR_SEGMENT.fullmatch(path.name)]
    if foreign:
        message = "{path} is not empty and is not an index ({name}). Choose another folder with -o."
        raise UsageError(message, path=root, name=foreign[0].name)


def _is_manifest(path: Path) -> bool:
    """Whether a file called a manifest is one of ours: whole or not, of this format or another."""
    try:
        return b'"format"' in path.read_bytes()[:64]
    except OSError:
        return False
