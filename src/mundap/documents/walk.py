"""Which files a command was given: folders walked in a fixed order, hidden and ignored files left out."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pathspec import GitIgnoreSpec

from mundap.documents.files import SourceFile
from mundap.errors import MundapError
from mundap.records import Skipped

STDIN = "-"
_MANIFEST = "manifest.json"  # a folder with this and `segments` is one of our indexes: never its own input


def find(paths: Sequence[str | Path], base: Path, ignore: Iterable[str] = ()) -> Iterator[SourceFile | Skipped]:
    """Yield every file below the given paths, each once, sorted within a folder.

    Args:
        paths: Files, folders, or `-` for standard input.
        base: The folder that holds the index; sources below it get relative names.
        ignore: Patterns in the manner of .gitignore, tried from each given folder.

    Raises:
        MundapError: A path does not exist.
    """
    for path in paths:
        if str(path) != STDIN and not Path(path).exists():
            raise MundapError(f"{path}: no such file or folder. Check the path.")
    patterns = GitIgnoreSpec.from_lines(ignore)
    seen: set[int] = set()
    for path in paths:
        for file in _below(path, base, patterns):
            key = hash(file.source)
            if isinstance(file, Skipped) or key not in seen:
                seen.add(key)
                yield file


def _below(path: str | Path, base: Path, patterns: GitIgnoreSpec) -> Iterator[SourceFile | Skipped]:
    if str(path) == STDIN:
        # Kept in a file, so that it can be sniffed, hashed and read again like any other.
        with tempfile.NamedTemporaryFile(prefix="mundap-stdin-") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.flush()
            yield SourceFile(Path(copy.name), "stdin", "stdin")
        return
    root = Path(path).resolve()
    if root.is_dir():
        specs = [(root, patterns), *_inherited(root)]
        yield from _folder(root, root, base, specs)
    elif root.is_file():
        yield SourceFile(root, root.name, source_name(root, base))
    else:
        yield Skipped(str(path), "not a regular file")


def source_name(path: Path, base: Path) -> str:
    """A file's name in the index: relative when it is below the folder that holds the index."""
    try:
        name = path.relative_to(base.resolve()).as_posix()
    except ValueError:
        name = path.as_posix()
    # A name that is not UTF-8 on disk must still be printable and storable.
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _inherited(root: Path) -> list[tuple[Path, GitIgnoreSpec]]:
    """The .gitignore files above a folder, up to the top of its repository."""
    found: list[tuple[Path, GitIgnoreSpec]] = []
    for folder in (root, *root.parents):
        if (folder / ".git").exists():
            return found
        parent = folder.parent
        if (parent / ".gitignore").is_file():
            found.append((parent, _spec(parent / ".gitignore")))
    return []


def _spec(path: Path) -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines(path.read_text("utf-8", "replace").splitlines())


def _folder(
    folder: Path, root: Path, base: Path, specs: list[tuple[Path, GitIgnoreSpec]]
) -> Iterator[SourceFile | Skipped]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        yield Skipped(source_name(folder, base), error.strerror or str(error))
        return
    names = {entry.name for entry in entries}
    if _MANIFEST in names and "segments" in names:
        return
    if ".gitignore" in names:
        specs = [*specs, (folder, _spec(folder / ".gitignore"))]
    for entry in entries:
        path = Path(entry.path)
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name.startswith(".") or _ignored(path, is_folder, specs):
            continue
        if is_folder:
            yield from _folder(path, root, base, specs)
        elif entry.is_file():
            yield SourceFile(path, source_name(path, root), source_name(path, base))
        elif entry.is_symlink() and not path.exists():
            yield Skipped(source_name(path, base), "broken symbolic link")


def _ignored(path: Path, is_folder: bool, specs: list[tuple[Path, GitIgnoreSpec]]) -> bool:
    slash = "/" if is_folder else ""
    return any(spec.match_file(path.relative_to(top).as_posix() + slash) for top, spec in specs)
