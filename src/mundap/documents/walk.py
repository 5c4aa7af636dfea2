"""Find input files: walk folders in a fixed order, without hidden and ignored files."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from mundap.disk import checksum
from mundap.documents.files import SourceFile
from mundap.errors import MundapError, UsageError
from mundap.records import Skipped

STDIN = "-"
STDIN_PREFIX = "stdin-"
LINK = "a symbolic link that is not followed"
_MANIFESTS = ("manifest.json", "manifest.next.json")  # beside `segments`: one of our indexes, never its own input

_Specs = list[tuple[Path, GitIgnoreSpec]]


@dataclass(frozen=True, slots=True)
class _Walk:
    """What a walk below one of the given folders needs to know."""

    root: Path
    base: Path
    exclude: Path | None
    follow_links: bool


def find(
    paths: Sequence[str | Path],
    base: Path,
    ignore: Iterable[str] = (),
    exclude: Path | None = None,
    follow_links: bool = False,
) -> list[SourceFile | Skipped]:
    """Every file below the given paths, each once, sorted within a folder.

    A link to a file inside the given folder is read like a file. One that leads out of it is not followed, and
    neither is a link to a folder: a folder may hold links to anything, put there by anybody.

    Args:
        paths: Files and folders.
        base: The folder that holds the index; sources below it get relative names.
        ignore: Patterns in the manner of .gitignore, tried from each given folder.
        exclude: A folder never to enter: the index that is being written.
        follow_links: Follow all links, also out of the given folders; no folder is entered twice.

    Raises:
        MundapError: A path does not exist.
    """
    for path in paths:
        if not _exists(Path(path)):
            raise MundapError("{path}: no such file or folder. Check the path.", path=path)
    try:
        patterns = GitIgnoreSpec.from_lines(ignore)
    except ValueError as error:
        raise UsageError("a pattern of files to leave out cannot be used: {error}", error=error) from error
    found: list[SourceFile | Skipped] = []
    seen: set[str] = set()
    for path in paths:
        for file in _below(path, base, patterns, exclude.resolve() if exclude else None, follow_links):
            if isinstance(file, Skipped) or file.source not in seen:
                seen.add(file.source)
                found.append(file)
    return found


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name too long, a loop of links
        return False


def _below(
    path: str | Path, base: Path, patterns: GitIgnoreSpec, exclude: Path | None, follow_links: bool
) -> Iterator[SourceFile | Skipped]:
    root = Path(path).resolve()
    if root.is_dir():
        walk = _Walk(root, base, exclude, follow_links)
        yield from _folder(root, walk, [*_inherited(root), (root, patterns)], frozenset())
    elif root.is_file():
        yield SourceFile(root, printable(root.name), _source_name(root, base))
    else:
        yield Skipped(str(path), "not a regular file")


@contextmanager
def stdin_copy() -> Iterator[SourceFile]:
    """Copy standard input to a temporary file, so that it can be inspected, hashed and read more than once.

    It is named by its content: what is piped in later does not take the place of what came before.
    """
    with tempfile.TemporaryDirectory(prefix="mundap-stdin-") as folder:
        copy = Path(folder) / "stdin"
        with copy.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        name = f"{STDIN_PREFIX}{checksum(copy)[:12]}"
        yield SourceFile(copy, name, name)


def _source_name(path: Path, base: Path) -> str:
    """A file's name in the index: relative when it is below the folder that holds the index."""
    try:
        return printable(path.relative_to(base.resolve()).as_posix())
    except ValueError:
        return printable(path.as_posix())


def printable(name: str) -> str:
    """Make a file name that is not UTF-8 storable, and keep it distinct from others."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _inherited(root: Path) -> _Specs:
    """The .gitignore files above a folder, from the top of its repository down."""
    found: _Specs = []
    for folder in (root, *root.parents):
        if (folder / ".git").exists():
            return found[::-1]
        if (folder.parent / ".gitignore").is_file():
            found.append((folder.parent, _spec(folder.parent / ".gitignore")))
    return []


def _spec(path: Path) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(path.read_text("utf-8", "replace").splitlines())
    except (OSError, ValueError):
        return GitIgnoreSpec.from_lines([])


def _folder(folder: Path, walk: _Walk, specs: _Specs, above: frozenset[Path]) -> Iterator[SourceFile | Skipped]:
    """The files of a folder. `above` has the real paths of the folders on the way, where links are followed."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        yield Skipped(_source_name(folder, walk.base), error.strerror or str(error))
        return
    names = {entry.name for entry in entries}
    if "segments" in names and not names.isdisjoint(_MANIFESTS):
        return
    if (folder / ".gitignore").is_file():
        specs = [*specs[:-1], (folder, _spec(folder / ".gitignore")), specs[-1]]
    if walk.follow_links:
        above |= {folder.resolve()}
    yield from _entries(entries, walk, specs, above)


def _entries(
    entries: "list[os.DirEntry[str]]", walk: _Walk, specs: _Specs, above: frozenset[Path]
) -> Iterator[SourceFile | Skipped]:
    for entry in entries:
        path = Path(entry.path)
        is_folder = entry.is_dir(follow_symlinks=False) or (walk.follow_links and _new_folder(path, above))
        if entry.name.startswith(".") or path == walk.exclude or _ignored(path, is_folder, specs):
            continue
        if is_folder:
            yield from _folder(path, walk, specs, above)
        else:
            yield from _file(entry, path, walk)


def _new_folder(path: Path, above: frozenset[Path]) -> bool:
    """Whether a link leads to a folder that is not already being walked."""
    try:
        return path.is_dir() and path.resolve() not in above
    except OSError:
        return False


def _file(entry: "os.DirEntry[str]", path: Path, walk: _Walk) -> Iterator[SourceFile | Skipped]:
    name = _source_name(path, walk.base)
    try:
        if entry.is_symlink() and not path.exists():
            yield Skipped(name, "broken symbolic link")
        elif entry.is_symlink() and not walk.follow_links and _leads_out(path, walk.root):
            yield Skipped(name, LINK, expected=True)
        elif entry.is_file():
            yield SourceFile(path, _source_name(path, walk.root), name)
        elif not entry.is_symlink():
            yield Skipped(name, "not a regular file")
    except OSError as error:  # a link to itself
        yield Skipped(name, error.strerror or str(error))


def _leads_out(link: Path, root: Path) -> bool:
    """Whether a link leads to a folder, or out of the one that is walked."""
    return link.is_dir() or not link.resolve().is_relative_to(root)


def _ignored(path: Path, is_folder: bool, specs: _Specs) -> bool:
    """The last word belongs to --ignore, then to the deepest .gitignore that says anything."""
    for top, spec in reversed(specs):
        decision = spec.check_file(path.relative_to(top).as_posix() + ("/" if is_folder else "")).include
        if decision is not None:
            return bool(decision)
    return False
