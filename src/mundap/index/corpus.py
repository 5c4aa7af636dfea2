"""The passages of one state of the index: segments, tombstones, and the way from a number to a passage."""

import random
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import numpy as np

from mundap.index.manifest import Manifest
from mundap.index.matching import Filters as Filters
from mundap.index.matching import matching_passages
from mundap.index.segment import VECTOR, Segment, SourceState, map_file
from mundap.records import Document, Passage

_FEW = 2**15


class Corpus:
    """Passages by number, document and key. Opening it reads no passage."""

    def __init__(self, root: Path, manifest: Manifest) -> None:
        self.segments = [Segment(root, entry, manifest.settings.dimension) for entry in manifest.segments]
        self._firsts = np.array([segment.entry.first for segment in self.segments], np.uint64)
        self._lengths = np.array([len(segment) for segment in self.segments], np.int64)
        self._uneven = [at for at, segment in enumerate(self.segments) if not segment.consecutive]
        self.deleted = np.empty(0, np.uint64)
        if manifest.deleted:
            self.deleted = np.frombuffer(map_file(root, manifest.deleted), "<u8")

    def __len__(self) -> int:
        """Living passages."""
        return sum(map(len, self.segments)) - len(self.deleted)

    @cached_property
    def documents(self) -> int:
        """Living documents."""
        total = sum(segment.entry.documents for segment in self.segments)
        return total - sum(len(documents) for _, documents in self._deleted_documents())

    def _deleted_documents(self) -> Iterator[tuple[Segment, np.ndarray]]:
        for segment in self.segments if len(self.deleted) else ():
            rows = segment.rows(self.deleted)
            yield segment, np.unique(segment.passages["document"][rows[rows >= 0]])

    def alive(self, numbers: np.ndarray) -> np.ndarray:
        """Whether each passage number is listed and not deleted."""
        listed = np.zeros(len(numbers), bool)
        for where, rows, _ in self._locate(numbers):
            listed[where] = rows >= 0
        return np.asarray(listed & ~in_sorted(self.deleted, numbers))

    def living(self, segment: Segment) -> np.ndarray:
        """A mask of the segment's rows that are not deleted."""
        mask = np.ones(len(segment), bool)
        rows = segment.rows(self.deleted)
        mask[rows[rows >= 0]] = False
        return mask

    def _locate(self, numbers: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, Segment]]:
        """Yield for each segment concerned: which of the numbers are its, and their rows."""
        owner = np.searchsorted(self._firsts, numbers, "right") - 1
        order = np.argsort(owner, kind="stable")
        bounds = np.searchsorted(owner[order], np.arange(len(self.segments) + 1))
        for position in np.flatnonzero(np.diff(bounds)).tolist():
            where = order[bounds[position] : bounds[position + 1]]
            segment = self.segments[position]
            yield where, segment.rows(numbers[where]), segment

    def passages_at(self, numbers: np.ndarray) -> list[Passage]:
        """The passages with these numbers."""
        found: dict[int, Passage] = {}
        for where, rows, segment in self._locate(numbers):
            found.update(zip(where.tolist(), segment.passages_at(rows), strict=True))
        return [found[position] for position in range(len(numbers))]

    def names_at(self, numbers: np.ndarray) -> list[str]:
        """The ids of the passages with these numbers."""
        found: dict[int, str] = {}
        for where, rows, segment in self._locate(numbers):
            found.update(zip(where.tolist(), segment.names_at(rows), strict=True))
        return [found[position] for position in range(len(numbers))]

    def vectors(self, numbers: np.ndarray) -> np.ndarray:
        """The stored vectors of these passages, as float32."""
        dimension = 0
        if self.segments:
            dimension = self.segments[0].dimension
        stored = np.empty((len(numbers), dimension), VECTOR)
        owners, rows = self.places(numbers)
        order = np.argsort(owners, kind="stable")
        self.read_vectors(owners[order], rows[order], stored)
        floats = np.empty(stored.shape, np.float32)
        floats[order] = stored
        return floats

    def places(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The position of the segment of each passage number, and its row there, -1 where none lists it."""
        if not self.segments:
            return np.zeros(len(numbers), np.int16), np.full(len(numbers), -1)
        owners = np.searchsorted(self._firsts, numbers, "right") - 1
        if len(self.segments) <= _FEW:
            owners = owners.astype(np.int16)  # which is sorted far quicker
        rows = (numbers - self._firsts[owners]).astype(np.int64)
        rows[(rows >= self._lengths[owners]) | (owners < 0)] = -1
        for position in self._uneven:
            here = owners == position
            rows[here] = self.segments[position].rows(numbers[here])
        return owners, rows

    def living_places(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Whether each passage number is listed and not deleted, and the places of those that are."""
        owners, rows = self.places(numbers)
        living = (rows >= 0) & ~in_sorted(self.deleted, numbers)
        if living.all():
            return living, owners, rows
        return living, owners[living], rows[living]

    def addresses(self, owners: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Where in memory the stored vectors at some places begin, whether they have been read or not."""
        width = VECTOR.itemsize * self.segments[0].dimension
        return np.asarray(self._addresses[owners] + rows.astype(np.uint64) * np.uint64(width))

    @cached_property
    def _addresses(self) -> np.ndarray:
        return np.array([segment.vectors.ctypes.data for segment in self.segments], np.uint64)

    def read_vectors(self, owners: np.ndarray, rows: np.ndarray, out: np.ndarray) -> None:
        """Write the stored vectors at some places, those of a segment next to each other, to an array."""
        bounds = np.searchsorted(owners, np.arange(len(self.segments) + 1))
        for position in np.flatnonzero(np.diff(bounds)).tolist():
            here = slice(bounds[position], bounds[position + 1])
            # Clipping, which never happens, is what makes numpy write to `out` without a copy in between.
            np.take(self.segments[position].vectors, rows[here], axis=0, out=out[here], mode="clip")

    def document_owners(self, numbers: np.ndarray) -> np.ndarray:
        """For each passage the number of its document's first passage: the same for all of a document."""
        result = np.zeros(len(numbers), np.uint64)
        for where, rows, segment in self._locate(numbers):
            first = segment.documents["first"][segment.passages["document"][rows]]
            result[where] = segment.numbers_at(first)
        return result

    def find_document(self, name: str) -> tuple[Segment, int] | None:
        """Where the living document with this id is."""
        for segment in reversed(self.segments):
            for document in segment.find_documents(name):
                if self.alive(segment.numbers_at(segment.passage_rows(document)[:1]))[0]:
                    return segment, document
        return None

    def document(self, name: str) -> Document | None:
        """The living document with this id. psgs_w100 ids may carry the prefix `wiki:`."""
        found = self.find_document(name) or self.find_document(name.removeprefix("wiki:"))
        if found:
            return found[0].document(found[1])
        return None

    def find_passage(self, name: str) -> tuple[Segment, int] | None:
        """Where the living passage with this id is: a document's id, or that with `#` and the passage's position."""
        for candidate in (name, name.removeprefix("wiki:")):
            if found := self.find_document(candidate):
                rows = found[0].passage_rows(found[1])
                if len(rows) == 1:
                    return (found[0], rows[0])
                return None
        stem, _, position = name.rpartition("#")
        found = self.find_document(stem)
        if found and position.isascii() and position.isdigit():
            rows = found[0].passage_rows(found[1])
            if len(rows) > 1 and 1 <= int(position) <= len(rows):
                return found[0], rows[int(position) - 1]
        return None

    def numbers_named(self, names: Iterable[str]) -> np.ndarray:
        """The numbers of the living passages with these ids, or of these documents; others are left out."""
        found: list[int] = []
        for name in names:
            place = self.find_passage(name)
            if place is not None:
                found.append(int(place[0].numbers_at([place[1]])[0]))
            elif document := self.find_document(name) or self.find_document(name.removeprefix("wiki:")):
                found += document[0].numbers_at(document[0].passage_rows(document[1])).tolist()
        return np.array(found, np.uint64)

    def numbers_of(self, segment: Segment, documents: np.ndarray) -> np.ndarray:
        """The living passage numbers of some of a segment's documents."""
        chosen = np.zeros(len(segment.documents), bool)
        chosen[documents] = True
        return np.asarray(segment.numbers()[chosen[segment.passages["document"]] & self.living(segment)])

    def numbers_from(self, source: str) -> np.ndarray:
        """The living passage numbers of a source."""
        found = [np.empty(0, np.uint64)]
        for segment in self.segments:
            for row in segment.find_sources(source):
                rows = segment.source_rows(row)
                found.append(segment.numbers_at(rows))
        numbers = np.concatenate(found)
        return np.asarray(numbers[self.alive(numbers)])

    def documents_from(self, source: str) -> Iterator[Document]:
        """The living documents of a source."""
        for segment in self.segments:
            for row in segment.find_sources(source):
                rows = np.array(segment.source_rows(row), np.int64)
                living = rows[self.alive(segment.numbers_at(rows))]
                for document in np.unique(segment.passages["document"][living]).tolist():
                    yield segment.document(document)

    def source_state(self, source: str) -> SourceState | None:
        """How a source was last read, if anything of it is alive."""
        for segment in reversed(self.segments):
            for row in reversed(segment.find_sources(source)):
                rows = segment.source_rows(row)
                if len(rows) and (not len(self.deleted) or self.alive(segment.numbers_at(rows)).any()):
                    return segment.source_state(row)
        return None

    def sources(self) -> Iterator[str]:
        """The name of every source, some perhaps more than once or without living documents."""
        for segment in self.segments:
            for state in segment.sources():
                yield state.source

    def matching(self, filters: Filters) -> np.ndarray:
        """The numbers of all living passages that the filters let through, ascending."""
        found = [np.empty(0, np.uint64)]
        for segment in self.segments:
            mask = matching_passages(segment, filters) & self.living(segment)
            found.append(segment.numbers()[mask])
        return np.concatenate(found)

    def sample(self, count: int, chance: random.Random) -> np.ndarray:
        """A random sample of living passages, as numbers; all if there are fewer."""
        if count >= len(self):
            every = [segment.numbers()[self.living(segment)] for segment in self.segments]
            numbers = np.concatenate([np.empty(0, np.uint64), *every]).tolist()
            chance.shuffle(numbers)
            return np.array(numbers, np.uint64)
        lengths = list(map(len, self.segments))
        found: dict[int, None] = {}
        while len(found) < count:
            segment = chance.choices(self.segments, lengths)[0]
            number = segment.numbers_at([chance.randrange(len(segment))])
            if self.alive(number)[0]:
                found[int(number[0])] = None
        return np.array(list(found), np.uint64)

    def passages(self) -> Iterator[tuple[int, Passage]]:
        """Every living passage with its number, in order."""
        for segment in self.segments:
            numbers = segment.numbers()
            for row in np.flatnonzero(self.living(segment)):
                yield int(numbers[row]), segment.passage(int(row))


def in_sorted(values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Whether each number is among the values, which are ascending."""
    if not len(values):
        return np.zeros(len(numbers), bool)
    position = np.minimum(np.searchsorted(values, numbers), len(values) - 1)
    return np.asarray(values[position] == numbers)
