"""A forward index: the terms of every passage, in files beside tantivy's, for BM25 with other k1 and b.

Tantivy's scorer has k1 1.2 and b .75 built in, and its package for Python gives no term frequencies. With the terms of
the passages at hand, its best candidates are scored again for any k1 and b in about a millisecond. Only an index that
is made with other values than tantivy's has these files; for another one the text is analysed again (see lexical.py).

    terms-FIRST-COUNT.bin   for the COUNT passage numbers from FIRST on: COUNT + 1 offsets (u64), then the codes

A code has three bytes, of the term's CRC-32: two terms share one in 17 million pairs. A passage has one for each of its
words, so that their number is its length. A number that no passage has any more has none. A file is never changed.
"""

import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mundap.disk import sync_file
from mundap.errors import IndexDamaged

_NAME = re.compile(r"terms-(\d{12})-(\d+)\.bin")
_CODE = 3  # bytes
_LARGEST_GAP = 100_000  # numbers without a passage that are written as such; beyond this a new file begins
_LARGEST_FILE = 4_000_000  # passages; files up to here are joined
_MOST_KNOWN = 1_000_000  # codes of terms that are remembered while writing


class _TermsFile(NamedTuple):
    """One of the files: its path, the first number in it and how many there are."""

    path: Path
    first: int
    size: int

    @property
    def end(self) -> int:
        """The number after the last one."""
        return self.first + self.size


def terms_files(folder: Path) -> list[_TermsFile]:
    """The files in a folder, in the order of their numbers, without those that were joined into a larger one."""
    found = []
    for path in folder.glob("terms-*.bin"):
        match = _NAME.fullmatch(path.name)
        if match:
            found.append(_TermsFile(path, int(match[1]), int(match[2])))
    kept: list[_TermsFile] = []
    for one in sorted(found, key=lambda file: (file.first, -file.size)):
        if not kept or one.end > kept[-1].end:
            kept.append(one)
    return kept


class _Codes(dict[str, bytes]):
    """The code of each term, remembered."""

    def __missing__(self, term: str) -> bytes:
        if len(self) >= _MOST_KNOWN:
            self.clear()
        code = self[term] = _code(term)
        return code


def _code(term: str) -> bytes:
    return zlib.crc32(term.encode()).to_bytes(4, "little")[:_CODE]


def code_bytes(terms: Sequence[str]) -> np.ndarray:
    """The codes of some terms, a row of bytes each."""
    return np.frombuffer(b"".join(map(_code, terms)), np.uint8).reshape(-1, _CODE)


def codes_of(terms: Sequence[str]) -> np.ndarray:
    """The codes of some terms, as numbers."""
    return _as_numbers(code_bytes(terms))


def _as_numbers(codes: np.ndarray) -> np.ndarray:
    wide = codes.astype(np.uint32)
    return np.asarray(wide[:, 0] | wide[:, 1] << np.uint32(8) | wide[:, 2] << np.uint32(16))


class TermsWriter:
    """Collects the terms of new passages; `flush` writes them into a file of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._first = 0
        self._lengths: list[int] = []
        self._codes = bytearray()
        self._known = _Codes()

    def add(self, number: int, terms: Sequence[str]) -> None:
        """Add a passage. Numbers ascend."""
        if not self._lengths:
            self._first = number
        gap = number - self._first - len(self._lengths)
        if gap > _LARGEST_GAP:
            self.flush()
            self._first, gap = number, 0
        self._lengths += [0] * gap
        self._lengths.append(len(terms))
        self._codes += b"".join([self._known[term] for term in terms])

    def flush(self) -> None:
        """Write what has come in since the last time."""
        if self._lengths:
            offsets = np.zeros(len(self._lengths) + 1, "<u8")
            np.cumsum(self._lengths, out=offsets[1:])
            _write(self._folder, self._first, offsets, bytes(self._codes))
            self._lengths.clear()
            self._codes.clear()

    def drop_from(self, number: int) -> None:
        """Remove the terms of passages from this number on, left by a writer that died."""
        for file in terms_files(self._folder):
            if file.first >= number:
                file.path.unlink()

    def join(self) -> None:
        """Join small files with the one before them, until each is far smaller than its neighbour."""
        while True:
            files = terms_files(self._folder)
            pair = next((pair for pair in zip(files[-2::-1], files[:0:-1], strict=True) if _joinable(*pair)), None)
            if pair is None:
                break
            _join(self._folder, *pair)
        kept = {file.path for file in files}
        for path in self._folder.glob("terms-*.bin"):
            if path not in kept:
                path.unlink()


def _joinable(left: _TermsFile, right: _TermsFile) -> bool:
    near = 0 <= right.first - left.end <= _LARGEST_GAP
    return near and left.size <= 4 * right.size and left.size + right.size <= _LARGEST_FILE


def _join(folder: Path, left: _TermsFile, right: _TermsFile) -> None:
    offsets, codes = _read(left)
    more, rest = _read(right)
    gap = np.full(right.first - left.end, offsets[-1], "<u8")
    _write(folder, left.first, np.concatenate([offsets, gap, more[1:] + offsets[-1]]), codes.tobytes() + rest.tobytes())


def _write(folder: Path, first: int, offsets: np.ndarray, codes: bytes) -> None:
    path = folder / f"terms-{first:012d}-{len(offsets) - 1}.bin"
    scratch = path.with_suffix(".part")  # removed by the next writer, should this one die
    scratch.write_bytes(offsets.astype("<u8").tobytes() + codes)
    sync_file(scratch)
    scratch.replace(path)


def _read(file: _TermsFile) -> tuple[np.ndarray, np.ndarray]:
    """The offsets and the codes of a file, memory-mapped."""
    data = np.memmap(file.path, np.uint8, "r").view(np.ndarray)
    head = 8 * (file.size + 1)
    offsets = data[:head].view("<u8")
    if len(data) < head or len(data) != head + _CODE * int(offsets[-1]):
        raise IndexDamaged(
            f"{file.path} has the wrong size. Make the lexical index again with `mundap verify --repair`, or "
            "everything with `mundap index --fresh`."
        )
    return offsets, data[head:].reshape(-1, _CODE)


class Terms:
    """The terms of the passages in a folder, for reading."""

    def __init__(self, folder: Path) -> None:
        self._files = terms_files(folder)
        self._firsts = np.array([file.first for file in self._files], np.int64)
        self._parts = [_read(file) for file in self._files]

    def __bool__(self) -> bool:
        return bool(self._files)

    def frequencies(self, numbers: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How often each passage has each of the terms, given by their codes; and the length of each passage.

        Returns:
            A matrix, passages x terms, and the lengths, 0 for a passage that is not known.
        """
        counts = np.zeros((len(numbers), len(wanted)), np.float32)
        lengths = np.zeros(len(numbers), np.int64)
        owner = np.searchsorted(self._firsts, numbers.astype(np.int64), "right") - 1
        for position in np.unique(owner[owner >= 0]).tolist():
            file, (offsets, codes) = self._files[position], self._parts[position]
            rows = numbers.astype(np.int64) - file.first
            mine = np.flatnonzero((owner == position) & (rows < file.size))
            starts = offsets[rows[mine]].astype(np.int64)
            lengths[mine] = offsets[rows[mine] + 1].astype(np.int64) - starts
            counts[mine] = count_codes(codes, starts, lengths[mine], wanted)
        return counts, lengths


def count_codes(codes: np.ndarray, starts: np.ndarray, lengths: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """How often each of the wanted codes is in each of some stretches of codes."""
    before = np.cumsum(lengths) - lengths
    places = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    # Nearly all words are none of the question's, which the first byte of their code tells.
    possible = np.zeros(256, bool)
    possible[wanted & np.uint32(255)] = True
    chosen = np.flatnonzero(possible[codes[places, 0]])
    found = _as_numbers(codes[places[chosen]])
    rows = np.searchsorted(before + lengths, chosen, "right")
    order = np.argsort(wanted)
    column = np.minimum(np.searchsorted(wanted, found, sorter=order), len(wanted) - 1)
    hit = wanted[order][column] == found
    cells = rows[hit] * len(wanted) + order[column[hit]]
    return (
        np.bincount(cells, minlength=len(lengths) * len(wanted)).reshape(len(lengths), len(wanted)).astype(np.float32)
    )
