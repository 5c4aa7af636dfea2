"""Atomic writes: temporary name, flush to disk, rename."""

import gzip
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from mundap.errors import MundapError, UsageError


def write_atomic(path: Path, data: bytes) -> None:
    """Replace a file's content; a reader sees the old or the new, and a crash leaves one of them."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.unlink(missing_ok=True)  # left by a dead process, or a link that somebody else put there
    with temporary.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)  # what the content names may be new in the folder: it must be there first
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and new files in a folder survive a power cut."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows: it opens no folder, and writes renames down by itself
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Flush to disk a file that a library wrote."""
    mode = "rb"
    if os.name == "nt":  # Windows flushes only what may be written to
        mode = "r+b"
    with path.open(mode) as file:
        os.fsync(file.fileno())


def checksums(paths: Iterable[Path]) -> dict[str, str]:
    """The checksums of files, by their names."""
    return {path.name: checksum(path) for path in paths}


def checksums_on_disk(folder: Path, known: Mapping[str, str] | None = None) -> dict[str, str]:
    """Flush a new folder with its files to the disk; returns their checksums, by their names, which are sorted.

    Args:
        folder: Where they are.
        known: Checksums of some of the files, which then are not computed again.
    """
    for path in folder.iterdir():
        sync_file(path)
    sync_folder(folder)
    sync_folder(folder.parent)
    known = known or {}
    return {path.name: known.get(path.name) or checksum(path) for path in sorted(folder.iterdir())}


def checksum(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def disk_errors(where: Path) -> Iterator[None]:
    """Turn errors of a full disk or a read-only folder into a message that says what to do."""
    try:
        yield
    except OSError as error:
        raise cannot_write(where, error) from error


def cannot_write(where: Path, error: OSError) -> MundapError:
    """The error for a full disk or a read-only folder, with what to do."""
    return MundapError(
        "cannot write to {path}: {reason}. What was there before is unharmed; make room or fix the permissions, "
        "then run the same command again to resume.",
        path=where,
        reason=error.strerror or str(error),
    )


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to replace its content: the new content appears if the block succeeds, else nothing changes.

    A name that ends in .gz is compressed, with the same bytes each time. What is not a regular file, such as a pipe,
    is written into as it is.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as raw, _packed(raw, path) as file:
            yield file
        return
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(number, "wb") as raw:
            with _packed(raw, path) as file:
                yield file
            raw.flush()
            os.fsync(raw.fileno())
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _packed(raw: IO[bytes], path: Path) -> Iterator[IO[bytes]]:
    if path.suffix == ".gz":
        with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
            yield cast("IO[bytes]", packed)
    else:
        yield raw


@contextmanager
def json_array(file: IO[bytes]) -> Iterator[Callable[[Any], None]]:
    """Write a JSON array value by value."""
    opening = b"[\n"

    def write(value: Any) -> None:
        nonlocal opening
        file.write(opening + json_bytes(value))
        opening = b",\n"

    yield write
    file.write(b"\n]\n" if opening == b",\n" else b"[]\n")


def json_bytes(value: Any) -> bytes:
    """A value as JSON in UTF-8, on one line."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def apart(output: str | Path, *inputs: str | Path | None) -> None:
    """Make sure that the output is not one of the input files.

    Raises:
        UsageError: It is one of them.
    """
    where = Path(output).resolve()
    if any(path is not None and Path(path).resolve() == where for path in inputs):
        raise UsageError(f"{output} is one of the files to read: write to another")
