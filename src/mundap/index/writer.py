"""The one writer of an index: it holds the lock, makes segments, and commits by renaming the manifest.

The order that makes every crash harmless: segment files, then the lexical index in a folder of its own, then the
manifest. Work in progress has a manifest of its own, so that a killed build goes on where it was; only the last step,
renaming, changes what readers see. Whatever neither manifest lists is swept away by the next writer.
"""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from filelock import FileLock, Timeout

from mundap.disk import cannot_write, checksum, checksums_on_disk, sync_file, write_atomic
from mundap.encoder.runtime import Encoder
from mundap.errors import IndexDamaged, IndexLocked, IndexMissing
from mundap.index import dense, tuning
from mundap.index.analyzer import Analyzer
from mundap.index.corpus import Corpus
from mundap.index.housekeeping import refuse_foreign, sweep
from mundap.index.lexical import LexicalWriter
from mundap.index.lexical import count as lexical_count
from mundap.index.manifest import COMMITTED, IN_PROGRESS, DenseEntry, FileEntry, LexicalEntry, Manifest, Settings
from mundap.index.model import open_encoder
from mundap.index.modes import TANTIVY
from mundap.index.segment import Segment, SourceState, key_hash
from mundap.index.segment_writer import SegmentWriter
from mundap.index.sizes import EXACT_UP_TO
from mundap.machine import cores
from mundap.records import Document
from mundap.version import __version__

CHECKPOINT_SECONDS = 15.0
CHECKPOINT_PASSAGES = 250_000
CHECKPOINT_BYTES = 256 << 20
LARGEST_MERGED = 250_000
_ENCODE_AT_ONCE = 512


class Writer:
    """Opens an index for writing. Use it as a context manager; `commit` makes the changes visible.

    Args:
        root: The index directory.
        settings: What to make a new index with; None to change an existing one.
        encoder: The model, for an index with vectors.
        job: What is being done; work left behind by a killed process is taken up only for the same job.
        fresh: Start from nothing. The old state stays in sight until the new one is committed.
        repair: The lexical index and the approximate one may be damaged: they are to be made again.
    """

    def __init__(
        self,
        root: Path,
        settings: Settings | None = None,
        encoder: Encoder | None = None,
        job: dict[str, Any] | None = None,
        fresh: bool = False,
        repair: bool = False,
    ) -> None:
        self.root = root
        self._repair = repair
        self.encoder = encoder
        self.fresh = fresh
        if settings is None and not (root / COMMITTED).exists():
            Manifest.load(root)  # raises the right error
        refuse_foreign(root)
        try:
            self._lock = self._locked()
            try:
                self._open(settings, job or {})
            except BaseException:
                self._lock.release()
                raise
        except OSError as error:
            raise cannot_write(root, error) from error

    def _locked(self) -> FileLock:
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / "segments").mkdir(exist_ok=True)
        lock = FileLock(self.root / "lock")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise IndexLocked(
                "another process is writing to {path}. Wait until it is done, or stop it; then try again.",
                path=self.root,
            ) from None
        return lock

    def _open(self, settings: Settings | None, job: dict[str, Any]) -> None:
        self.committed: Manifest | None = None
        try:
            self.committed = Manifest.find(self.root, to_change=True)
        except IndexDamaged:
            if not self.fresh:
                raise
        unfinished = self._unfinished(settings, job)
        self.resumed = unfinished is not None
        self.manifest = unfinished or self._beginning(settings, job)
        self.analyzer = Analyzer(self.manifest.settings.language, self.manifest.settings.hangul)
        self.corpus = Corpus(self.root, self.manifest)
        self._segment: SegmentWriter | None = None
        self._segment_ids: dict[int, str] = {}  # hash of a document's id, and its source
        self._source = ""
        self._deleted: set[int] = set()  # beyond what the manifest lists
        self._waiting: list[tuple[str, str]] = []  # passages of the segment that have no vector yet
        self._checkpointed = time.monotonic()
        self._changed = self.resumed or self.fresh
        if self.committed and self.committed.settings.recall != self.manifest.settings.recall:
            self._changed = True
        self._lexical: LexicalWriter | None = None
        if self.committed and self.manifest.lexical == self.committed.lexical and not self._repair:
            self._check_lexical(self.committed.lexical.folder)
        self._sweep()

    def _unfinished(self, settings: Settings | None, job: dict[str, Any]) -> Manifest | None:
        """What a killed process left of the same job, if it is whole; else it is forgotten."""
        if job:
            with contextlib.suppress(IndexDamaged):  # damaged work is not taken up
                found = Manifest.find(self.root, IN_PROGRESS, to_change=True)
                same_base = found is not None and found.generation == self._next_generation - 1
                if found and same_base and found.job == job and settings in (None, found.settings):
                    Corpus(self.root, found)
                    lexical_count(self.root / found.lexical.folder)
                    return found
        (self.root / IN_PROGRESS).unlink(missing_ok=True)
        return None

    def _beginning(self, settings: Settings | None, job: dict[str, Any]) -> Manifest:
        """The committed state, to be changed, or an empty one."""
        old = self.committed
        if old and not self.fresh:
            # Of an index that is there only the recall may be another now: it is tuned again at the commit.
            recall = (settings or old.settings).recall
            return old.with_changes(job=job, settings=replace(old.settings, recall=recall))
        if settings is None:
            raise IndexMissing("no index in {path}", path=self.root)
        new = Manifest(settings, self._new_lexical(), job=job)
        if old:  # numbers and names of the old state are still in use until the commit
            new = new.with_changes(
                generation=old.generation, next_number=old.next_number, next_segment=old.next_segment
            )
        return new

    def _new_lexical(self) -> LexicalEntry:
        """A place for a lexical index that no other has, dead ones included."""
        number = 0
        if self.committed:
            number = int(self.committed.lexical.folder.removeprefix("lexical-")) + 1
        while (self.root / f"lexical-{number:06d}").exists():
            number += 1
        return LexicalEntry(f"lexical-{number:06d}")

    def _writing_lexical(self) -> LexicalWriter:
        """The lexical index of this writer, opened when something is to be written into it."""
        if self._lexical is None:
            base = None
            if self.committed and self.manifest.lexical == self.committed.lexical:
                base = self.root / self.committed.lexical.folder
                self.manifest = self.manifest.with_changes(lexical=self._new_lexical())
            folder = self.root / self.manifest.lexical.folder
            store_terms = self.manifest.settings.bm25 != TANTIVY
            self._lexical = LexicalWriter(folder, self.analyzer, cores(), base, store_terms)
            self._lexical.drop_terms_from(self.manifest.next_number)
            if lexical_count(folder) > len(self.corpus):  # a writer died before it noted what it had added
                self._lexical.delete_between(self.manifest.next_number)
        return self._lexical

    def _check_lexical(self, folder: str) -> None:
        known = lexical_count(self.root / folder)
        if known < len(self.corpus):
            raise IndexDamaged(
                f"{self.root / folder} knows {known} of {len(self.corpus)} passages. Make it again with `mundap verify "
                "--repair`, or build again with `mundap index --fresh`."
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._segment is not None:
                self._segment.abandon()
            if self._lexical is not None:
                self._lexical.close()
        finally:
            self._lock.release()
        if isinstance(error, OSError):
            raise cannot_write(self.root, error) from error

    # ---------------------------------------------------------------- documents in

    def begin_source(self, state: SourceState) -> None:
        """Documents added from here on come from this source."""
        if self._segment is None:
            name = f"{self.manifest.next_segment:06d}"
            self.manifest = self.manifest.with_changes(next_segment=self.manifest.next_segment + 1)
            dimension = self.manifest.settings.dimension
            self._segment = SegmentWriter(self.root, name, self.manifest.next_number, dimension)
            self._segment_ids.clear()
        self._segment.begin_source(state)
        self._source = state.source

    def end_source(self, documents: int, skipped: int, done: bool, digest: bytes = b"") -> None:
        """Record how many documents of the source were read, how many were unusable, and whether it is finished."""
        if self._segment is not None:
            self._segment.end_source(documents, skipped, done, digest)

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

    def add(self, document: Document, spans: Sequence[tuple[int, int]], languages: Sequence[str] = ()) -> int:
        """Add a document with its passages and their languages, if known; returns how many there are."""
        if self._segment is None:
            raise ValueError("begin_source comes first")
        number = self._segment.first + len(self._segment)
        key = key_hash("id", document.id)
        self._segment_ids[key] = self._source
        languages = languages or [""] * len(spans)
        passages = self._segment.add(document, spans, languages, key)
        lexical = self._writing_lexical()
        for (title, text), language in zip(passages, languages, strict=True):
            lexical.add(number, title, text, language)
            number += 1
        if self.encoder is not None:
            self._waiting += passages
            while len(self._waiting) >= _ENCODE_AT_ONCE:
                self._encode(_ENCODE_AT_ONCE)
        self._changed = True
        return len(passages)

    def _encode(self, count: int) -> None:
        if self.encoder is not None and self._segment is not None and self._waiting:
            self._segment.add_vectors(self.encoder.encode_passages(self._waiting[:count]))
            del self._waiting[:count]

    @property
    def deleting(self) -> bool:
        """Whether there are deletions that no checkpoint has recorded yet."""
        return bool(self._deleted)

    def delete(self, numbers: np.ndarray) -> int:
        """Delete passages."""
        before = len(self._deleted)
        self._deleted.update(numbers[self.corpus.alive(numbers)].tolist())
        self._changed = self._changed or len(self._deleted) > before
        return len(self._deleted) - before

    # ---------------------------------------------------------------- commits

    def checkpoint_due(self) -> bool:
        """Whether a checkpoint is due: enough work was done since the last one."""
        segment = self._segment
        return segment is not None and (
            len(segment) >= CHECKPOINT_PASSAGES
            or segment.size >= CHECKPOINT_BYTES
            or time.monotonic() - self._checkpointed >= CHECKPOINT_SECONDS
        )

    def checkpoint(self) -> None:
        """Make the work so far survive a crash, without showing it to readers."""
        if self._segment is not None:
            while self._waiting:
                self._encode(_ENCODE_AT_ONCE)
            if len(self._segment):
                entry = self._segment.close()
                self._writing_lexical().commit()
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
        self._finish_lexical()
        self.manifest = self.manifest.with_changes(
            dense=self._refreshed_dense(), generation=self._next_generation, job={}, tool=f"mundap {__version__}"
        )
        self.manifest.save(self.root, COMMITTED)
        (self.root / IN_PROGRESS).unlink(missing_ok=True)
        self.committed = self.manifest
        self._sweep()
        self._changed = False
        return True

    def compact(self) -> None:
        """Rewrite all segments without deleted passages, as few and as large as is sensible."""
        groups: list[list[Segment]] = []
        for segment in self.corpus.segments:
            if groups and sum(map(len, groups[-1])) + len(segment) <= LARGEST_MERGED:
                groups[-1].append(segment)
            else:
                groups.append([segment])
        for group in groups:
            if len(group) > 1 or not all(self.corpus.living(segment).all() for segment in group):
                self._merge(group)
        self._reopen()
        self.rebuild()

    def rebuild(self) -> None:
        """Make the lexical index and the approximate one again, from the passages and their vectors.

        Tantivy counts deleted passages in its document frequencies; only writing it anew rids it of them.
        """
        if self._lexical is not None:
            self._lexical.close()
            self._lexical = None
        self.manifest = self.manifest.with_changes(dense=None, lexical=self._new_lexical())
        lexical = self._writing_lexical()
        for number, passage in self.corpus.passages():
            lexical.add(number, passage.title, passage.text, passage.metadata.get("language", ""))
        lexical.commit()
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
            name = f"deleted-{self._next_generation:06d}-{self.manifest.next_segment:06d}-{len(numbers)}.bin"
            path = self.root / name
            write_atomic(path, numbers.tobytes())
            self.manifest = self.manifest.with_changes(deleted=self._entry(path))

    def _refreshed_dense(self) -> DenseEntry | None:
        """The approximate index, made again if it has fallen behind; None if the exact one is good enough."""
        settings, entry = self.manifest.settings, self.manifest.dense
        kind = dense.kind_for(settings.dense, len(self.corpus))
        if not settings.dimension or kind == "exact" or not len(self.corpus):
            return None
        if entry and entry.kind == kind and self._covers_enough(entry):
            if self.committed and self.committed.settings.recall == settings.recall:
                return entry
            return self._tuned(entry)
        return self._tuned(self._built_dense(kind))

    def _built_dense(self, kind: str) -> DenseEntry:
        """A new approximate index, with an eight-bit copy of its vectors where it is large."""
        path = self.root / f"dense-{self._next_generation:06d}.faiss"
        copy = None
        if dense.wants_copy(kind, len(self.corpus)):
            copy = path.with_suffix(".bytes")
        dense.build(self.corpus, kind, path, copy)
        entry = DenseEntry(self._synced(path), kind, self.manifest.next_number, len(self.corpus))
        if copy:
            entry = replace(entry, copy=self._synced(copy))
        return entry

    def _synced(self, path: Path) -> FileEntry:
        sync_file(path)
        return self._entry(path)

    def _covers_enough(self, entry: DenseEntry) -> bool:
        """Whether an approximate index is still good: it lacks few passages, and few of its own were deleted."""
        missing = sum(int((segment.numbers() >= entry.until).sum()) for segment in self.corpus.segments)
        return missing <= max(EXACT_UP_TO // 2, entry.passages // 10) and len(self.corpus) > entry.passages // 2

    def _tuned(self, entry: DenseEntry) -> DenseEntry:
        """How much of the approximate index is to be searched for the recall that was asked for, if one was."""
        settings = self.manifest.settings
        if not settings.recall or entry.kind != "ivf":
            return replace(entry, probes=0, candidates=0, recall=0)
        encoder = self.encoder
        if not isinstance(encoder, Encoder):
            encoder = open_encoder(settings)
        assert encoder is not None
        search = dense.Dense(self.root, self.corpus, entry)
        questions = tuning.sample_questions(self.corpus, encoder)
        effort, recall = search.tune(questions, tuning.K, settings.recall / 1000)
        return replace(entry, probes=effort.probes, candidates=effort.candidates, recall=int(1000 * recall))

    # ---------------------------------------------------------------- housekeeping

    @property
    def _next_generation(self) -> int:
        """In the names of new files, so that none is ever written over one that readers use."""
        if self.committed:
            return self.committed.generation + 1
        return 1

    def _entry(self, path: Path) -> FileEntry:
        return FileEntry(path.relative_to(self.root).as_posix(), path.stat().st_size, checksum(path))

    def _reopen(self) -> None:
        self.corpus = Corpus(self.root, self.manifest)

    def _finish_lexical(self) -> None:
        """Make the lexical index know exactly the living passages, and list its files."""
        lexical = self._writing_lexical()
        lexical.commit()
        if lexical_count(lexical.folder) != len(self.corpus):
            self._delete_unlisted(lexical)
            lexical.commit()
        self._lexical = None
        files = lexical.finish()
        self._check_lexical(lexical.folder.name)
        known: dict[str, str] = {}
        if self.committed is not None:
            for entry in self.committed.lexical.files:
                path = lexical.folder / Path(entry.path).name
                if path in files and path.suffix != ".json" and path.stat().st_size == entry.bytes:
                    known[path.name] = entry.sha256  # a link: it never changes
        sums = checksums_on_disk(lexical.folder, known)
        entries = [
            FileEntry(path.relative_to(self.root).as_posix(), path.stat().st_size, sums[path.name]) for path in files
        ]
        self.manifest = self.manifest.with_changes(lexical=LexicalEntry(lexical.folder.name, tuple(entries)))

    def _delete_unlisted(self, lexical: LexicalWriter) -> None:
        """Take out of the lexical index what is deleted, or was compacted away."""
        expected = 0
        for segment in self.corpus.segments:
            numbers = segment.numbers().astype(np.int64)
            for gap in np.flatnonzero(np.diff(numbers, prepend=expected - 1) > 1):
                lexical.delete_between(int(numbers[gap - 1]) + 1 if gap else expected, int(numbers[gap]) - 1)
            expected = int(numbers[-1]) + 1
        lexical.delete_between(expected)
        lexical.delete(self.corpus.deleted.tolist())

    def _sweep(self) -> None:
        """Remove files that neither the committed state nor the work in progress lists."""
        states = [manifest for manifest in (self.committed, self.manifest) if manifest is not None]
        sweep(self.root, states, self._segment.name if self._segment is not None else "")
