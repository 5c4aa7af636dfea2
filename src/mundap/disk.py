"""Writing so that nothing is ever half there: temporary name, flush to disk, atomic rename."""

import gzip
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from mundap.errors import MundapError


def write_atomic(path: Path, data: bytes) -> None:
    """Replace a file's content; a reader sees the old or the new, and a crash leaves one of them."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and new files in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Flush a file that some library wrote to the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def checksum(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def disk_errors(where: Path) -> Iterator[None]:
    """Turn a full disk or a read-only folder into a message that says what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise MundapError(
            f"cannot write to {where}: {reason}. What was there before is unharmed; "
            "make room or fix the permissions, then run the same command again to go on."
        ) from error


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new content for a file of any size: there when the block ends well, and no trace of it otherwise.

    A name that ends in .gz is compressed, with the same bytes each time.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as raw:
            if path.suffix == ".gz":
                with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
                    yield cast("IO[bytes]", packed)
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
