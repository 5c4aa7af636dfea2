"""Reading files into an index: what is unchanged is passed over, what was half read is taken up again."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mundap.disk import checksum, disk_errors
from mundap.documents import SourceFile, Splitter, read
from mundap.index.corpus import Corpus
from mundap.index.manifest import Settings
from mundap.index.segment import SourceState, key_hash
from mundap.index.writer import Writer
from mundap.records import Document, Skipped, Skipping

UPLOAD = "upload:"
"""How the names of sources begin that were put in from outside: no walk finds them, and none drops them."""

_BATCH = 500


@dataclass(slots=True)
class Report(Skipping):
    """What a build did."""

    documents: int = 0
    passages: int = 0
    added: int = 0
    removed: int = 0
    unchanged: int = 0
    renamed: int = 0
    resumed: bool = False
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The report as it stands in `--json` output."""
        return {
            "documents": self.documents,
            "passages": self.passages,
            "added": self.added,
            "removed": self.removed,
            "unchanged": self.unchanged,
            "renamed": self.renamed,
            "resumed": self.resumed,
            **self.skipped_as_dict(),
            "seconds": round(self.seconds, 3),
        }


@dataclass(slots=True)
class Progress:
    """How far a build is; `bytes` counts input, since nobody knows the passages in advance."""

    bytes: int = 0
    total: int = 0
    passages: int = 0
    doing: str = ""


Watcher = Callable[[Progress], None]


def splitter(settings: Settings) -> Splitter:
    """What cuts the documents of an index."""
    return Splitter(settings.words, settings.overlap, settings.sentences, settings.chunks)


class Ingest:
    """Reads files into a writer: what is unchanged is passed over, what was half read is taken up again."""

    def __init__(self, writer: Writer, form: str | None, watch: Watcher) -> None:
        settings = writer.manifest.settings
        self.writer = writer
        self.form = form
        self.splitter = splitter(settings)
        self.report = Report()
        self.progress = Progress()
        self._watch = watch
        self._seen: set[int] = set()
        self._unseen_folders: list[str] = []  # could not be looked into
        self._finished_bytes = 0
        self._file: SourceFile | None = None
        writer.tick = self._tick

    def look(self, files: Iterable[SourceFile | Skipped]) -> None:
        """A first walk, which reads nothing new: what there is, and which files have changed."""
        for file in files:
            if isinstance(file, Skipped):
                self._unseen_folders.append(file.source)
                continue
            self._seen.add(key_hash("source", file.source))
            self.progress.total += _stat(file)[0]
            known = self.writer.corpus.source_state(file.source)
            if known and _changed(file, known):
                self.report.removed += self.writer.delete(self.writer.corpus.numbers_from(file.source))

    def drop_vanished(self, roots: Sequence[Path], base: Path) -> None:
        """Delete what came from files below the roots that are there no more."""
        for source in set(self.writer.corpus.sources()):
            path = base / source
            below = any(path == root or root in path.parents for root in roots)
            unseen = any(source == folder or source.startswith(f"{folder}/") for folder in self._unseen_folders)
            if below and not unseen and not source.startswith(UPLOAD) and key_hash("source", source) not in self._seen:
                self.report.removed += self.writer.delete(self.writer.corpus.numbers_from(source))

    def drop_old_stdin(self) -> None:
        """`mundap index -` holds what standard input gives now, not what it gave before."""
        for source in set(self.writer.corpus.sources()):
            if source.startswith("stdin-") and key_hash("source", source) not in self._seen:
                self.report.removed += self.writer.delete(self.writer.corpus.numbers_from(source))

    def keep_uploads(self, old: Corpus) -> None:
        """Take along what was put in from outside: the old index alone has it."""
        for source in dict.fromkeys(name for name in old.sources() if name.startswith(UPLOAD)):
            known, state = self.writer.corpus.source_state(source), old.source_state(source)
            if state is None or (known and known.done):
                continue
            self.writer.begin_source(state)
            file = SourceFile(Path(), source.removeprefix(UPLOAD), source)
            self._add(file, list(old.documents_from(source)))
            self.writer.end_source(state.documents, state.skipped, done=True)

    def run(self, files: Iterable[SourceFile | Skipped]) -> None:
        """Read all files that are new or have changed."""
        for file in files:
            if isinstance(file, Skipped):
                self.report.skip(file)
                continue
            self._file = file
            self._seen.add(key_hash("source", file.source))
            known = self.writer.corpus.source_state(file.source)
            if known and known.done:  # changed ones were deleted by the first walk and are unknown now
                self.report.unchanged += 1
                if known.skipped:
                    self.report.skip(Skipped(file.source, f"{known.skipped} rows of it could not be read"))
            else:
                self._read(file, known.documents if known else 0)
            self._finished_bytes += _stat(file)[0]
            self._file = None
            self._tick()

    def _read(self, file: SourceFile, already: int) -> None:
        try:
            state = SourceState(file.source, *_stat(file), bytes.fromhex(checksum(file.path)))
        except OSError as error:
            self.report.skip(Skipped(file.source, error.strerror or str(error)))
            return
        self.writer.begin_source(state)
        before = self.report.skipped_count
        consumed = size = 0
        batch: list[Document] = []
        for found in read(file, self.form):
            if self.writer.checkpoint_due():  # before the next one: the last one must not be cut off from `done`
                self._add(file, batch)
                self.writer.end_source(consumed, self.report.skipped_count - before, done=False)
                self.writer.checkpoint()
                self.writer.begin_source(state)
                batch, size = [], 0
            consumed += 1
            if isinstance(found, Skipped):
                self.report.skip(found)
            elif consumed > already:
                batch.append(found)
                size += len(found.text)
            if len(batch) == _BATCH or size > 1 << 20:
                self._add(file, batch)
                batch, size = [], 0
        self._add(file, batch)
        self.writer.end_source(consumed, self.report.skipped_count - before, done=True)

    def _add(self, file: SourceFile, batch: Sequence[Document]) -> None:
        added = 0
        with disk_errors(self.writer.root):
            for document in self._unique(file, batch):
                spans: Iterable[tuple[int, int]] = [(0, len(document.text))]
                if not document.whole or self.splitter.chunks:
                    spans = list(self.splitter.spans(document.text)) or spans
                added += self.writer.add(document, spans)
        self.report.added += added
        self.progress.passages += added
        self._tick()

    def _unique(self, file: SourceFile, batch: Sequence[Document]) -> Iterator[Document]:
        """Documents under ids of their own. One whose id another file has already is filed under its file's name."""
        names: set[str] = set()
        for document, owner in zip(batch, self.writer.taken([one.id for one in batch]), strict=True):
            if owner is None and document.id not in names:
                names.add(document.id)
                yield document
                continue
            others = (
                [file.source]
                if document.id == file.id
                else [f"{file.id}#{document.id}", f"{file.source}#{document.id}"]
            )
            free = [name for name in others if name not in names and self.writer.taken([name]) == [None]]
            if owner in (None, file.source) or not free:
                where = f"{file.source}, which has it twice" if owner in (None, file.source) else owner
                self.report.skip(Skipped(document.source, f"duplicate id {document.id!r}, already in {where}"))
                continue
            names.add(free[0])
            self.report.renamed += 1
            yield replace(document, id=free[0])

    def _tick(self) -> None:
        self.progress.bytes = self._finished_bytes + (self._file.position() if self._file else 0)
        self.progress.doing = self._file.source if self._file else ""
        self._watch(self.progress)


def _stat(file: SourceFile) -> tuple[int, int]:
    try:
        status = file.path.stat()
        return status.st_size, status.st_mtime_ns
    except OSError:
        return 0, 0


def _changed(file: SourceFile, known: SourceState) -> bool:
    """Whether a file is another than it was: by size and time, and if these differ by its digest."""
    if (known.size, known.modified) == _stat(file):
        return False
    try:
        return known.digest.ljust(32, b"\0") != bytes.fromhex(checksum(file.path))
    except OSError:
        return False
