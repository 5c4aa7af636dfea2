"""The verbs that change an index: build, add, delete, compact. Each opens a writer, works, and commits."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mundap.documents import SourceFile
from mundap.documents.readers import Readers
from mundap.documents.walk import printable
from mundap.encoder.runtime import Encoder
from mundap.errors import IndexDamaged, MundapError, UsageError
from mundap.index import dense, locate
from mundap.index.analyzer import best_hangul, check_language
from mundap.index.catalog import save_skipped
from mundap.index.corpus import Corpus, Filters
from mundap.index.files import InputFiles, find_files, splitter
from mundap.index.ingest import Ingest, Report, Watcher
from mundap.index.manifest import Manifest, Settings
from mundap.index.model import open_encoder
from mundap.index.modes import DEFAULT_BM25, checked_bm25
from mundap.index.tuning import check_recall
from mundap.index.verify import damaged_passages
from mundap.index.writer import Writer
from mundap.models.folder import identify
from mundap.records import Skipped

_FAR_LESS = 0.5

OpenWriter = Callable[[Path, Settings, Encoder | None, dict[str, Any], bool], Writer]
"""What opens an index for writing: root, settings, encoder, job, whether to start from nothing."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to make an index; what is None is as the existing index has it, or the default.

    Attributes:
        words: Maximum words per passage.
        overlap: Words repeated from the previous passage.
        sentences: Cut between sentences, list items and table rows, the default, instead of every `words` words.
        chunks: Maximum passages per document. If given, rows that are passages already are cut too.
        language: The language of the stemmer.
        model: A shipped model's name or a model folder; `none` makes an index for BM25 alone.
        dense: `auto`, `exact`, `ivf` or `hnsw`.
        k1: Of BM25: term frequency saturation.
        b: Of BM25: length normalisation.
        recall: Share of the best 100 passages that an approximate index is tuned to find; 0 for the table of sizes. It
            can be changed in an index that is there.
        form: Read all files as this format instead of telling it from each.
        ignore: Patterns of files to leave out.
        follow_links: Follow symbolic links that lead out of the given folders.
    """

    words: int | None = None
    overlap: int | None = None
    sentences: bool | None = None
    chunks: int | None = None
    language: str | None = None
    model: str | None = None
    dense: str | None = None
    k1: float | None = None
    b: float | None = None
    recall: float | None = None
    form: str | None = None
    ignore: tuple[str, ...] = ()
    follow_links: bool = False


def build(
    paths: Sequence[str | Path],
    where: str | Path | None,
    options: Options | None = None,
    fresh: bool = False,
    watch: Watcher | None = None,
    force: bool = False,
    writer: OpenWriter | None = None,
) -> Report:
    """Bring an index up to date with the paths: read new and changed files, drop those that are gone.

    Run again after a kill, it resumes.

    Args:
        paths: Files, folders, `-` for standard input.
        where: The index directory; None for the one of this folder, see `locate`.
        options: How to make it.
        fresh: Build anew, with other options if wanted; the old index serves until the new one is done.
        watch: Called now and then with the progress.
        force: With `fresh`: commit even if the new index has far less than the old one.
        writer: What opens the index for writing; by default `Writer`.
    """
    options = options or Options()
    out = locate.to_write(where)
    with find_files(paths, out.resolve().parent, options, out) as files:
        return _Job("index", files, out, options, fresh, force).run(watch, writer or Writer)


def add(paths: Sequence[str | Path], out: Path, options: Options | None = None, watch: Watcher | None = None) -> Report:
    """Add files to an index, or read them again if they changed. Nothing is dropped."""
    options = options or Options()
    Manifest.load(out)
    with find_files(paths, out.resolve().parent, options, out) as files:
        return _Job("add", files, out, options).run(watch, Writer)


def put(files: Sequence[SourceFile], out: Path, watch: Watcher | None = None) -> Report:
    """Add files from outside any indexed folder, such as uploads. One with a known name replaces the old one.

    Args:
        files: Their `source` begins with `UPLOAD`.
        out: The index directory.
        watch: Called now and then with the progress.
    """
    started = time.monotonic()
    settings = Manifest.load(out).settings
    with Readers() as readers, Writer(out, settings, open_encoder(settings)) as writer:
        reader = Ingest(writer, InputFiles(files, readers), watch)
        reader.look()
        if writer.deleting:
            writer.checkpoint()
        reader.run()
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
                reason = "no document with this id."
                if corpus.find_passage(name):
                    reason = "no document with this id. It is a passage; give its document's id."
                report.skip(Skipped(name, reason))
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


def repair(out: Path) -> Report:
    """Rebuild what can be derived from the passages: the lexical index and the approximate vector index.

    Raises:
        IndexDamaged: The passages themselves are damaged, or their vectors; only a copy or a fresh build helps.
    """
    started = time.monotonic()
    problems = damaged_passages(out)
    if problems:
        raise IndexDamaged(
            "{problem}. What is stored once cannot be made again from the index: restore the file from a copy, or "
            "build again with `mundap index --fresh`.",
            problem=problems[0],
        )
    with Writer(out, repair=True) as writer:
        writer.rebuild()
        writer.commit()
        return _finish(Report(), writer, started)


def settings_for(out: Path, options: Options, fresh: bool, files: InputFiles) -> Settings:
    """The settings of the existing index, or new ones; an option that contradicts the former is an error."""
    return chosen_settings(_existing_settings(out, fresh), out, options, fresh, files)


def chosen_settings(
    existing: Settings | None, out: str | Path, options: Options, fresh: bool, files: InputFiles
) -> Settings:
    """The same for an index that may live elsewhere.

    Args:
        existing: Its settings, if it is there.
        out: Where it is, or will be.
        options: What is wanted.
        fresh: The index is made anew: then other options are taken, and what they leave open is as before.
        files: To be indexed: the default model is chosen by their languages.
    """
    given = _given_settings(options)
    tuned: dict[str, Any] = {}
    if options.recall is not None:
        tuned["recall"] = round(1000 * options.recall)
    if existing is not None and not fresh:
        _refuse_changes(existing, given, out)
        return replace(existing, **tuned)
    if options.model is None and existing is not None:
        given |= model_settings(existing.model or "none")
    elif options.model is None:
        given |= model_settings(files.default_model())
    kept = existing or Settings(sentences=True, **DEFAULT_BM25._asdict())
    made = replace(kept, hangul=best_hangul(), **given, **tuned)
    splitter(made)  # raises on nonsense
    return made


def _existing_settings(out: Path, fresh: bool) -> Settings | None:
    try:
        found = Manifest.find(out)
    except IndexDamaged:
        if not fresh:
            raise
        return None
    if found:
        return found.settings
    return None


def _given_settings(options: Options) -> dict[str, Any]:
    """The settings that were asked for, checked. Recall is left out: it alone may change later."""
    if options.language is not None:
        check_language(options.language)
    dense.kind_for(options.dense or "auto", 0)
    checked_bm25(options.k1, options.b, DEFAULT_BM25)
    if options.recall:
        check_recall(options.recall)
    given: dict[str, Any] = {}
    for name in ("words", "overlap", "sentences", "chunks", "language", "dense", "k1", "b"):
        value = getattr(options, name)
        if value is not None:
            given[name] = value
    if options.model is not None:
        given |= model_settings(options.model)
    return given


def _refuse_changes(existing: Settings, given: Mapping[str, Any], out: str | Path) -> None:
    for name, value in given.items():
        if getattr(existing, name) != value:
            raise UsageError(
                "the index in {path} was made with {option} {old}, not {new}. Leave the option out, choose another "
                "folder, or build again with `mundap index --fresh`.",
                path=out,
                option="split" if name == "sentences" else name,
                old=_shown(name, getattr(existing, name)),
                new=_shown(name, value),
            )


def _shown(name: str, value: Any) -> Any:
    """A setting as the command line has it."""
    if name == "sentences":
        return "sentences" if value else "words"
    if name == "chunks":
        return value or "all"
    return "none" if value == "" else value


def model_settings(name: str) -> dict[str, Any]:
    """Which model an index is made with, as its settings have it; `none` for no model."""
    model, fingerprint, dimension = "", "", 0
    if name != "none":
        model, fingerprint, dimension = identify(name)
    return {"model": model, "fingerprint": fingerprint, "dimension": dimension}


@dataclass(frozen=True, slots=True)
class _Job:
    """Files to read into an index, and how.

    Attributes:
        verb: `index`, which also drops what is gone, or `add`.
        files: What to read.
        out: The index directory.
        options: How to read it.
        fresh: Build anew.
        force: With `fresh`: commit even if the new index has far less than the old one.
    """

    verb: str
    files: InputFiles
    out: Path
    options: Options
    fresh: bool = False
    force: bool = False

    def run(self, watch: Watcher | None, opened: OpenWriter) -> Report:
        """Read what is new or has changed, and commit."""
        started = time.monotonic()
        settings = settings_for(self.out, self.options, self.fresh, self.files)
        with opened(self.out, settings, open_encoder(settings), self._note(), self.fresh) as writer:
            reader = Ingest(writer, self.files, watch)
            reader.look()
            if self.verb == "index":
                reader.drop_vanished()
            if writer.deleting:
                writer.checkpoint()  # ids of what is gone are free again before anything new is read
            reader.run()
            if self.fresh and writer.committed:
                _keep_uploads(reader, self.out, writer.committed)
                if not self.force:
                    _refuse_loss(writer)
            writer.commit()
            save_skipped(self.out, reader.report.skipped, keep_others=self.verb != "index")
            return _finish(reader.report, writer, started)

    def _note(self) -> dict[str, Any]:
        """The identity of work in progress: the same command resumes it."""
        return {
            "verb": self.verb,
            "paths": [printable(str(root)) for root in self.files.roots],
            "ignore": list(self.options.ignore),
            "links": self.options.follow_links,
            "form": self.options.form,
            "fresh": self.fresh,
        }


def _keep_uploads(reader: Ingest, out: Path, committed: Manifest) -> None:
    try:
        reader.keep_uploads(Corpus(out, committed))
    except IndexDamaged:  # a fresh build is the cure for that, and must not fail of it
        reason = "the old index is damaged: what was uploaded to it, if anything, could not be taken along"
        reader.report.skip(Skipped(str(out), reason))


def _refuse_loss(writer: Writer) -> None:
    """Refuse a fresh build that has far fewer documents than the index it replaces: most likely a mistake."""
    writer.checkpoint()
    try:
        old = 0
        if writer.committed:
            old = Corpus(writer.root, writer.committed).documents
    except IndexDamaged:
        return
    new = writer.corpus.documents
    if new < old * _FAR_LESS:
        raise MundapError(
            "the new index would have {new:,} documents in place of {old:,}. It was not committed: {path} is as it "
            "was. If that is what you want, force it: `mundap index --fresh --force`.",
            new=new,
            old=old,
            path=writer.root,
        )


def _finish(report: Report, writer: Writer, started: float) -> Report:
    report.path = writer.root
    report.documents = writer.corpus.documents
    report.passages = len(writer.corpus)
    report.seconds = time.monotonic() - started
    found, wanted = writer.manifest.dense, writer.manifest.settings.recall
    if found and found.probes and found.recall < wanted:
        report.note = f"recall {found.recall / 1000:g} was found on a sample, and {wanted / 1000:g} was wanted"
    return report
