"""The verbs that change an index: build, add, delete, compact. Each opens a writer, works, and commits."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mundap.disk import checksum, disk_errors
from mundap.documents import SourceFile, Splitter, find, read
from mundap.documents.walk import STDIN, printable
from mundap.errors import IndexDamaged, IndexMissing, MundapError, UsageError
from mundap.index import dense
from mundap.index.analyzer import LANGUAGES, best_hangul
from mundap.index.corpus import Corpus, Filters
from mundap.index.manifest import Manifest, Settings
from mundap.index.model import open_encoder
from mundap.index.segment import SourceState, key_hash
from mundap.index.writer import Writer
from mundap.models import folder as models
from mundap.records import Document, Skipped

UPLOAD = "upload:"
"""How the names of sources begin that were put in from outside: no walk finds them, and none drops them."""

_BATCH = 500
_MOST_REASONS = 1000


@dataclass(frozen=True, slots=True)
class Options:
    """How to make an index; what is None is as the existing index has it, or the default.

    Attributes:
        words: The most words in a passage.
        overlap: Words repeated from the passage before.
        sentences: End passages where sentences end.
        chunks: The most passages of a document. If given, rows that are passages already are cut too.
        language: The language of the stemmer.
        model: A shipped model's name or a model folder; `none` makes an index for BM25 alone.
        dense: `auto`, `exact`, `ivf` or `hnsw`.
        form: Read all files as this format instead of telling it from each.
        ignore: Patterns of files to leave out.
    """

    words: int | None = None
    overlap: int | None = None
    sentences: bool | None = None
    chunks: int | None = None
    language: str | None = None
    model: str | None = None
    dense: str | None = None
    form: str | None = None
    ignore: tuple[str, ...] = ()


@dataclass(slots=True)
class Report:
    """What a build did."""

    documents: int = 0
    passages: int = 0
    added: int = 0
    removed: int = 0
    unchanged: int = 0
    renamed: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    skipped_count: int = 0
    resumed: bool = False
    seconds: float = 0.0

    def skip(self, skipped: Skipped) -> None:
        """Note something unreadable; beyond a thousand only the count is kept."""
        self.skipped_count += 1
        if len(self.skipped) < _MOST_REASONS:
            self.skipped.append(skipped)

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
            "skipped": [one.as_dict() for one in self.skipped],
            "skipped_count": self.skipped_count,
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


def build(
    paths: Sequence[str | Path],
    out: Path,
    options: Options | None = None,
    fresh: bool = False,
    watch: Watcher | None = None,
) -> Report:
    """Make the index hold what the paths hold: new and changed files are read, vanished ones dropped.

    Run again after a kill, it goes on where it was.

    Args:
        paths: Files, folders, `-` for standard input.
        out: The index directory.
        options: How to make it.
        fresh: Build anew, with other options if wanted; the old index serves until the new one is done.
        watch: Called now and then with the progress.
    """
    options = options or Options()
    settings = _settings(out, options, fresh)
    return _ingest("index", paths, out, options, settings, fresh, watch)


def add(paths: Sequence[str | Path], out: Path, options: Options | None = None, watch: Watcher | None = None) -> Report:
    """Add files to an index, or read them again if they changed. Nothing is dropped."""
    options = options or Options()
    Manifest.load(out)
    return _ingest("add", paths, out, options, _settings(out, options, fresh=False), False, watch)


def put(files: Sequence[SourceFile], out: Path, watch: Watcher | None = None) -> Report:
    """Add files that belong to nobody's folder, such as uploads. One of a known name takes the old one's place.

    Args:
        files: Their `source` begins with `UPLOAD`.
        out: The index directory.
        watch: Called now and then with the progress.
    """
    started = time.monotonic()
    settings = Manifest.load(out).settings
    with Writer(out, settings, open_encoder(settings)) as writer:
        reader = _Ingest(writer, Options(), watch or (lambda _: None))
        reader.look(files)
        if writer.deleting:
            writer.checkpoint()
        reader.run(files)
        writer.commit()
        return _finish(reader.report, writer, started)


def delete(out: Path, documents: Sequence[str] = (), sources: Sequence[str] = ()) -> Report:
    """Delete documents by id, or everything whose source matches a pattern."""
    started = time.monotonic()
    report = Report()
    with Writer(out) as writer:
        corpus = writer.corpus
        for name in documents:
            found = corpus.find_document(name)
            if found is None:
                known = " It is a passage; give its document's id." if corpus.find_passage(name) else ""
                report.skip(Skipped(name, f"no document with this id.{known}"))
            else:
                writer.delete(corpus.numbers_of(found[0], np.array([found[1]])))
        for pattern in sources:
            numbers = corpus.matching(Filters(sources=(pattern,)))
            if not len(numbers):
                report.skip(Skipped(pattern, "no source matches this pattern"))
            writer.delete(numbers)
        before = len(corpus)
        writer.commit()
        report.removed = before - len(writer.corpus)
        return _finish(report, writer, started)


def compact(out: Path) -> Report:
    """Rewrite the index without what was deleted and with as few segments as is sensible."""
    started = time.monotonic()
    with Writer(out) as writer:
        writer.compact()
        writer.commit()
        return _finish(Report(), writer, started)


def _settings(out: Path, options: Options, fresh: bool) -> Settings:
    """The settings of the existing index, or new ones; an option that contradicts the former is an error."""
    existing: Settings | None = None
    try:
        existing = Manifest.load(out).settings
    except IndexMissing:
        pass
    except IndexDamaged:
        if not fresh:
            raise
    if options.language is not None and options.language not in LANGUAGES:
        raise UsageError(f"no stemmer for language {options.language!r}: choose one of {', '.join(LANGUAGES)}")
    dense.kind_for(options.dense or "auto", 0)
    given = {
        name: value
        for name in ("words", "overlap", "sentences", "chunks", "language", "dense")
        if (value := getattr(options, name)) is not None
    }
    if existing is None or fresh:
        model = _model(options.model or models.DEFAULT)
        made = replace(Settings(hangul=best_hangul()), **given, **model)
        splitter(made)  # raises on nonsense
        return made
    if options.model is not None:
        given |= _model(options.model)
    for name, value in given.items():
        if getattr(existing, name) != value:
            raise UsageError(
                f"the index in {out} was made with {name} {getattr(existing, name) or 'none'}, not {value or 'none'}. "
                "Leave the option out, choose another -o, or rebuild with --fresh."
            )
    return existing


def splitter(settings: Settings) -> Splitter:
    """What cuts the documents of an index."""
    return Splitter(settings.words, settings.overlap, settings.sentences, settings.chunks)


def _model(name: str) -> dict[str, Any]:
    if name == "none":
        return {"model": "", "fingerprint": "", "dimension": 0}
    folder = models.find(name)
    config = models.EncoderConfig.load(folder)
    models.weights(folder)
    place = name if name in models.shipped() else str(folder.resolve())
    return {"model": place, "fingerprint": config.fingerprint, "dimension": config.dimension}


def _ingest(
    verb: str,
    paths: Sequence[str | Path],
    out: Path,
    options: Options,
    settings: Settings,
    fresh: bool,
    watch: Watcher | None,
) -> Report:
    started = time.monotonic()
    base = out.resolve().parent
    roots = [Path(path).resolve() for path in paths if str(path) != STDIN]
    given = [path for path in paths if str(path) != STDIN]
    if len(given) == len(paths):
        _something_to_read(given, base, options, out)
    job = {
        "verb": verb,
        "paths": [printable(str(root)) for root in roots],
        "ignore": list(options.ignore),
        "form": options.form,
        "fresh": fresh,
    }
    with Writer(out, settings, open_encoder(settings), job, fresh) as writer:
        reader = _Ingest(writer, options, watch or (lambda _: None))
        reader.report.resumed = writer.resumed
        reader.look(find(given, base, options.ignore, out))
        if verb == "index":
            reader.drop_vanished(roots, base)
        if writer.deleting:
            writer.checkpoint()  # ids of what is gone are free again before anything new is read
        reader.run(find(paths, base, options.ignore, out))
        if verb == "index" and len(roots) < len(paths):
            reader.drop_old_stdin()
        if fresh and writer.committed:
            try:
                reader.keep_uploads(Corpus(out, writer.committed))
            except IndexDamaged:  # a fresh build is the cure for that, and must not fail of it
                reason = "the old index is damaged: what was uploaded to it, if anything, could not be taken along"
                reader.report.skip(Skipped(str(out), reason))
        writer.commit()
        return _finish(reader.report, writer, started)


def _something_to_read(paths: Sequence[str | Path], base: Path, options: Options, out: Path) -> None:
    """Refuse before anything is made or dropped: an empty folder may be a disk that is not there."""
    reasons = []
    for file in find(paths, base, options.ignore, out):
        if isinstance(file, SourceFile):
            return
        reasons.append(f"{file.source}: {file.reason}")
    raise MundapError(
        f"nothing to index: no files in {', '.join(map(str, paths))}. {'; '.join(reasons[:3])}".rstrip()
        + " Nothing was changed. To drop what was indexed from there, use: mundap delete --source"
    )


def _stat(file: SourceFile) -> tuple[int, int]:
    try:
        status = file.path.stat()
        return status.st_size, status.st_mtime_ns
    except OSError:
        return 0, 0


def _finish(report: Report, writer: Writer, started: float) -> Report:
    report.documents = writer.corpus.documents
    report.passages = len(writer.corpus)
    report.seconds = time.monotonic() - started
    return report


class _Ingest:
    """Reads files into a writer: what is unchanged is passed over, what was half read is taken up again."""

    def __init__(self, writer: Writer, options: Options, watch: Watcher) -> None:
        settings = writer.manifest.settings
        self.writer = writer
        self.options = options
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
        for found in read(file, self.options.form):
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


def _changed(file: SourceFile, known: SourceState) -> bool:
    """Whether a file is another than it was: by size and time, and if these differ by its digest."""
    if (known.size, known.modified) == _stat(file):
        return False
    try:
        return known.digest.ljust(32, b"\0") != bytes.fromhex(checksum(file.path))
    except OSError:
        return False
