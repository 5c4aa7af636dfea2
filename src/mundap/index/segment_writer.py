"""Writes a segment: the other side of `segment.py`, which says what its files are."""

import contextlib
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from mundap.disk import checksums_on_disk
from mundap.errors import ModelError
from mundap.index.layout import LayoutWriter
from mundap.index.manifest import FileEntry, SegmentEntry
from mundap.index.segment import DOCUMENT, KEY, PASSAGE, SOURCE, VECTOR, Segment, SourceState, key_hash
from mundap.records import Document
from mundap.text.sections import passage_titles

_CHUNK = 8 << 20


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
        self._vectors: IO[bytes] | None = None
        if dimension:
            self._vectors = (self.folder / "vectors.bin").open("wb")
        self._offsets: list[int] = [0]
        self._documents: list[tuple[int, int, bool]] = []
        self._passages: list[tuple[int, int, int, int, int]] = []
        self._keys: list[tuple[int, int]] = []
        self._sources: list[SourceState] = []
        self._source_firsts: list[int] = []
        self._numbers: list[int] | None = None
        self._layout = LayoutWriter()
        self._vector_rows = 0

    def __len__(self) -> int:
        return len(self._passages)

    @property
    def size(self) -> int:
        """Bytes of text so far."""
        return self._offsets[-1]

    def _join_source(self, state: SourceState, first: int) -> int:
        """Add a source, or bring the last one up to date if this is the rest of it."""
        if self._sources and self._sources[-1].source == state.source:
            self._sources[-1] = state
        else:
            self._sources.append(state)
            self._source_firsts.append(first)
        return len(self._sources) - 1

    def begin_source(self, state: SourceState) -> None:
        """All documents from here on come from this source, until the next call."""
        self._join_source(state, len(self._documents))

    def end_source(self, documents: int, skipped: int, done: bool, digest: bytes = b"") -> None:
        """Record how far the current source was read, how much was unusable, and its digest if known."""
        state = self._sources[-1]._replace(documents=documents, skipped=skipped, done=done)
        self._sources[-1] = state._replace(digest=digest) if digest else state

    def add(
        self, document: Document, spans: Sequence[tuple[int, int]], languages: Sequence[str], key: int
    ) -> list[tuple[str, str]]:
        """Add a document under the hash of its id, and its passages; returns (title, text) of each."""
        row = len(self._documents)
        facts = "{}"
        if document.metadata:
            facts = json.dumps(dict(document.metadata), ensure_ascii=False, sort_keys=True)
        whole = document.text.encode()
        self._strings([document.id.encode(), document.title.encode(), facts.encode(), whole])
        self._documents.append((len(self._passages), len(self._sources) - 1, document.whole))
        self._keys.append((key, row))
        self._keys += [(key_hash("meta", f"{key}={value}"), row) for key, value in document.metadata.items()]
        self._layout.add(document.blocks, languages)
        texts = []
        ascii_only = len(whole) == len(document.text)
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
        return list(zip(passage_titles(document, spans), texts, strict=True))

    def add_vectors(self, vectors: np.ndarray) -> None:
        """Append the vectors of the passages added since the last call."""
        if self._vectors is None:
            raise ValueError("an index without a model takes no vectors")
        rows = np.ascontiguousarray(vectors, VECTOR)
        if not np.isfinite(rows).all():
            raise ModelError("the model gives vectors that are not numbers. Export it again, or use another.")
        self._vectors.write(rows.tobytes())
        self._vector_rows += len(vectors)

    def copy(self, segment: Segment, keep: np.ndarray) -> None:
        """Append another segment's rows where `keep` is true, whole documents at a time.

        All arithmetic is on whole tables, since merging goes over every passage several times in its life.
        """
        kept = np.zeros(len(segment.documents), bool)
        kept[segment.passages["document"][keep]] = True
        documents = np.flatnonzero(kept)
        renumbered = np.cumsum(kept) - 1 + len(self._documents)
        table = segment.documents[documents].copy()
        table["source"] = self._copy_sources(segment, table["source"])
        table["first"] = np.cumsum(keep)[table["first"]] - 1 + len(self._passages)
        passages = segment.passages[keep].copy()
        passages["document"] = renumbered[passages["document"]]
        keys = segment.keys_of_documents()
        keys = keys[kept[keys["row"]]]
        keys["row"] = renumbered[keys["row"]]
        for first, last in _runs(documents):
            offsets = segment.copy_strings(first, last, self._blob).astype(np.int64)
            self._offsets += (offsets[1:] - offsets[0] + self._offsets[-1]).tolist()
        self._documents += table.tolist()
        self._passages += passages.tolist()
        self._keys += keys.tolist()
        self._layout.copy(segment.layout, documents.tolist(), keep)
        self._numbers = [*(self._numbers or []), *segment.numbers()[keep].tolist()]
        if self._vectors is not None:
            step = max(1, _CHUNK // (2 * self.dimension))
            for start in range(0, len(segment), step):
                self.add_vectors(segment.vectors[start : start + step][keep[start : start + step]])

    def _copy_sources(self, segment: Segment, sources: np.ndarray) -> np.ndarray:
        """The new source of each document. A source without documents is forgotten, and read again if it comes back."""
        renamed = np.zeros(len(sources), np.uint32)
        starts = np.flatnonzero(np.diff(sources.astype(np.int64), prepend=-1))
        for start, end in zip(starts, np.append(starts[1:], len(sources)), strict=False):
            state = segment.source_state(int(sources[start]))
            renamed[start:end] = self._join_source(state, len(self._documents) + int(start))
        return renamed

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
        for name, table in self._tables().items():
            (self.folder / name).write_bytes(table.tobytes())
        files: list[FileEntry] = []
        for name, checksum in checksums_on_disk(self.folder).items():
            path = self.folder / name
            files.append(FileEntry(path.relative_to(self.root).as_posix(), path.stat().st_size, checksum))
        if last is None:
            last = self._last
        return SegmentEntry(self.name, self.first, last, len(self), len(self._documents), tuple(files))

    @property
    def _last(self) -> int:
        return self.first + len(self) - 1

    def _tables(self) -> dict[str, np.ndarray]:
        """The files of fixed rows, by name."""
        keys = np.array(self._keys, KEY)
        sources = [
            (first, state.size, state.modified, state.digest, state.documents, state.skipped, state.done)
            for first, state in zip(self._source_firsts, self._sources, strict=True)
        ]
        tables = {
            "strings.idx": np.array(self._offsets, "<u8"),
            "documents.bin": np.array(self._documents, DOCUMENT),
            "passages.bin": np.array(self._passages, PASSAGE),
            "sources.bin": np.array(sources, SOURCE),
            "keys.bin": keys[np.argsort(keys["hash"], kind="stable")],
            **self._layout.tables(),
        }
        if self._numbers is not None and self._numbers != list(range(self.first, self._last + 1)):
            tables["numbers.bin"] = np.array(self._numbers, "<u8")
        return tables

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


def _runs(rows: np.ndarray) -> Iterator[tuple[int, int]]:
    """Consecutive rows as (first, last)."""
    if len(rows):
        breaks = np.flatnonzero(np.diff(rows) > 1)
        yield from zip(rows[[0, *(breaks + 1)]].tolist(), rows[[*breaks, len(rows) - 1]].tolist(), strict=True)
