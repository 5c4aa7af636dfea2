"""Dumps into chunks that can be read by themselves, and chunks into pages.

A plain file is cut anywhere, a multistream bzip2 file where a stream begins, and each process opens the file and
reads its own part: a page belongs to the chunk it begins in, wherever it ends. Any other file has to be decompressed
from its beginning by one process, which hands out what it has read. Nothing here holds more than a few megabytes.
"""

import bz2
import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from mundap.documents.files import STREAM_ERRORS, SourceFile, Unreadable, explain

MAX_PAGE = 8 << 20
"""The largest page, as XML; MediaWiki itself allows 2 MB."""

_CHUNK = 1 << 20
_PACKED_CHUNK = 256 << 10
_BLOCK = 256 << 10
_STREAM = re.compile(rb"BZh[1-9]1AY&SY")
_LENGTH = 10  # of what a stream begins with
_FIRST_STREAM = 16 << 20  # a second stream that begins later than this makes no multistream dump
_BEGIN, _END = b"<page>", b"</page>"
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}

Block = bytes | Unreadable | None
"""Bytes, or why some are lost, or None where another chunk begins."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a dump.

    Attributes:
        kind: `plain` or `bz2` for a range of the file; `data` for bytes that have been read already.
        start: Where it begins: in the file, or in what comes out of decompressing it.
        end: Where the next one begins.
        read: How much of the file has been read when it is done.
        data: The bytes.
        lost: Why the file could not be read on, for the last chunk of a damaged one.
    """

    kind: str
    start: int
    end: int
    read: int
    data: bytes = b""
    lost: str = ""


def head(file: SourceFile) -> str:
    """The beginning of a dump, with what it says about its edition; empty if it is no dump.

    Raises:
        STREAM_ERRORS: It cannot be read at all.
    """
    data = b""
    with file.open() as stream:
        while len(data) < 1 << 20 and b"</siteinfo>" not in data and _BEGIN not in data:
            try:
                block = _read(stream, 1 << 14)
            except STREAM_ERRORS:
                if not data:
                    raise
                break
            if not block:
                break
            data += block
            if not looks_like_dump(data, cut_out=True):
                return ""
    text = _as_text(data)
    end = text.find("</siteinfo>")
    return text[:end] if end >= 0 else text[:1000]


def _as_text(data: bytes) -> str:
    return data.decode(_MARKS.get(data[:2], "utf-8"), "replace")


def looks_like_dump(data: bytes, cut_out: bool = False) -> bool:
    """Whether a file that begins like this is a dump or, with `cut_out`, a piece from the middle of one."""
    start = _as_text(data[:4096]).lstrip("\ufeff \t\r\n")
    if start.startswith("<?xml"):
        start = start.partition("?>")[2].lstrip()
    return start.startswith("<mediawiki") or (cut_out and start.startswith(("<siteinfo", "<page>")))


def chunks(file: SourceFile, start: int = 0) -> Iterator[Chunk]:
    """Cut a dump up, from the end of a chunk on. Where it is cut depends on the file alone.

    Raises:
        STREAM_ERRORS: It cannot be opened.
    """
    with file.raw() as raw:
        mark = raw.read(_LENGTH)
        raw.seek(0)
        packed = bool(_STREAM.match(mark))
        if packed and not _is_multistream(raw):
            pass
        elif packed or mark.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"<"):
            yield from _ranges(raw, start, packed)
            return
    yield from _in_sequence(file, start)


def _is_multistream(raw: IO[bytes]) -> bool:
    data = raw.read(_FIRST_STREAM)
    raw.seek(0)
    return bool(_STREAM.search(data, 1))


def _ranges(raw: IO[bytes], start: int, packed: bool) -> Iterator[Chunk]:
    size = raw.seek(0, 2)
    while start < size:
        end = min(size, start + (_PACKED_CHUNK if packed else _CHUNK))
        if packed:
            end = _next_stream(raw, end)
        raw.seek(end)
        yield Chunk("bz2" if packed else "plain", start, end, end)
        start = end


def _next_stream(raw: IO[bytes], at: int) -> int:
    """Where a stream begins, from here on; the end of the file if none does."""
    raw.seek(at)
    tail = b""
    while block := raw.read(_BLOCK):
        data = tail + block
        if found := _STREAM.search(data):
            return at - len(tail) + found.start()
        at += len(block)
        tail = data[1 - _LENGTH :]
    return at


def _in_sequence(file: SourceFile, start: int) -> Iterator[Chunk]:
    """Chunks that end where a page ends. What was done before is decompressed again, but not looked at."""
    buffer = bytearray()
    at = 0
    lost = ""
    with file.open() as stream:
        blocks = _blocks_of(stream)
        while True:
            block = next(blocks, b"")
            if isinstance(block, Unreadable):
                lost, block = str(block), b""
            buffer += block
            cut = _end_of_chunk(buffer, is_last=not block)
            if cut or (not block and lost):
                data = bytes(buffer[:cut])
                del buffer[:cut]
                if at >= start:
                    yield Chunk("data", at, at + cut, file.position(), data, "" if buffer else lost)
                at += cut
            if not block:
                return


def _end_of_chunk(buffer: bytearray, is_last: bool) -> int:
    """How many bytes are a chunk; 0 if there are too few."""
    if is_last or len(buffer) > 2 * MAX_PAGE:
        return len(buffer)
    if len(buffer) < _CHUNK:
        return 0
    end = buffer.rfind(_END)
    return end + len(_END) if end >= 0 else 0


def _blocks_of(stream: IO[bytes]) -> Iterator[bytes | Unreadable]:
    """The bytes of a stream as UTF-8, and why it ends too early, if it does."""
    decoder: codecs.IncrementalDecoder | None = None
    first = True
    try:
        while block := _read(stream, _BLOCK):
            if first and (encoding := _MARKS.get(block[:2])):
                decoder = codecs.getincrementaldecoder(encoding)("replace")
            first = False
            yield decoder.decode(block).encode("utf-8", "replace") if decoder else block
    except STREAM_ERRORS as error:
        yield Unreadable(explain(error))


def _read(stream: IO[bytes], size: int) -> bytes:
    """What there is, up to a size: unlike `read`, it does not lose what came before an error."""
    block: bytes = stream.read1(size) if hasattr(stream, "read1") else stream.read(size)
    return block


# ---------------------------------------------------------------- in the process that does the work


def pages(path: Path, chunk: Chunk) -> Iterator[bytes | Unreadable]:
    """The pages that begin in a chunk, as XML, and why some are lost."""
    if chunk.kind == "data":
        yield from _cut(iter([chunk.data]))
        if chunk.lost:
            yield Unreadable(f"{chunk.lost}; what came before was kept")
        return
    try:
        with path.open("rb") as raw:
            yield from _cut(_unpacked(raw, chunk) if chunk.kind == "bz2" else _plain(raw, chunk))
    except STREAM_ERRORS as error:
        yield Unreadable(f"the part at byte {chunk.start:,}: {explain(error)}")


def _plain(raw: IO[bytes], chunk: Chunk) -> Iterator[Block]:
    raw.seek(chunk.start)
    left = chunk.end - chunk.start
    while left and (block := raw.read(min(left, _BLOCK))):
        left -= len(block)
        yield block
    yield None
    while block := raw.read(_BLOCK):
        yield block


def _unpacked(raw: IO[bytes], chunk: Chunk) -> Iterator[Block]:
    """A damaged stream is lost from where it is damaged; the next one is whole again."""
    raw.seek(chunk.start)
    yield from _streams(raw.read(chunk.end - chunk.start))
    yield None
    # A page that goes on in the next stream: files cut by size, as pbzip2 does, have many of them.
    if raw.seek(0, 2) > chunk.end:
        raw.seek(chunk.end)
        yield from _blocks_of(bz2.BZ2File(raw))


def _streams(data: bytes) -> Iterator[Block]:
    starts = [found.start() for found in _STREAM.finditer(data)]
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        decompressor = bz2.BZ2Decompressor()
        packed = data[start:end]
        try:
            while not decompressor.eof:
                block = decompressor.decompress(packed, _BLOCK)
                packed = b""
                if block:
                    yield block
                elif decompressor.needs_input:
                    break
            if not decompressor.eof:
                yield Unreadable("truncated compressed data; what came before was kept")
        except OSError as error:
            yield Unreadable(f"corrupt compressed data ({error}); the pages of this part are lost, the rest was kept")


def _cut(blocks: Iterator[Block]) -> Iterator[bytes | Unreadable]:
    """Pages out of bytes. One that is not closed, or too long, is left out, and the next one is looked for."""
    cutter = _Cutter()
    for block in blocks:
        if block is None:
            if cutter.is_done_at_border():
                return
        elif not isinstance(block, Unreadable):
            yield from cutter.take(block)
            if cutter.done:
                return
        elif cutter.border >= 0:  # said by the next chunk, too
            break
        else:
            yield block
            cutter.forget_all()
    if _BEGIN in cutter.buffer:
        start = cutter.buffer.find(_BEGIN)
        yield _lost(cutter.buffer, start, "invalid XML: the file ends in the middle of it")


class _Cutter:
    """Holds the bytes of which no page has been made yet."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.border = -1  # where the next chunk begins, once that has been reached
        self.done = False  # whether all pages that begin before it have been found
        self._looked = 0  # up to here there is no end of the page that has begun

    def is_done_at_border(self) -> bool:
        """The next chunk begins here; returns whether no page has begun."""
        self.border = len(self.buffer)
        return _BEGIN not in self.buffer and b"<" not in self.buffer[-len(_BEGIN) :]

    def forget_all(self) -> None:
        """What has begun will have no end."""
        self.buffer.clear()
        self._looked = 0

    def take(self, block: bytes) -> Iterator[bytes | Unreadable]:
        """The pages that a block of bytes completes."""
        self.buffer += block
        end = 0
        start = self.buffer.find(_BEGIN)
        while start >= 0:
            if 0 <= self.border <= start:
                self.done = True
                return
            found = self._page(start)
            if found is None:
                break
            page, end = found
            yield page
            start = self.buffer.find(_BEGIN, end)
        if start < 0:
            start = max(end, len(self.buffer) - len(_BEGIN) + 1)
        self._forget(start)

    def _page(self, start: int) -> tuple[bytes | Unreadable, int] | None:
        """The page that begins at a place, or why it is lost, and where to go on; None if it is not complete."""
        buffer = self.buffer
        looked = max(self._looked, start + len(_BEGIN))
        end = buffer.find(_END, looked)
        again = buffer.find(_BEGIN, looked, end if end >= 0 else len(buffer))
        page: bytes | Unreadable
        if again >= 0:
            page, self._looked = _lost(buffer, start, "invalid XML: it has no end"), again
        elif end >= 0:
            self._looked = end + len(_END)
            is_short = self._looked - start <= MAX_PAGE
            page = bytes(buffer[start : self._looked]) if is_short else _too_large(buffer, start)
        elif len(buffer) - start > MAX_PAGE:
            page, self._looked = _too_large(buffer, start), len(buffer)
        else:
            return None
        return page, self._looked

    def _forget(self, count: int) -> None:
        """Drop so many bytes, of which nothing more can come."""
        del self.buffer[:count]
        self._looked = max(0, len(self.buffer) - len(_END) + 1)
        if self.border >= 0:
            self.border = max(0, self.border - count)


def _too_large(buffer: bytearray, start: int) -> Unreadable:
    return _lost(buffer, start, f"larger than {MAX_PAGE >> 20} MB, or without an end")


def _lost(buffer: bytearray, start: int, reason: str) -> Unreadable:
    found = re.search(rb"<title>([^<]{1,300})</title>", bytes(buffer[start : start + 2000]))
    name = f"page {found.group(1).decode('utf-8', 'replace')!r}" if found else "a page without a title"
    return Unreadable(f"{name}: {reason}")
