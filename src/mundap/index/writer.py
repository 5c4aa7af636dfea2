"""The one writer of an index: it holds the lock, makes segments, and commits by renaming the manifest.

The order that makes every crash harmless: segment files, then the lexical index, then the manifest.
Work in progress has a manifest of its own, so that a killed build goes on where it was; only the last step,
renaming, changes what readers see. Whatever neither manifest lists is swept away by the next writer.
"""

import contextlib
import itertools
import re
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from filelock import FileLock, Timeout

from mundap.disk import checksum, disk_errors, sync_file, write_atomic
from mundap.errors import IndexDamaged, IndexLocked, IndexMissing, UsageError
from mundap.index import dense
from mundap.index.analyzer import Analyzer
from mundap.index.corpus import Corpus
from mundap.index.lexical import Lexical, LexicalWriter
from mundap.index.manifest import COMMITTED, IN_PROGRESS, DenseEntry, FileEntry, Manifest, Settings
from mundap.index.segment import Segment, SourceState, key_hash
from mundap.index.segment_writer import SegmentWriter
from mundap.machine import cores
from mundap.models.encoder import Encoder
from mundap.records import Document
from mundap.version import __version__

CHECKPOINT_SECONDS = 15.0
CHECKPOINT_PASSAGES = 250_000
CHECKPOINT_BYTES = 256 << 20
LARGEST_MERGED = 250_000
_ENCODE_AT_ONCE = 512
_MANIFESTS = (COMMITTED, IN_PROGRESS)
# What the sweeper may touch: names that only we give.
_OUR_FILE = re.compile(
    r"(deleted-[0-9-]+\.bin|manifest(\.next)?\.json)\.tmp|deleted-\d{6}-\d{6}-\d+\.bin|dense-\d{6}\.faiss"
)
_OUR_LEXICAL = re.compile(r"lexical-\d{6}")
_OUR_SEGMENT = re.compile(r"\d{6}")


class Writer:
    """Opens an index for writing. Use it as a context manager; `commit` makes the changes visible.

    Args:
        root: The index directory.
        settings: What to make a new index with; None to change an existing one.
        encoder: The model, for an index with vectors.
        job: What is being done; work left behind by a killed process is taken up only for the same job.
        fresh: Start from nothing. The old state stays in sight until the new one is committed.
    """

    def __init__(
        self,
        root: Path,
        settings: Settings | None = None,
        encoder: Encoder | None = None,
        job: dict[str, Any] | None = None,
        fresh: bool = False,
    ) -> None:
        self.root = root
        self.encoder = encoder
        self.fresh = fresh
        self.tick: Callable[[], None] = lambda: None
        if settings is None and not (root / COMMITTED).exists():
            Manifest.load(root)  # raises the right error
        _refuse_foreign(root)
        with disk_errors(root):
            root.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(root / "lock")
            try:
                self._lock.acquire(blocking=False)
            except Timeout:
                raise IndexLocked(
                    f"another process is writing to {root}. Wait until it is done, or stop it; then try again."
                ) from None
        try:
            self._open(settings, job or {})
        except BaseException:
            self._lock.release()
            raise

    def _open(self, settings: Settings | None, job: dict[str, Any]) -> None:
        self.committed: Manifest | None = None
        try:
            self.committed = Manifest.load(self.root)
        except IndexMissing:
            pass
        except IndexDamaged:
            if not self.fresh:
                raise
        self.manifest, self.resumed = self._starting_point(settings, job)
        self.analyzer = Analyzer(self.manifest.settings.language, self.manifest.settings.hangul)
        self.corpus = Corpus(self.root, self.manifest)
        self._segment: SegmentWriter | None = None
        self._segment_ids: dict[int, str] = {}  # hash of a document's id, and its source
        self._source = ""
        self._deleted: set[int] = set()  # beyond what the manifest lists
        self._waiting: list[tuple[str, str]] = []  # passages of the segment that have no vector yet
        self._checkpointed = time.monotonic()
        self._changed = self.resumed or self.fresh
        with disk_errors(self.root):
            self._lexical = LexicalWriter(
                self.root / self.manifest.lexical, self.analyzer, cores(), create=not self.manifest.segments
            )
            self._sweep()
            if self.resumed:
                self._lexical.delete_between(self.manifest.next_number)
            elif not self.fresh:
                self._clean_lexical()

    def _starting_point(self, settings: Settings | None, job: dict[str, Any]) -> tuple[Manifest, bool]:
        old = self.committed
        if job:
            with contextlib.suppress(IndexMissing, IndexDamaged):
                unfinished = Manifest.load(self.root, IN_PROGRESS)
                same = unfinished.generation == (old.generation if old else 0)
                if unfinished.job == job and same and settings in (None, unfinished.settings):
                    Corpus(self.root, unfinished)  # damaged work is not taken up
                    return unfinished, True
        (self.root / IN_PROGRESS).unlink(missing_ok=True)
        if old and not self.fresh:
            return old.with_changes(job=job), False
        if settings is None:
            raise IndexMissing(f"no index in {self.root}")
        new = Manifest(settings, self._new_lexical(), job=job)
        if old:  # numbers and names of the old state are still in use until the commit
            new = new.with_changes(
                generation=old.generation, next_number=old.next_number, next_segment=old.next_segment
            )
        return new, False

    def _new_lexical(self) -> str:
        """A name for a lexical index that no other has, dead ones included."""
        return next(name for n in itertools.count() if not (self.root / (name := f"lexical-{n:06d}")).exists())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._segment is not None:
                self._segment.abandon()
            self._lexical.close()
        finally:
            self._lock.release()

    # ---------------------------------------------------------------- documents in

    def begin_source(self, state: SourceState) -> None:
        """Documents added from here on come from this source."""
        if self._segment is None:
            name = f"{self.manifest.next_segment:06d}"
            self.manifest = self.manifest.with_changes(next_segment=self.manifest.next_segment + 1)
            with disk_errors(self.root):
                self._segment = SegmentWriter(
                    self.root, name, self.manifest.next_number, self.manifest.settings.dimension
                )
            self._segment_ids.clear()
        self._segment.begin_source(state)
        self._source = state.source

    def end_source(self, documents: int, skipped: int, done: bool) -> None:
        """Say how many documents of the source have been read, how many were no good, and whether that was all."""
        if self._segment is not None:
            self._segment.end_source(documents, skipped, done)

    def taken(self, names: Sequence[str]) -> list[str | None]:
        """For each document id the source that has it already, or None."""
        hashes = np.array([key_hash("id", name) for name in names], np.uint64)
        result: list[str | None] = [None] * len(names)
        for segment in self.corpus.segments:
            known = segment.key_hashes
            if not len(known):
                continue
            nearest = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
            for suspect in np.flatnonzero(known[nearest] == hashes).tolist():
                for document in segment.find_documents(names[suspect]):
                    first = segment.numbers_at(segment.passage_rows(document)[:1])
                    if int(first[0]) not in self._deleted and self.corpus.alive(first)[0]:
                        result[suspect] = segment.source(int(segment.documents["source"][document]))
        for position, hashed in enumerate(hashes.tolist()):
            result[position] = result[position] or self._segment_ids.get(hashed)
        return result

    def add(self, document: Document, spans: Iterable[tuple[int, int]]) -> int:
        """Add a document with its passages; returns how many there are."""
        if self._segment is None:
            raise ValueError("begin_source comes first")
        number = self._segment.first + len(self._segment)
        key = key_hash("id", document.id)
        self._segment_ids[key] = self._source
        texts = self._segment.add(document, spans, key)
        for text in texts:
            self._lexical.add(number, document.title, text)
            number += 1
        if self.encoder is not None:
            self._waiting += [(document.title, text) for text in texts]
            while len(self._waiting) >= _ENCODE_AT_ONCE:
                self._encode(_ENCODE_AT_ONCE)
        self._changed = True
        return len(texts)

    def _encode(self, count: int) -> None:
        if self.encoder is not None and self._segment is not None and self._waiting:
            self._segment.add_vectors(self.encoder.encode_passages(self._waiting[:count]))
            del self._waiting[:count]
            self.tick()

    @property
    def deleting(self) -> bool:
        """Whether there are deletions that no checkpoint has recorded yet."""
        return bool(self._deleted)

    def delete(self, numbers: np.ndarray) -> int:
        """Take passages away."""
        before = len(self._deleted)
        self._deleted.update(numbers[self.corpus.alive(numbers)].tolist())
        self._changed = self._changed or len(self._deleted) > before
        return len(self._deleted) - before

    # ---------------------------------------------------------------- commits

    def checkpoint_due(self) -> bool:
        """Whether enough has been done that it would be a pity to lose it."""
        segment = self._segment
        return segment is not None and (
            len(segment) >= CHECKPOINT_PASSAGES
            or segment.size >= CHECKPOINT_BYTES
            or time.monotonic() - self._checkpointed >= CHECKPOINT_SECONDS
        )

    def checkpoint(self) -> None:
        """Make the work so far survive a crash, without showing it to readers."""
        with disk_errors(self.root):
            if self._segment is not None:
                while self._waiting:
                    self._encode(_ENCODE_AT_ONCE)
                if len(self._segment):
                    entry = self._segment.close()
                    self._lexical.commit()
                    self.manifest = self.manifest.with_changes(
                        segments=(*self.manifest.segments, entry), next_number=entry.last + 1
                    )
                else:
                    self._segment.abandon()
                self._segment = None
            self._write_deleted()
            self._reopen()
            self._merge_tail()
            self.manifest.save(self.root, IN_PROGRESS)
            self._sweep()
        self._checkpointed = time.monotonic()

    def commit(self) -> bool:
        """Show the changes to readers, in one step; returns whether there were any."""
        if not self._changed and self.committed is not None:
            (self.root / IN_PROGRESS).unlink(missing_ok=True)
            return False
        self.checkpoint()
        with disk_errors(self.root):
            self._refresh_dense()
            self.manifest = self.manifest.with_changes(
                generation=self._next_generation, job={}, tool=f"mundap {__version__}"
            )
            self.manifest.save(self.root, COMMITTED)
            (self.root / IN_PROGRESS).unlink(missing_ok=True)
            self.committed = self.manifest
            self._sweep()
            self._clean_lexical()
        self._changed = False
        return True

    def compact(self) -> None:
        """Rewrite all segments without what was deleted, as few and as large as is sensible."""
        with disk_errors(self.root):
            groups: list[list[Segment]] = []
            for segment in self.corpus.segments:
                if groups and sum(map(len, groups[-1])) + len(segment) <= LARGEST_MERGED:
                    groups[-1].append(segment)
                else:
                    groups.append([segment])
            for group in groups:
                if len(group) > 1 or not all(self.corpus.living(segment).all() for segment in group):
                    self._merge(group)
            self.manifest = self.manifest.with_changes(dense=None, lexical=self._new_lexical())
            self._reopen()
            # Tantivy counts deleted passages in its document frequencies; only writing it anew rids it of them.
            self._lexical.close()
            folder = self.root / self.manifest.lexical
            self._lexical = LexicalWriter(folder, self.analyzer, cores(), create=True)
            for number, passage in self.corpus.passages():
                self._lexical.add(number, passage.title, passage.text)
            self._lexical.commit()
        self._changed = True

    def _merge_tail(self) -> None:
        """Join the newest segments while the one before is not much larger: few segments, little copying."""
        while len(self.corpus.segments) > 1:
            before, last = self.corpus.segments[-2:]
            if len(before) > 4 * len(last) or len(before) + len(last) > LARGEST_MERGED:
                return
            self._merge([before, last])

    def _merge(self, group: list[Segment]) -> None:
        name = f"{self.manifest.next_segment:06d}"
        writer = SegmentWriter(self.root, name, group[0].entry.first, self.manifest.settings.dimension)
        for segment in group:
            writer.copy(segment, self.corpus.living(segment))
        names = {segment.entry.name for segment in group}
        left = [entry for entry in self.manifest.segments if entry.name not in names]
        if len(writer):
            left.append(writer.close(last=group[-1].entry.last))
        else:
            writer.abandon()
        self.manifest = self.manifest.with_changes(
            segments=tuple(sorted(left, key=lambda entry: entry.first)),
            next_segment=self.manifest.next_segment + 1,
        )
        self._write_deleted()
        self._reopen()

    def _write_deleted(self) -> None:
        """Write the tombstones that still have something to cover."""
        numbers = np.union1d(self.corpus.deleted, np.array(sorted(self._deleted), np.uint64)).astype("<u8")
        listed = Corpus(self.root, self.manifest.with_changes(deleted=None)).alive(numbers)
        numbers = numbers[listed]
        self._deleted.clear()
        if not len(numbers):
            self.manifest = self.manifest.with_changes(deleted=None)
        elif not np.array_equal(numbers, self.corpus.deleted) or self.manifest.deleted is None:
            path = (
                self.root / f"deleted-{self._next_generation:06d}-{self.manifest.next_segment:06d}-{len(numbers)}.bin"
            )
            write_atomic(path, numbers.tobytes())
            self.manifest = self.manifest.with_changes(deleted=self._entry(path))

    def _refresh_dense(self) -> None:
        """Make the approximate index again if it has fallen behind; small gaps are scanned instead."""
        settings, entry = self.manifest.settings, self.manifest.dense
        kind = dense.kind_for(settings.dense, len(self.corpus))
        if not settings.dimension or kind == "exact" or not len(self.corpus):
            self.manifest = self.manifest.with_changes(dense=None)
            return
        if entry and entry.kind == kind:
            gap = sum(int((segment.numbers() >= entry.until).sum()) for segment in self.corpus.segments)
            if gap <= max(dense.EXACT_UP_TO // 2, entry.passages // 10) and len(self.corpus) > entry.passages // 2:
                return
        path = self.root / f"dense-{self._next_generation:06d}.faiss"
        dense.build(self.corpus, kind, path)
        sync_file(path)
        made = DenseEntry(self._entry(path), kind, self.manifest.next_number, len(self.corpus))
        self.manifest = self.manifest.with_changes(dense=made)

    # ---------------------------------------------------------------- housekeeping

    @property
    def _next_generation(self) -> int:
        """In the names of new files, so that none is ever written over one that readers use."""
        return (self.committed.generation if self.committed else 0) + 1

    def _entry(self, path: Path) -> FileEntry:
        return FileEntry(path.relative_to(self.root).as_posix(), path.stat().st_size, checksum(path))

    def _reopen(self) -> None:
        self.corpus = Corpus(self.root, self.manifest)

    def _clean_lexical(self) -> None:
        """Take out of the lexical index what is not listed: deleted passages, and leftovers of a dead writer.

        Only done when the manifest is the committed one: nobody needs them, and a crash here is harmless.
        """
        folder = self.root / self.manifest.lexical
        known = len(Lexical(folder, self.analyzer))
        if known < len(self.corpus):
            raise IndexDamaged(
                f"{folder} knows {known} of {len(self.corpus)} passages. Build again with `mundap index --fresh`."
            )
        if known == len(self.corpus):
            return
        expected = 0
        for segment in self.corpus.segments:
            numbers = segment.numbers().astype(np.int64)
            for gap in np.flatnonzero(np.diff(numbers, prepend=expected - 1) > 1):
                self._lexical.delete_between(int(numbers[gap - 1]) + 1 if gap else expected, int(numbers[gap]) - 1)
            expected = int(numbers[-1]) + 1
        self._lexical.delete_between(expected)
        self._lexical.delete(self.corpus.deleted.tolist())
        self._lexical.commit()

    def _sweep(self) -> None:
        """Remove files that neither the committed state nor the work in progress lists."""
        files: set[str] = set()
        lexical: set[str] = set()
        segments = {self._segment.name} if self._segment is not None else set()
        for manifest in (self.committed, self.manifest):
            if manifest is not None:
                files |= {entry.path for entry in manifest.files()}
                segments |= {entry.name for entry in manifest.segments}
                lexical.add(manifest.lexical)
        for path in self.root.iterdir():
            if _OUR_FILE.fullmatch(path.name) and path.name not in files:
                path.unlink()
            elif _OUR_LEXICAL.fullmatch(path.name) and path.name not in lexical:
                shutil.rmtree(path, ignore_errors=True)
        for folder in (self.root / "segments").glob("*"):
            if _OUR_SEGMENT.fullmatch(folder.name) and folder.name not in segments:
                shutil.rmtree(folder, ignore_errors=True)


def _refuse_foreign(root: Path) -> None:
    """Never take over a folder that holds something else."""
    if root.exists() and not root.is_dir():
        raise UsageError(f"{root} is a file. Choose a folder for the index.")
    if not root.is_dir() or any((root / name).exists() and _is_manifest(root / name) for name in _MANIFESTS):
        return
    known = ("lock", "segments", *_MANIFESTS)
    foreign = [
        path
        for path in root.iterdir()
        if path.name not in known and not _OUR_FILE.fullmatch(path.name) and not _OUR_LEXICAL.fullmatch(path.name)
    ]
    foreign += [path for path in (root / "segments").glob("*") if not _OUR_SEGMENT.fullmatch(path.name)]
    if foreign:
        raise UsageError(f"{root} is not empty and is not an index ({foreign[0].name}). Choose another folder with -o.")


def _is_manifest(path: Path) -> bool:
    """Whether a file called a manifest is one of ours: whole or not, of this format or another."""
    try:
        return b'"format"' in path.read_bytes()[:64]
    except OSError:
        return False
