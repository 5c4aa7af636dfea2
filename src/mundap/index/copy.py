"""Back up an index: one consistent state, even while others write to it."""

import os
import shutil
from pathlib import Path

from mundap.disk import disk_errors, sync_file, sync_folder
from mundap.errors import IndexDamaged, Message, UsageError
from mundap.index.catalog import SKIPPED
from mundap.index.manifest import COMMITTED, Manifest
from mundap.index.verify import verify

_TRIES = 10


def backup(root: Path, out: Path) -> Manifest:
    """Copy the committed state of an index to a new folder, and check the copy; returns what was copied.

    A writer beside it does no harm: committed files never change. If a commit takes some away meanwhile, the copy
    begins anew with the new state.

    Raises:
        UsageError: The folder already exists.
        IndexDamaged: The index is damaged, and so would be the copy.
    """
    if out.exists():
        raise UsageError("{path} already exists. Choose a new folder for the copy.", path=out)
    unfinished = out.with_name(out.name + ".unfinished")
    with disk_errors(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
        for _ in range(_TRIES):
            shutil.rmtree(unfinished, ignore_errors=True)
            before = Manifest.load(root)
            try:
                manifest = _copy(root, unfinished)
                problems = verify(unfinished, with_model=False)
            except FileNotFoundError as error:
                problems = [Message("{path} is missing", path=error.filename)]
            if not problems or Manifest.load(root).generation == before.generation:
                break
        if problems:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise IndexDamaged(f"{problems[0]}. Nothing was copied. `mundap verify` says more of {root}.")
        unfinished.replace(out)
        sync_folder(out.parent)
    return manifest


def _copy(root: Path, out: Path) -> Manifest:
    """Copy every file of the newest state."""
    out.mkdir()
    shutil.copyfile(root / COMMITTED, out / COMMITTED)
    manifest = Manifest.load(out)
    paths = [entry.path for entry in manifest.files()]
    if not manifest.lexical.files:  # format 1 does not list them
        folder = manifest.lexical.folder
        paths += [f"{folder}/{path.name}" for path in (root / folder).iterdir() if path.suffix != ".lock"]
    if (root / SKIPPED).exists():
        paths.append(SKIPPED)
    for path in paths:
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, out / path)
        sync_file(out / path)
    for folder, _, _ in os.walk(out):
        sync_folder(Path(folder))
    return manifest
