"""An immutable piece of the index: documents, their passages, their vectors, and look-up by key.

All files are plain arrays and bytes, memory-mapped; opening a segment reads none of them.

    strings.bin     for each document its id, title, metadata (JSON) and text; then the names of the sources
    strings.idx     where each string starts in strings.bin (u64)
    documents.bin   for each document: first passage, source, whether it is a passage already
    passages.bin    for each passage: document, start and end in code points and in bytes
    sources.bin     for each source: first document, size, modification time, digest, how far it was read
    keys.bin        (hash, row) sorted by hash: ids, key=value pairs of the metadata, names of sources
    numbers.bin     passage numbers, only where they are not consecutive (after compaction)
    vectors.bin     float16, one row a passage; missing in an index without a model
"""

import contextlib
import hashlib
import json
import mmap
import shutil
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from mundap.disk import checksum, sync_file, sync_folder
from mundap.errors import IndexDamaged
from mundap.index.manifest import FileEntry, SegmentEntry
from mundap.records import Document, Passage

DOCUMENT = np.dtype([("first", "<u4"), ("source", "<u4"), ("whole", "u1")])
PASSAGE = np.dtype([("document", "<u4"), ("start", "<u4"), ("end", "<u4"), ("left", "<u4"), ("right", "<u4")])
SOURCE = np.dtype(
    [
        ("first", "<u4"),
        ("size", "<u8"),
        ("modified", "<u8"),
        ("digest", "S32"),
        ("documents", "<u8"),
        ("done", "u1"),
    ]
)
KEY = np.dtype([("hash", "<u8"), ("row", "<u4")])
VECTOR = np.dtype("<f2")
_STRINGS = 4  # per document: id, title, metadata, text
_CHUNK = 8 << 20


class SourceState(NamedTuple):
    """A file as it was when it was read, and how far: `documents` counts what it gave, bad rows included."""

    source: str
    size: int
    modified: int
    digest: bytes
    documents: int
    done: bool


def key_hash(kind: str, value: str) -> int:
    """The 64-bit hash under which a key is filed. `kind` keeps ids and metadata apart."""
    return int.from_bytes(hashlib.blake2b(f"{kind}\0{value}".encode(), digest_size=8).digest(), "little")


class Segment:
    """A segment opened for reading."""

    def __init__(self, root: Path, entry: SegmentEntry, dimension: int) -> None:
        self.entry = entry
        self.folder = root / "segments" / entry.name
        self.dimension = dimension
        self._source_names: dict[int, str] = {}
        self._sizes = {Path(file.path).name: file.bytes for file in entry.files}
        for file in entry.files:
            path = root / file.path
            actual = path.stat().st_size if path.exists() else -1
            if actual != file.bytes:
                state = "is missing" if actual < 0 else f"has {actual} bytes and should have {file.bytes}"
                raise IndexDamaged(
                    f"{path} {state}. Restore it from a copy, or build again with `mundap index --fresh`."
                )

    def __len__(self) -> int:
        return self.entry.passages

    def _map(self, name: str, dtype: Any) -> np.ndarray:
        """A file as an array. A plain one over the mapped bytes: numpy's own memmap class is slow to index."""
        return np.frombuffer(self._bytes(name), dtype)

    def _bytes(self, name: str) -> Any:
        if not self._sizes.get(name):
            return b""
        with (self.folder / name).open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    @cached_property
    def _blob(self) -> Any:
        return self._bytes("strings.bin")

    @cached_property
    def _offsets(self) -> np.ndarray:
        return self._map("strings.idx", "<u8")

    @cached_property
    def documents(self) -> np.ndarray:
        """The table of documents."""
        return self._map("documents.bin", DOCUMENT)

    @cached_property
    def passages(self) -> np.ndarray:
        """The table of passages."""
        return self._map("passages.bin", PASSAGE)

    @cached_property
    def _keys(self) -> np.ndarray:
        return self._map("keys.bin", KEY)

    @cached_property
    def key_hashes(self) -> np.ndarray:
        """The hashes of all keys, ascending."""
        return self._keys["hash"]

    @cached_property
    def vectors(self) -> np.ndarray:
        """One row a passage; no rows in an index without a model."""
        return self._map("vectors.bin", VECTOR).reshape(-1, max(self.dimension, 1))

    @cached_property
    def _numbers(self) -> np.ndarray | None:
        return self._map("numbers.bin", "<u8") if "numbers.bin" in self._sizes else None

    def numbers(self) -> np.ndarray:
        """The passage number of every row."""
        if self._numbers is not None:
            return np.asarray(self._numbers)
        return np.arange(self.entry.first, self.entry.first + len(self), dtype=np.uint64)

    def numbers_at(self, rows: Any) -> np.ndarray:
        """The passage numbers of some rows, without making those of all others."""
        if isinstance(rows, range):
            rows = np.arange(rows.start, rows.stop)
        if self._numbers is not None:
            return np.asarray(self._numbers[rows])
        return np.asarray(rows).astype(np.uint64) + np.uint64(self.entry.first)

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """The row of each passage number, -1 where the segment has none."""
        if self._numbers is None:
            rows = numbers.astype(np.int64) - self.entry.first
            return np.where((rows >= 0) & (rows < len(self)), rows, -1)
        rows = np.searchsorted(self._numbers, numbers)
        inside = np.minimum(rows, len(self) - 1)
        return np.where(self._numbers[inside] == numbers, inside, -1)

    def _string(self, position: int) -> bytes:
        left, right = self._offsets[position : position + 2].tolist()
        return bytes(self._blob[left:right])

    def document_id(self, document: int) -> str:
        """A document's id."""
        return self._string(_STRINGS * document).decode()

    def document(self, document: int) -> Document:
        """A document with its whole text."""
        texts = (self._string(_STRINGS * document + part).decode() for part in range(_STRINGS))
        name, title, metadata, text = texts
        row = self.documents[document]
        return Document(name, text, title, self.source(int(row["source"])), json.loads(metadata), bool(row["whole"]))

    def source(self, source: int) -> str:
        """The name of a source."""
        if source not in self._source_names:
            self._source_names[source] = self._string(_STRINGS * len(self.documents) + source).decode()
            if len(self._source_names) > 10_000:
                self._source_names.clear()
                return self.source(source)
        return self._source_names[source]

    @cached_property
    def _sources(self) -> np.ndarray:
        return self._map("sources.bin", SOURCE)

    def source_state(self, source: int) -> SourceState:
        """A source as it was when it was read."""
        _, size, modified, digest, documents, done = self._sources[source].item()
        return SourceState(self.source(source), size, modified, digest.ljust(32, b"\0"), documents, bool(done))

    def sources(self) -> Iterator[SourceState]:
        """Every source of the segment, in the order of its documents."""
        return map(self.source_state, range(len(self._sources)))

    def source_rows(self, source: int) -> range:
        """The rows of all passages from a source: its documents stand together."""
        first = int(self._sources["first"][source])
        last = source + 1 == len(self._sources)
        until = len(self.documents) if last else int(self._sources["first"][source + 1])
        return range(self.passage_rows(first).start, self.passage_rows(until - 1).stop) if until > first else range(0)

    def passage_rows(self, document: int) -> range:
        """The rows of a document's passages."""
        first = int(self.documents["first"][document])
        last = document + 1 == len(self.documents)
        return range(first, len(self) if last else int(self.documents["first"][document + 1]))

    def passage(self, row: int) -> Passage:
        """A passage, read without reading the rest of its document."""
        return self.passages_at(np.array([row]))[0]

    def names_at(self, rows: np.ndarray) -> list[str]:
        """The ids of several passages: the document's, with the passage's position if there are more."""
        documents = self.passages["document"][rows].astype(np.int64)
        last = len(self.documents) - 1
        firsts = self.documents["first"]
        stops = np.where(documents == last, len(self), firsts[np.minimum(documents + 1, last)])
        starts = firsts[documents]
        offsets = self._offsets[documents[:, None] * _STRINGS + np.arange(2)].tolist()
        return [
            self._blob[left:right].decode() + ("" if stop - start == 1 else f"#{row - start + 1}")
            for (left, right), row, start, stop in zip(
                offsets, rows.tolist(), starts.tolist(), stops.tolist(), strict=True
            )
        ]

    def passages_at(self, rows: np.ndarray) -> list[Passage]:
        """Several passages: table look-ups are made for all at once."""
        places = self.passages[rows]
        documents = places["document"].astype(np.int64)
        offsets = self._offsets[documents[:, None] * _STRINGS + np.arange(_STRINGS)].tolist()
        sources = self.documents["source"][documents].tolist()
        found = []
        for name, place, source, marks in zip(self.names_at(rows), places.tolist(), sources, offsets, strict=True):
            _, start, end, left, right = place
            name_at, title_at, facts_at, text_at = marks
            facts = self._blob[facts_at:text_at]
            found.append(
                Passage(
                    id=name,
                    document=self._blob[name_at:title_at].decode(),
                    title=self._blob[title_at:facts_at].decode(),
                    text=self._blob[text_at + left : text_at + right].decode(),
                    source=self.source(source),
                    start=start,
                    end=end,
                    metadata={} if facts == b"{}" else json.loads(facts),
                )
            )
        return found

    def _rows_under(self, kind: str, value: str) -> list[int]:
        wanted = np.uint64(key_hash(kind, value))
        left = np.searchsorted(self.key_hashes, wanted, "left")
        right = np.searchsorted(self.key_hashes, wanted, "right")
        return sorted(int(row) for row in self._keys["row"][left:right])

    # Two keys may share a hash, so in each of these the stored text has the last word.

    def find_documents(self, name: str) -> list[int]:
        """Documents with this id."""
        return [row for row in self._rows_under("id", name) if self.document_id(row) == name]

    def find_metadata(self, key: str, value: str) -> list[int]:
        """Documents with this value in their metadata."""
        rows = self._rows_under("meta", f"{key}={value}")
        return [row for row in rows if json.loads(self._string(_STRINGS * row + 2)).get(key) == value]

    def find_sources(self, name: str) -> list[int]:
        """Sources with this name."""
        return [row for row in self._rows_under("source", name) if self.source(row) == name]


class SegmentWriter:
    """Writes a segment into a folder of its own. Nothing refers to it until a manifest does.

    Bulk data goes straight to disk; only a few bytes a passage are held in memory until `close`.
    """

    def __init__(self, root: Path, name: str, first: int, dimension: int) -> None:
        self.root = root
        self.name = name
        self.folder = root / "segments" / name
        shutil.rmtree(self.folder, ignore_errors=True)  # left by a writer that died
        self.folder.mkdir(parents=True)
        self.first = first
        self.dimension = dimension
        self._blob = (self.folder / "strings.bin").open("wb")
        self._vectors: IO[bytes] | None = (self.folder / "vectors.bin").open("wb") if dimension else None
        self._offsets: list[int] = [0]
        self._documents: list[tuple[int, int, bool]] = []
        self._passages: list[tuple[int, int, int, int, int]] = []
        self._keys: list[tuple[int, int]] = []
        self._sources: list[SourceState] = []
        self._source_firsts: list[int] = []
        self._numbers: list[int] | None = None
        self._vector_rows = 0

    def __len__(self) -> int:
        return len(self._passages)

    @property
    def size(self) -> int:
        """Bytes of text so far."""
        return self._offsets[-1]

    def _join_source(self, state: SourceState) -> int:
        """Add a source, or bring the last one up to date if this is the rest of it."""
        if self._sources and self._sources[-1].source == state.source:
            self._sources[-1] = state
        else:
            self._sources.append(state)
            self._source_firsts.append(len(self._documents))
        return len(self._sources) - 1

    def begin_source(self, state: SourceState) -> None:
        """All documents from here on come from this source, until the next call."""
        self._join_source(state)

    def end_source(self, documents: int, done: bool) -> None:
        """Say how far the current source has been read."""
        self._sources[-1] = self._sources[-1]._replace(documents=documents, done=done)

    def add(self, document: Document, spans: Iterable[tuple[int, int]]) -> list[str]:
        """Add a document and its passages; returns the passage texts."""
        row = len(self._documents)
        facts = json.dumps(dict(document.metadata), ensure_ascii=False, sort_keys=True) if document.metadata else "{}"
        self._strings([document.id.encode(), document.title.encode(), facts.encode(), document.text.encode()])
        self._documents.append((len(self._passages), len(self._sources) - 1, document.whole))
        self._keys.append((key_hash("id", document.id), row))
        self._keys += [(key_hash("meta", f"{key}={value}"), row) for key, value in document.metadata.items()]
        texts = []
        ascii_only = document.text.isascii()
        right = end_before = 0
        for start, end in spans:
            text = document.text[start:end]
            if ascii_only:
                left, right = start, end
            elif start >= end_before:
                left = right + len(document.text[end_before:start].encode())
                right = left + len(text.encode())
            else:  # overlapping passages: the start lies inside the one before
                left = right - len(document.text[start:end_before].encode())
                right = left + len(text.encode())
            end_before = end
            self._passages.append((row, start, end, left, right))
            texts.append(text)
        return texts

    def add_vectors(self, vectors: np.ndarray) -> None:
        """Append the vectors of the passages added since the last call."""
        if self._vectors is None:
            raise ValueError("an index without a model takes no vectors")
        self._vectors.write(np.ascontiguousarray(vectors, VECTOR).tobytes())
        self._vector_rows += len(vectors)

    def copy(self, segment: Segment, keep: np.ndarray) -> None:
        """Append another segment's rows where `keep` is true; documents without any are left out."""
        if self._numbers is None:
            self._numbers = []
        self._numbers += segment.numbers()[keep].tolist()
        kept_documents = np.zeros(len(segment.documents), bool)
        kept_documents[segment.passages["document"][keep]] = True
        # A source none of whose documents is left is forgotten, so that the file is read again if it comes back.
        old_source = new_source = -1
        for document in np.flatnonzero(kept_documents):
            row = len(self._documents)
            self._strings([segment._string(_STRINGS * int(document) + part) for part in range(_STRINGS)])
            _, source, whole = segment.documents[document].item()
            if source != old_source:
                old_source, new_source = source, self._join_source(segment.source_state(source))
            self._documents.append((len(self._passages), new_source, bool(whole)))
            self._keys.append((key_hash("id", segment.document_id(int(document))), row))
            metadata = json.loads(segment._string(_STRINGS * int(document) + 2))
            self._keys += [(key_hash("meta", f"{key}={value}"), row) for key, value in metadata.items()]
            for old in segment.passage_rows(int(document)):
                if keep[old]:
                    self._passages.append((row, *segment.passages[old].item()[1:]))
        if self._vectors is not None:
            step = max(1, _CHUNK // (2 * self.dimension))
            for start in range(0, len(segment), step):
                self.add_vectors(segment.vectors[start : start + step][keep[start : start + step]])

    def close(self, last: int | None = None) -> SegmentEntry:
        """Write the tables, flush everything to the disk and describe the segment.

        Args:
            last: The last passage number the segment answers for, when rows were compacted away.
        """
        if self._vectors is not None and self._vector_rows != len(self):
            raise ValueError(f"{len(self)} passages, but {self._vector_rows} vectors")
        for row, state in enumerate(self._sources):
            self._strings([state.source.encode()])
            self._keys.append((key_hash("source", state.source), row))
        self._blob.close()
        if self._vectors is not None:
            self._vectors.close()
        keys = np.array(self._keys, KEY)
        sources = [
            (first, state.size, state.modified, state.digest, state.documents, state.done)
            for first, state in zip(self._source_firsts, self._sources, strict=True)
        ]
        tables = {
            "strings.idx": np.array(self._offsets, "<u8"),
            "documents.bin": np.array(self._documents, DOCUMENT),
            "passages.bin": np.array(self._passages, PASSAGE),
            "sources.bin": np.array(sources, SOURCE),
            "keys.bin": keys[np.argsort(keys["hash"], kind="stable")],
        }
        end = self.first + len(self) - 1
        if self._numbers is not None and self._numbers != list(range(self.first, end + 1)):
            tables["numbers.bin"] = np.array(self._numbers, "<u8")
        for name, table in tables.items():
            (self.folder / name).write_bytes(table.tobytes())
        files = []
        for path in sorted(self.folder.iterdir()):
            sync_file(path)
            files.append(FileEntry(path.relative_to(self.root).as_posix(), path.stat().st_size, checksum(path)))
        sync_folder(self.folder)
        return SegmentEntry(
            self.name,
            self.first,
            end if last is None else last,
            len(self),
            len(self._documents),
            tuple(files),
        )

    def abandon(self) -> None:
        """Throw the unfinished segment away."""
        for file in (self._blob, self._vectors):
            with contextlib.suppress(OSError):  # a full disk refuses even the last buffered bytes
                if file is not None:
                    file.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _strings(self, parts: Sequence[bytes]) -> None:
        self._blob.write(b"".join(parts))
        end = self._offsets[-1]
        for part in parts:
            end += len(part)
            self._offsets.append(end)
