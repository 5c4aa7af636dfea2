"""The verbs that change an index: build, add, delete, compact. Each opens a writer, works, and commits."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mundap.disk import checksum, disk_errors
from mundap.documents import SourceFile, Splitter, find, read
from mundap.documents.walk import STDIN
from mundap.errors import IndexDamaged, IndexMissing, MundapError, UsageError
from mundap.index import dense
from mundap.index.analyzer import LANGUAGES, best_hangul
from mundap.index.corpus import Filters
from mundap.index.manifest import Manifest, Settings
from mundap.index.model import open_encoder
from mundap.index.segment import SourceState, key_hash
from mundap.index.writer import Writer
from mundap.models import folder as models
from mundap.records import Document, Skipped

_BATCH = 500
_MOST_REASONS = 1000


@dataclass(frozen=True, slots=True)
class Options:
    """How to make an index; what is None is as the existing index has it, or the default.

    Attributes:
        words: The most words in a passage.
        overlap: Words repeated from the passage before.
        sentences: End passages where sentences end.
        language: The language of the stemmer.
        model: A shipped model's name or a model folder; `none` makes an index for BM25 alone.
        dense: `auto`, `exact`, `ivf` or `hnsw`.
        form: Read all files as this format instead of telling it from each.
        ignore: Patterns of files to leave out.
    """

    words: int | None = None
    overlap: int | None = None
    sentences: bool | None = None
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
    skipped: list[Skipped] = field(default_factory=list)
    skipped_count: int = 0
    resumed: bool = False
    seconds: float = 0.0

    def skip(self, skipped: Skipped) -> None:
        """Note something unreadable; beyond a thousand only the count is kept."""
        self.skipped_count += 1
        if len(self.skipped) < _MOST_REASONS:
            self.skipped.append(skipped)


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
        for name in ("words", "overlap", "sentences", "language", "dense")
        if (value := getattr(options, name)) is not None
    }
    if existing is None or fresh:
        model = _model(options.model or models.DEFAULT)
        made = replace(Settings(hangul=best_hangul()), **given, **model)
        Splitter(made.words, made.overlap, made.sentences)  # raises on nonsense
        return made
    if options.model is not None:
        given |= _model(options.model)
    for name, value in given.items():
        if getattr(existing, name) != value:
            raise UsageError(
                f"the index in {out} was made with {name} = {getattr(existing, name)!r}, not {value!r}. "
                "Leave the option out, choose another -o, or rebuild with --fresh."
            )
    return existing


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
    total = _input_size([path for path in paths if str(path) != STDIN], base, options.ignore)
    if total is None and len(roots) == len(paths):
        raise MundapError(f"nothing to index: no files in {', '.join(map(str, paths))}. Nothing was changed.")
    job = {
        "verb": verb,
        "paths": [str(root) for root in roots],
        "ignore": list(options.ignore),
        "form": options.form,
    }
    with Writer(out, settings, open_encoder(settings), job, fresh) as writer:
        reader = _Ingest(writer, options, watch or (lambda _: None), total or 0)
        reader.report.resumed = writer.resumed
        reader.run(find(paths, base, options.ignore))
        if verb == "index":
            reader.drop_vanished(roots, base)
        writer.commit()
        return _finish(reader.report, writer, started)


def _input_size(paths: Sequence[str | Path], base: Path, ignore: Iterable[str]) -> int | None:
    """Bytes to read, or None if there is no file at all."""
    total: int | None = None
    for file in find(paths, base, ignore):
        if isinstance(file, SourceFile):
            total = (total or 0) + _stat(file)[0]
    return total


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

    def __init__(self, writer: Writer, options: Options, watch: Watcher, total: int) -> None:
        settings = writer.manifest.settings
        self.writer = writer
        self.form = options.form
        self.splitter = Splitter(settings.words, settings.overlap, settings.sentences)
        self.report = Report()
        self.progress = Progress(total=total)
        self._watch = watch
        self._seen: set[int] = set()
        self._finished_bytes = 0
        self._file: SourceFile | None = None
        writer.tick = self._tick

    def run(self, files: Iterable[SourceFile | Skipped]) -> None:
        """Read all files."""
        for file in files:
            if isinstance(file, Skipped):
                self.report.skip(file)
                continue
            self._file = file
            self._seen.add(key_hash("source", file.source))
            self._read_if_changed(file)
            self._finished_bytes += _stat(file)[0]
            self._file = None
            self._tick()

    def drop_vanished(self, roots: Sequence[Path], base: Path) -> None:
        """Delete what came from files below the roots that are there no more."""
        for source in set(self.writer.corpus.sources()):
            path = (base / source).resolve()
            below = any(path == root or root in path.parents for root in roots)
            if below and key_hash("source", source) not in self._seen:
                self.report.removed += self.writer.delete(self.writer.corpus.numbers_from(source))

    def _read_if_changed(self, file: SourceFile) -> None:
        size, modified = _stat(file)
        known = self.writer.corpus.source_state(file.source)
        if known and known.done and (known.size, known.modified) == (size, modified):
            self.report.unchanged += 1
            return
        try:
            digest = bytes.fromhex(checksum(file.path))
        except OSError as error:
            self.report.skip(Skipped(file.source, error.strerror or str(error)))
            return
        already = 0
        if known and known.digest.ljust(32, b"\0") == digest:
            if known.done:
                self.report.unchanged += 1
                return
            already = known.documents
        elif known:
            self.report.removed += self.writer.delete(self.writer.corpus.numbers_from(file.source))
        self._read(file, SourceState(file.source, size, modified, digest, 0, False), already)

    def _read(self, file: SourceFile, state: SourceState, already: int) -> None:
        self.writer.begin_source(state)
        consumed = already
        batch: list[Document] = []
        size = 0
        for found in itertools.islice(read(file, self.form), already, None):
            consumed += 1
            if isinstance(found, Skipped):
                self.report.skip(found)
                continue
            batch.append(found)
            size += len(found.text)
            if len(batch) == _BATCH or size > 1 << 20:
                self._add(file, batch)
                batch, size = [], 0
                if self.writer.checkpoint_due():
                    self.writer.end_source(consumed, done=False)
                    self.writer.checkpoint()
                    self.writer.begin_source(state)
        self._add(file, batch)
        self.writer.end_source(consumed, done=True)
        if self.writer.checkpoint_due():
            self.writer.checkpoint()

    def _add(self, file: SourceFile, batch: Sequence[Document]) -> None:
        with disk_errors(self.writer.root):
            for document in self._unique(file, batch):
                spans: Iterable[tuple[int, int]] = [(0, len(document.text))]
                if not document.whole:
                    spans = list(self.splitter.spans(document.text)) or spans
                passages = self.writer.add(document, spans)
                self.report.added += passages
                self.progress.passages += passages
        self._tick()

    def _unique(self, file: SourceFile, batch: Sequence[Document]) -> Iterator[Document]:
        """Documents whose id is free. A file whose name is taken goes by its whole path instead."""
        names: set[str] = set()
        for document, owner in zip(batch, self.writer.taken([one.id for one in batch]), strict=True):
            if owner is None and document.id not in names:
                names.add(document.id)
                yield document
            elif document.id == file.id and self.writer.taken([file.source]) == [None]:
                yield replace(document, id=file.source)
            else:
                first = owner if owner not in (None, "this run") else file.source
                self.report.skip(Skipped(document.source, f"duplicate id {document.id!r}, already in {first}"))

    def _tick(self) -> None:
        self.progress.bytes = self._finished_bytes + (self._file.position() if self._file else 0)
        self.progress.doing = self._file.source if self._file else ""
        self._watch(self.progress)
