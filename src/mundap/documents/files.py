"""Input files: names, decompression, encodings, and limits on all of it."""

import bz2
import gzip
import hashlib
import io
import json
import lzma
import re
import zlib
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from mundap.disk import checksum
from mundap.errors import MundapError

MAX_FILE = 512 << 20
"""A single document (text, HTML, PDF, DOCX) is read whole, up to this many bytes after decompression."""

_CHUNK = 1 << 20

MAX_LINE = 64 << 20
"""The longest row of a JSON lines or tab-separated file."""


class Unreadable(Exception):
    """A file, or the rest of it, cannot be used; the message is the reason told to the user."""


class NoDocument(Unreadable):
    """A file that is not a document: a picture, a font, a program without comments. It is left out quietly."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to read.

    Attributes:
        path: Where it is.
        id: Its name as a document: the path below the folder that was given.
        source: Its name in the index: relative to the folder that holds the index if below it, else absolute.
    """

    path: Path
    id: str
    source: str
    _opened: list["_Hashed"] = field(default_factory=list, compare=False, repr=False)

    @property
    def suffix(self) -> str:
        """The file name's last suffix, without that of a compression."""
        suffixes = [suffix.lower() for suffix in self.path.suffixes[-2:]]
        while suffixes and suffixes[-1] in (".gz", ".bz2", ".xz", ".zst"):
            suffixes.pop()
        return suffixes[-1] if suffixes else ""

    def raw(self) -> io.BufferedReader:
        """Open for reading as it is. How far it has been read is the file's `position`."""
        hashed = _Hashed(self.path)
        self._opened[:] = [hashed]
        return io.BufferedReader(hashed, 1 << 16)

    def open(self) -> IO[bytes]:
        """Open for reading, decompressed if the content is gzip, bzip2, xz or zstd."""
        raw = self.raw()
        head = raw.peek(8)[:8]
        if head.startswith(b"\x1f\x8b"):
            return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
        if head.startswith(b"BZh"):
            return bz2.BZ2File(raw)
        if head.startswith(b"\xfd7zXZ\x00"):
            return lzma.LZMAFile(raw)
        if head.startswith(b"\x28\xb5\x2f\xfd"):
            import zstandard

            reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
            return cast("IO[bytes]", io.BufferedReader(_Zstandard(reader, zstandard.ZstdError)))
        return raw

    def head(self) -> bytes:
        """The first 64 kB, without a byte order mark and blanks before them, to tell a format by.

        Raises:
            MundapError: It cannot be read.
        """
        try:
            with self.open() as stream:
                return stream.read(1 << 16).removeprefix(b"\xef\xbb\xbf").lstrip()
        except STREAM_ERRORS as error:
            raise MundapError(f"{self.path}: {explain(error)}. Repair or replace the file.") from error

    def position(self) -> int:
        """How many bytes of the file have been read, for progress."""
        return self._opened[0].count if self._opened and not self._opened[0].closed else 0

    def digest(self) -> bytes:
        """The SHA-256 of the file as it is on the disk. A file that was just read to its end is not read again."""
        if self._opened and self._opened[0].complete:
            return self._opened[0].sha256.digest()
        return bytes.fromhex(checksum(self.path))

    def read(self) -> bytes:
        """The whole content, decompressed.

        Raises:
            Unreadable: It is larger than `MAX_FILE`.
        """
        chunks = []
        size = 0
        with self.open() as file:
            while chunk := file.read(_CHUNK):  # memory for the largest file that may be costs more than most files
                chunks.append(chunk)
                size += len(chunk)
                if size > MAX_FILE:
                    raise Unreadable(f"larger than {MAX_FILE >> 20} MB: split it into smaller files")
        return b"".join(chunks)

    def lines(self) -> Iterator[tuple[int, bytes | Unreadable]]:
        """Yield (line number, line without its end); an overlong line gives the reason instead."""
        with self.open() as file:
            number = 0
            while line := file.readline(MAX_LINE):
                number += 1
                if len(line) == MAX_LINE and not line.endswith(b"\n"):
                    while line and not line.endswith(b"\n"):
                        line = file.readline(MAX_LINE)
                    yield number, Unreadable(f"line longer than {MAX_LINE >> 20} MB")
                    continue
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                yield number, line.rstrip(b"\r\n")


class Lines:
    """Look up the line of each character in a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._ends = [match.start() for match in re.finditer("\n", text)]

    def at(self, place: int) -> int:
        """The line of a character, from 1."""
        return bisect_left(self._ends, place) + 1


def open_file(path: str | Path) -> SourceFile:
    """Find a file by name, to stream it.

    Raises:
        MundapError: It is not there, or is a folder.
    """
    where = Path(path)
    if not where.is_file():
        raise MundapError(f"{path}: {'a folder, not a file' if where.is_dir() else 'no such file'}")
    return SourceFile(where, where.name, str(path))


class _Hashed(io.RawIOBase):
    """A file whose digest is computed while it is read."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self.count = 0
        self.complete = False
        self.sha256 = hashlib.sha256()
        self._in_order = True

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self._file.readinto(buffer) or 0
        if self._in_order:
            self.sha256.update(memoryview(buffer)[:size])
            self.complete = size == 0
        self.count += size
        return size

    def seek(self, offset: int, whence: int = 0) -> int:
        place = self._file.seek(offset, whence)
        self._in_order = self._in_order and place == self.count
        self.complete = self.complete and self._in_order
        self.count = place
        return place

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        super().close()


class _Zstandard(io.RawIOBase):
    """Zstandard's stream with the errors of all other streams instead of its own."""

    def __init__(self, reader: Any, error: type[Exception]) -> None:
        self._reader = reader
        self._error = error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._reader.readinto(buffer))
        except self._error as error:
            raise EOFError(str(error)) from error


STREAM_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError, Unreadable)
"""What reading a bad file raises."""


def explain(error: BaseException) -> str:
    """Explain a reading error in plain words."""
    if isinstance(error, Unreadable):
        return str(error)
    if isinstance(error, PermissionError):
        return "permission denied"
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, OSError) and error.errno is not None:
        return error.strerror or str(error)
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON ({error})"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    return f"corrupt or truncated compressed data ({error})"


_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_WESTERN = set("àâäáãåæçèéêëìíîïñòóôöõøœùúûüÿßÀÂÄÁÃÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÖÕØŒÙÚÛÜ¿¡«»‘’“”–—…°€£§ ")


def _is_western(data: bytes) -> bool:
    """Whether the bytes read as French, German, Spanish and the like. Statistics fail on short texts; this does not."""
    foreign = [character for character in data[:200_000].decode("cp1252", "replace") if character > "\x7f"]
    known = sum(character in _WESTERN for character in foreign)
    return known >= 0.95 * len(foreign) and len(foreign) < 0.2 * min(len(data), 200_000)


def _unmarked_utf16(data: bytes) -> str:
    """UTF-16 without its mark has a zero in every other byte of Latin text; anything else with zeros is binary."""
    head = data[:4096]
    for start, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        zeros, others = head[start::2].count(0), head[1 - start :: 2].count(0)
        if zeros > 0.4 * len(head[start::2]) and not others and len(data) % 2 == 0:
            return data.decode(encoding, "replace")
    raise NoDocument("binary file, not text")


def decode(data: bytes) -> str:
    """Bytes to text: a byte order mark, UTF-8, or else the most likely older encoding.

    Raises:
        Unreadable: The bytes are not text.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    if b"\0" in data[:65536]:
        return _unmarked_utf16(data)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    lenient = data.decode("utf-8", "replace")
    broken = lenient.count("\ufffd")
    if 10 * broken < sum(1 for character in lenient[:1_000_000] if character > "\x7f"):
        return lenient  # UTF-8 with a few damaged bytes
    if _is_western(data):
        return data.decode("cp1252", "replace")
    from charset_normalizer import from_bytes

    guess = from_bytes(data[:200_000]).best()
    if guess is None:
        raise Unreadable("neither UTF-8 nor any other text encoding")
    return data.decode(guess.encoding, "replace")
