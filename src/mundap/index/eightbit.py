"""A copy of the vectors with eight bits a dimension, in the order of the lists of the approximate index.

Codes in memory propose far more candidates than are wanted, and the vectors of a large index do not fit into memory:
reading a thousand of them from disk for every question takes longer than all else. This copy has half the bytes, and
what is near to each other stands together, which more than halves the pages that a question touches. It tells which few
of the candidates are worth reading as they are stored; these decide, so that no score depends on the copy.

    codes      for each vector one byte a dimension, list after list
    places     for each passage number from the first one on its place among the codes (u32), all ones where it has none
    ranges     the lowest value of each dimension, then the width of its range (f4)
    first      the first passage number (u64)
"""

import mmap
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mundap.errors import IndexDamaged
from mundap.index.ahead import Ahead
from mundap.index.corpus import Corpus
from mundap.index.gather import Gather
from mundap.index.manifest import DenseEntry
from mundap.index.segment import Segment, map_file
from mundap.machine import in_threads

_NOWHERE = 0xFFFFFFFF
_REGION = 1 << 29  # bytes that are sorted in memory
_AT_ONCE = 32_768  # vectors


def write(corpus: Corpus, lists: Any, count: int, sample: np.ndarray, until: int, path: Path) -> None:
    """Write the copy of all living vectors.

    Args:
        corpus: Has them.
        lists: The filled lists of the approximate index.
        count: How many lists there are.
        sample: Vectors to take the ranges from.
        until: Beyond all passage numbers.
        path: The file.
    """
    import faiss

    dimension = sample.shape[1]
    quantizer = faiss.ScalarQuantizer(dimension, faiss.ScalarQuantizer.QT_8bit)
    quantizer.train(np.ascontiguousarray(sample, np.float32))
    first = corpus.segments[0].entry.first
    places = _places(lists, count, first, until)

    def encode(block: tuple[Segment, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        segment, rows = block
        return places[segment.numbers_at(rows) - np.uint64(first)], quantizer.compute_codes(
            segment.vectors[rows].astype(np.float32)
        )

    with path.open("w+b") as file:
        file.truncate(len(corpus) * dimension)
        _sort(file, in_threads(encode, _blocks(corpus)), len(corpus), dimension)
        file.seek(0, os.SEEK_END)
        file.write(bytes(-file.tell() % 4))
        file.write(places.tobytes())
        file.write(faiss.vector_to_array(quantizer.trained).astype("<f4").tobytes())
        file.write(np.array([first], "<u8").tobytes())


def _places(lists: Any, count: int, first: int, until: int) -> np.ndarray:
    import faiss

    places = np.full(until - first, _NOWHERE, "<u4")
    start = 0
    for number in range(count):
        size = lists.list_size(number)
        if size:
            places[faiss.rev_swig_ptr(lists.get_ids(number), size) - first] = np.arange(start, start + size)
            start += size
    return places


def _blocks(corpus: Corpus) -> Iterator[tuple[Segment, np.ndarray]]:
    """The rows of the living passages; whoever takes them reads the vectors."""
    for segment in corpus.segments:
        rows = np.flatnonzero(corpus.living(segment))
        for start in range(0, len(rows), _AT_ONCE):
            yield segment, rows[start : start + _AT_ONCE]


def _sort(file: BinaryIO, blocks: Iterator[tuple[np.ndarray, np.ndarray]], rows: int, width: int) -> None:
    """Write rows to their places: first each into the region of the file where it belongs, then region by region."""
    size = max(1, _REGION // width)
    came: list[list[np.ndarray]] = [[] for _ in range(-(-rows // size))]
    filled = [0] * len(came)
    for places, codes in blocks:
        regions = places // size
        order = np.argsort(regions, kind="stable")
        bounds = np.searchsorted(regions[order], np.arange(len(came) + 1))
        for region in np.flatnonzero(np.diff(bounds)).tolist():
            chosen = order[bounds[region] : bounds[region + 1]]
            file.seek((region * size + filled[region]) * width)
            file.write(codes[chosen].data)
            came[region].append(places[chosen] - region * size)
            filled[region] += len(chosen)
    for region, parts in enumerate(came):
        order = np.argsort(np.concatenate(parts))
        start = region * size * width
        file.seek(start)
        there = np.frombuffer(file.read(len(order) * width), np.uint8).reshape(-1, width)
        file.seek(start)
        file.write(there[order].data)


class EightBit:
    """The copy, opened for reading."""

    def __init__(self, root: Path, entry: DenseEntry, dimension: int) -> None:
        assert entry.copy is not None
        self._dimension = dimension
        path = root / entry.copy.path
        try:
            data = map_file(root, entry.copy)
        except IndexDamaged as error:
            raise IndexDamaged(f"{path} is missing or damaged. Run `mundap compact` to make it again.") from error
        codes = entry.passages * dimension
        start = codes + -codes % 4
        span, rest = divmod(len(data) - start - 8 * dimension - 8, 4)
        if rest or not entry.passages <= span <= entry.until:
            raise IndexDamaged(f"{path} has the wrong size. Run `mundap compact` to make it again.")
        if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_RANDOM"):
            data.madvise(mmap.MADV_RANDOM)
        self._codes = np.frombuffer(data, np.uint8, codes).reshape(-1, dimension)
        self._start = np.uint64(self._codes.ctypes.data)
        self._ahead = Ahead()
        self._places = np.frombuffer(data, "<u4", span, start)
        self._ranges = np.frombuffer(data, "<f4", 2 * dimension, start + 4 * span)
        self._first = int.from_bytes(data[-8:], "little")

    def narrowed(self, vectors: np.ndarray, found: np.ndarray, most: int) -> np.ndarray:
        """The best so many of the candidates of each question; -1 where there are fewer, as in what is given."""
        gather = Gather(self._dimension, self._ranges)
        kept = np.full((len(vectors), most), -1, np.int64)
        for vector, numbers, into in zip(vectors, found, kept, strict=True):
            numbers = numbers[numbers >= 0]
            places, out = self._places[numbers - self._first], gather.room(len(numbers))
            self._ahead.read(
                partial(self._addresses, places),
                self._dimension,
                len(places),
                partial(np.take, self._codes, places, axis=0, out=out, mode="clip"),
            )
            best = gather.best(vector, most)[0][:most]
            into[: len(best)] = numbers[best]
        return kept

    def _addresses(self, places: np.ndarray) -> np.ndarray:
        return np.asarray(self._start + places.astype(np.uint64) * np.uint64(self._dimension))
