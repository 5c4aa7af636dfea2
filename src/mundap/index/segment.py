"""An immutable piece of the index: documents, their passages, their vectors, and look-up by key.

All files are plain arrays and bytes, memory-mapped; opening a segment reads none of them.

    strings.bin     for each document its id, title, metadata (JSON) and text; then the names of the sources
    strings.idx     where each string starts in strings.bin (u64)
    documents.bin   for each document: first passage, source, whether it is a passage already
    passages.bin    for each passage: document, start and end in code points and in bytes
    sources.bin     for each source: first document, size, modification time, digest, how far it was read
    keys.bin        (hash, row) sorted by hash: ids, key=value pairs of the metadata, names of sources
    numbers.bin     passage numbers, only where they are not consecutive (after compaction)
    vectors.bin     float16, one row per passage; missing in an index without a model

What the documents are made of is in four more files, see `layout.py`.
"""

import errno
import hashlib
import json
import mmap
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from mundap.errors import IndexDamaged, Message
from mundap.index.layout import Layout
from mundap.index.manifest import FileEntry, SegmentEntry
from mundap.records import Block, Document, Passage
from mundap.text.sections import titles_and_sections

DOCUMENT = np.dtype([("first", "<u4"), ("source", "<u4"), ("whole", "u1")])
PASSAGE = np.dtype([("document", "<u4"), ("start", "<u4"), ("end", "<u4"), ("left", "<u4"), ("right", "<u4")])
SOURCE = np.dtype(
    [
        ("first", "<u4"),
        ("size", "<u8"),
        ("modified", "<i8"),
        ("digest", "S32"),
        ("documents", "<u8"),
        ("skipped", "<u8"),
        ("done", "u1"),
    ]
)
KEY = np.dtype([("hash", "<u8"), ("row", "<u4")])
VECTOR = np.dtype("<f2")
_CURED = "{problem}. Restore it from a copy, or build again with `mundap index --fresh`."
_MADE_AGAIN = (
    "{problem}. Make the lexical index again with `mundap verify --repair`, or everything with `mundap index --fresh`."
)
_CHUNK = 8 << 20
_CHECKED = 64 << 10  # up to here the checksum is compared at every opening: that takes no longer than opening
STRINGS = 4  # per document: id, title, metadata, text


class SourceState(NamedTuple):
    """A file as it was when it was read, and how far: `documents` counts what it gave, bad rows included."""

    source: str
    size: int
    modified: int
    digest: bytes
    documents: int = 0
    skipped: int = 0
    done: bool = False


def key_hash(kind: str, value: str) -> int:
    """The 64-bit hash under which a key is filed. `kind` keeps ids and metadata apart."""
    data = f"{kind}\0{value}".encode(
        "utf-8", "surrogatepass"
    )  # nothing is filed under half a letter, but it may be asked for
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def map_file(root: Path, entry: FileEntry) -> Any:
    """The bytes of a file, memory-mapped.

    Raises:
        IndexDamaged: It is missing, has another size than it should or, if it is small, another content.
    """
    path = root / entry.path
    cured = _CURED
    if entry.path.startswith("lexical-"):
        cured = _MADE_AGAIN
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size != entry.bytes:
                problem = Message("{path} has {size} bytes, not {expected}", path=path, size=size, expected=entry.bytes)
                raise IndexDamaged(cured, problem=problem)
            data: mmap.mmap | bytes = b""
            if size:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            if size <= _CHECKED and hashlib.sha256(data).hexdigest() != entry.sha256:
                raise IndexDamaged(cured, problem=Message("{path} has changed: its checksum is wrong", path=path))
            return data
    except FileNotFoundError:
        raise IndexDamaged(cured, problem=Message("{path} is missing", path=path)) from None
    except PermissionError:
        raise IndexDamaged("{path} cannot be read: permission denied.", path=path) from None
    except OSError as error:
        if error.errno == errno.ENOMEM:  # mapping needs room too, and the message is that of any lack of memory
            raise MemoryError from error
        raise


class Segment:
    """A segment opened for reading."""

    def __init__(self, root: Path, entry: SegmentEntry, dimension: int) -> None:
        self.entry = entry
        self.folder = root / "segments" / entry.name
        self.dimension = dimension
        self._source_names: dict[int, str] = {}
        # All files are mapped now and none is read: a later commit may remove them, and this snapshot goes on.
        self._maps = {Path(file.path).name: map_file(root, file) for file in entry.files}

    def __len__(self) -> int:
        return self.entry.passages

    def expect_single_vectors(self) -> None:
        """Tell the system that vectors are read at random places, so that it does not read ahead."""
        vectors = self._maps.get("vectors.bin")
        if isinstance(vectors, mmap.mmap) and hasattr(mmap, "MADV_RANDOM"):  # not on Windows
            vectors.madvise(mmap.MADV_RANDOM)

    def _map(self, name: str, dtype: Any) -> np.ndarray:
        """A file as an array. A plain one over the mapped bytes: numpy's own memmap class is slow to index."""
        data, row = self._maps.get(name, b""), np.dtype(dtype).itemsize
        if len(data) % row:
            told = "{path} has no whole number of rows of {n} bytes"
            raise IndexDamaged(_CURED, problem=Message(told, path=self.folder / name, n=row))
        return np.frombuffer(data, dtype)

    @cached_property
    def _blob(self) -> Any:
        return self._maps.get("strings.bin", b"")

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
        """One row per passage; no rows in an index without a model."""
        return self._map("vectors.bin", VECTOR).reshape(-1, max(self.dimension, 1))

    @cached_property
    def layout(self) -> Layout:
        """The blocks of the documents and the languages of the passages."""
        return Layout(self._map, self._maps.get("sections.bin", b""))

    @cached_property
    def _numbers(self) -> np.ndarray | None:
        if "numbers.bin" in self._maps:
            return self._map("numbers.bin", "<u8")
        return None

    @property
    def consecutive(self) -> bool:
        """Whether the numbers of its passages leave none out."""
        return "numbers.bin" not in self._maps

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

    def string(self, position: int) -> bytes:
        """One of the stored strings: those of documents, then the sources' names."""
        left, right = self._offsets[position : position + 2].tolist()
        return bytes(self._blob[left:right])

    def document_id(self, document: int) -> str:
        """A document's id."""
        return self.string(STRINGS * document).decode()

    def heading(self, document: int) -> tuple[str, str, dict[str, str]]:
        """A document's id, title and metadata, without its text."""
        name, title, metadata = (self.string(STRINGS * document + part).decode() for part in range(3))
        return name, title, json.loads(metadata)

    def document(self, document: int) -> Document:
        """A document with its whole text."""
        texts = (self.string(STRINGS * document + part).decode() for part in range(STRINGS))
        name, title, metadata, text = texts
        row = self.documents[document]
        source = self.source(int(row["source"]))
        blocks = self.layout.blocks_of(document)
        return Document(name, text, title, source, json.loads(metadata), bool(row["whole"]), blocks)

    def source(self, source: int) -> str:
        """The name of a source."""
        if source not in self._source_names:
            self._source_names[source] = self.string(STRINGS * len(self.documents) + source).decode()
            if len(self._source_names) > 10_000:
                self._source_names.clear()
                return self.source(source)
        return self._source_names[source]

    @cached_property
    def _sources(self) -> np.ndarray:
        return self._map("sources.bin", SOURCE)

    def source_state(self, source: int) -> SourceState:
        """A source as it was when it was read."""
        _, size, modified, digest, documents, skipped, done = self._sources[source].item()
        return SourceState(self.source(source), size, modified, digest.ljust(32, b"\0"), documents, skipped, bool(done))

    def sources(self) -> Iterator[SourceState]:
        """Every source of the segment, in the order of its documents."""
        return map(self.source_state, range(len(self._sources)))

    def source_rows(self, source: int) -> range:
        """The rows of all passages from a source: its documents stand together."""
        first = int(self._sources["first"][source])
        last = source + 1 == len(self._sources)
        if last:
            until = len(self.documents)
        else:
            until = int(self._sources["first"][source + 1])
        if until > first:
            return range(self.passage_rows(first).start, self.passage_rows(until - 1).stop)
        return range(0)

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
        offsets = self._offsets[documents[:, None] * STRINGS + np.arange(2)].tolist()
        return [
            self._blob[left:right].decode() + ("" if stop - start == 1 else f"#{row - start + 1}")
            for (left, right), row, start, stop in zip(
                offsets, rows.tolist(), starts.tolist(), stops.tolist(), strict=True
            )
        ]

    def passages_at(self, rows: np.ndarray) -> list[Passage]:
        """Several passages: table look-ups are made for all at once.

        Raises:
            IndexDamaged: What is stored makes no sense.
        """
        try:
            return self._passages_at(rows)
        except (ValueError, IndexError) as error:
            problem = Message("{path} is damaged ({error})", path=self.folder, error=error)
            raise IndexDamaged(_CURED, problem=problem) from error

    def _passages_at(self, rows: np.ndarray) -> list[Passage]:
        places = self.passages[rows]
        documents = places["document"].astype(np.int64)
        offsets = self._offsets[documents[:, None] * STRINGS + np.arange(STRINGS)].tolist()
        sources = self.documents["source"][documents].tolist()
        blocks_of = [self.layout.blocks_of(document, start, end) for document, start, end, _, _ in places.tolist()]
        titles = [self._blob[title_at:facts_at].decode() for _, title_at, facts_at, _ in offsets]
        headed = titles_and_sections(zip(titles, blocks_of, strict=True))
        found = []
        for row, name, place, source, marks, blocks, (title, section) in zip(
            rows.tolist(), self.names_at(rows), places.tolist(), sources, offsets, blocks_of, headed, strict=True
        ):
            _, start, end, left, right = place
            name_at, title_at, facts_at, text_at = marks
            facts = self._blob[facts_at:text_at]
            found.append(
                Passage(
                    id=name,
                    document=self._blob[name_at:title_at].decode(),
                    title=title,
                    text=self._blob[text_at + left : text_at + right].decode(),
                    source=self.source(source),
                    start=start,
                    end=end,
                    metadata={
                        **self._source_facts(source),
                        **place_facts(blocks, section, self.layout.language(row)),
                        **({} if facts == b"{}" else json.loads(facts)),
                    },
                    blocks=blocks,
                )
            )
        return found

    def _source_facts(self, source: int) -> dict[str, str]:
        """What is known of a passage from its file: the folder and the day of the last change."""
        return source_facts(self.source_state(source))

    def _rows_under(self, kind: str, value: str) -> list[int]:
        wanted = np.uint64(key_hash(kind, value))
        left = np.searchsorted(self.key_hashes, wanted, "left")
        right = np.searchsorted(self.key_hashes, wanted, "right")
        return sorted(int(row) for row in self._keys["row"][left:right])

    def keys_of_documents(self) -> np.ndarray:
        """The table of keys without those of the sources, whose rows are no documents."""
        sources = np.array([key_hash("source", state.source) for state in self.sources()], np.uint64)
        # By sorting: numpy 2.0 may choose a table instead, for which hashes above 2**63 are too large.
        return self._keys[~np.isin(self.key_hashes, sources, kind="sort")].copy()

    def copy_strings(self, first: int, last: int, out: IO[bytes]) -> np.ndarray:
        """Copy the strings of some documents to another file; returns their offsets, including the end."""
        offsets = self._offsets[STRINGS * first : STRINGS * (last + 1) + 1]
        for start in range(int(offsets[0]), int(offsets[-1]), _CHUNK):
            out.write(self._blob[start : min(start + _CHUNK, int(offsets[-1]))])
        return offsets

    # Two keys may share a hash, so in each of these the stored text has the last word.

    def find_documents(self, name: str) -> list[int]:
        """Documents with this id."""
        return [row for row in self._rows_under("id", name) if self.document_id(row) == name]

    def find_metadata(self, key: str, value: str) -> list[int]:
        """Documents with this value in their metadata."""
        rows = self._rows_under("meta", f"{key}={value}")
        return [row for row in rows if json.loads(self.string(STRINGS * row + 2)).get(key) == value]

    def find_sources(self, name: str) -> list[int]:
        """Sources with this name."""
        return [row for row in self._rows_under("source", name) if self.source(row) == name]


def source_facts(state: SourceState) -> dict[str, str]:
    """What a file's name and date say: `folder` and `modified` (a day, in UTC)."""
    facts = {}
    if folder := state.source.rpartition("/")[0]:
        facts["folder"] = folder
    if state.modified > 0:
        facts["modified"] = str(np.datetime64(state.modified // 1_000_000_000, "s"))[:10]
    return facts


def place_facts(blocks: Sequence[Block], section: str, language: str) -> dict[str, str]:
    """What a passage's place says: `section`, `page`, `line` and `language`, as far as they are known."""
    facts = {}
    if section:
        facts["section"] = section
    if blocks and blocks[0].page:
        facts["page"] = str(blocks[0].page)
    if blocks and blocks[0].line:
        facts["line"] = str(blocks[0].line)
    if language:
        facts["language"] = language
    return facts
