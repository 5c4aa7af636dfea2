"""The verbs that change an index: build, add, delete, compact. Each opens a writer, works, and commits."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from mundap.documents import SourceFile, find
from mundap.documents.readers import Readers
from mundap.documents.walk import STDIN, printable
from mundap.encoder.runtime import Encoder
from mundap.errors import IndexDamaged, IndexMissing, MundapError, UsageError
from mundap.index import dense
from mundap.index.analyzer import best_hangul, check_language
from mundap.index.catalog import save_skipped
from mundap.index.corpus import Corpus, Filters
from mundap.index.ingest import Ingest, Report, Watcher, splitter
from mundap.index.manifest import Manifest, Settings
from mundap.index.model import open_encoder
from mundap.index.modes import DEFAULT_BM25, checked_bm25
from mundap.index.tuning import check_recall
from mundap.index.verify import damaged_passages
from mundap.index.writer import Writer
from mundap.models import folder as models
from mundap.records import Skipped
from mundap.text.language import language

_FAR_LESS = 0.5

OpenWriter = Callable[[Path, Settings, Encoder | None, dict[str, Any], bool], Writer]
"""What opens an index for writing: root, settings, encoder, job, whether to start from nothing."""
_WALKED = 5_000  # files that a sample is drawn from
_SAMPLED = 24  # files whose language is looked at, about
_PER_FILE = 10  # documents of each
_FOREIGN = 0.05  # of the documents: from this share on the English encoder is the wrong one


@dataclass(frozen=True, slots=True)
class Options:
    """How to make an index; what is None is as the existing index has it, or the default.

    Attributes:
        words: The most words in a passage.
        overlap: Words repeated from the passage before.
        sentences: Cut between sentences, list items and table rows, the default, instead of every `words` words.
        chunks: The most passages of a document. If given, rows that are passages already are cut too.
        language: The language of the stemmer.
        model: A shipped model's name or a model folder; `none` makes an index for BM25 alone.
        dense: `auto`, `exact`, `ivf` or `hnsw`.
        k1: Of BM25: how much a repeated term still counts.
        b: Of BM25: how much long passages are discounted.
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
    out: Path,
    options: Options | None = None,
    fresh: bool = False,
    watch: Watcher | None = None,
    force: bool = False,
    writer: OpenWriter | None = None,
) -> Report:
    """Make the index hold what the paths hold: new and changed files are read, vanished ones dropped.

    Run again after a kill, it goes on where it was.

    Args:
        paths: Files, folders, `-` for standard input.
        out: The index directory.
        options: How to make it.
        fresh: Build anew, with other options if wanted; the old index serves until the new one is done.
        watch: Called now and then with the progress.
        force: With `fresh`: commit even if the new index has far less than the old one.
        writer: What opens the index for writing; by default `Writer`.
    """
    options = options or Options()
    settings = settings_for(out, options, fresh, paths)
    return _ingest("index", paths, out, options, settings, fresh, watch, force, writer or Writer)


def add(paths: Sequence[str | Path], out: Path, options: Options | None = None, watch: Watcher | None = None) -> Report:
    """Add files to an index, or read them again if they changed. Nothing is dropped."""
    options = options or Options()
    Manifest.load(out)
    return _ingest("add", paths, out, options, settings_for(out, options, fresh=False), False, watch)


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
        reader = Ingest(writer, None, watch or (lambda _: None))
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
    """Make again what can be made of the passages: the lexical index, and the approximate one.

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


def settings_for(out: Path, options: Options, fresh: bool, paths: Sequence[str | Path] = ()) -> Settings:
    """The settings of the existing index, or new ones; an option that contradicts the former is an error."""
    return chosen_settings(_existing_settings(out, fresh), out, options, fresh, paths)


def chosen_settings(
    existing: Settings | None, out: str | Path, options: Options, fresh: bool, paths: Sequence[str | Path]
) -> Settings:
    """The same for an index that may live elsewhere.

    Args:
        existing: Its settings, if it is there.
        out: Where it is, or will be.
        options: What is wanted.
        fresh: Whether it is made anew: then other options are taken.
        paths: What is to be read, for the choice of a model.
    """
    _check(options)
    given: dict[str, Any] = {}
    for name in ("words", "overlap", "sentences", "chunks", "language", "dense", "k1", "b"):
        value = getattr(options, name)
        if value is not None:
            given[name] = value
    tuned: dict[str, Any] = {}
    if options.recall is not None:
        tuned["recall"] = round(1000 * options.recall)
    if existing is not None and not fresh:
        if options.model is not None:
            given |= model_settings(options.model)
        _refuse_changes(existing, given, out)
        return replace(existing, **tuned)
    kept = existing or Settings(sentences=True, **DEFAULT_BM25._asdict())
    model = _chosen_model(existing, out, options, paths)
    made = replace(kept, hangul=best_hangul(), **given, **tuned, **model_settings(model))
    splitter(made)  # raises on nonsense
    return made


def _chosen_model(existing: Settings | None, out: str | Path, options: Options, paths: Sequence[str | Path]) -> str:
    if options.model is not None:
        return options.model
    if existing is not None:
        return existing.model or "none"
    folder = None
    if isinstance(out, Path):  # and not an address
        folder = out
    return default_model(paths, folder, options)


def _existing_settings(out: Path, fresh: bool) -> Settings | None:
    try:
        return Manifest.load(out).settings
    except IndexMissing:
        return None
    except IndexDamaged:
        if not fresh:
            raise
        return None


def _check(options: Options) -> None:
    if options.language is not None:
        check_language(options.language)
    dense.kind_for(options.dense or "auto", 0)
    checked_bm25(options.k1, options.b, DEFAULT_BM25)
    if options.recall:
        check_recall(options.recall)


def _refuse_changes(existing: Settings, given: Mapping[str, Any], out: str | Path) -> None:
    for name, value in given.items():
        if getattr(existing, name) != value:
            raise UsageError(
                "the index in {path} was made with {option} {old}, not {new}. Leave the option out, choose another -o, "
                "or rebuild with --fresh.",
                path=out,
                option=name,
                old=_shown(getattr(existing, name)),
                new=_shown(value),
            )


def _shown(value: Any) -> Any:
    return value if isinstance(value, float) else value or "none"


def default_model(paths: Sequence[str | Path], out: Path | None, options: Options) -> str:
    """The encoder that knows the languages of some files: the English one, or the multilingual one if it is installed.

    A sample of the files is read for that, spread over all of them.
    """
    if models.MULTILINGUAL not in models.installed():
        return models.DEFAULT
    files = []
    for file in find(paths, Path.cwd(), options.ignore, out):
        if isinstance(file, SourceFile) and file.path.is_file():
            files.append(file)
        if len(files) == _WALKED:
            break
    codes = []
    with Readers(options.form) as readers:
        for file in files[:: max(1, len(files) // _SAMPLED)]:
            for document in islice(readers.read(file), _PER_FILE):
                if not isinstance(document, Skipped):
                    codes.append(language(document.text)[0])
    foreign = sum(code not in ("", "en") for code in codes)
    return models.MULTILINGUAL if foreign > _FOREIGN * len(codes) else models.DEFAULT


def model_settings(name: str) -> dict[str, Any]:
    """Which model an index is made with, as its settings have it; `none` for no model."""
    if name == "none":
        return {"model": "", "fingerprint": "", "dimension": 0}
    folder = models.find(name)
    config = models.EncoderConfig.load(folder)
    models.weights(folder)
    place = name if name in models.installed() else str(folder.resolve())
    return {"model": place, "fingerprint": config.fingerprint, "dimension": config.dimension}


def _ingest(
    verb: str,
    paths: Sequence[str | Path],
    out: Path,
    options: Options,
    settings: Settings,
    fresh: bool,
    watch: Watcher | None,
    force: bool = False,
    opened: OpenWriter = Writer,
) -> Report:
    started = time.monotonic()
    base = out.resolve().parent
    roots = [Path(path).resolve() for path in paths if str(path) != STDIN]
    given = [path for path in paths if str(path) != STDIN]
    if len(given) == len(paths):
        something_to_read(given, base, options, out)
    job = {
        "verb": verb,
        "paths": [printable(str(root)) for root in roots],
        "ignore": list(options.ignore),
        "links": options.follow_links,
        "form": options.form,
        "fresh": fresh,
    }
    with opened(out, settings, open_encoder(settings), job, fresh) as writer:
        reader = Ingest(writer, options.form, watch or (lambda _: None))
        reader.report.resumed = writer.resumed
        reader.look(find(given, base, options.ignore, out, options.follow_links))
        if verb == "index":
            reader.drop_vanished(roots, base)
        if writer.deleting:
            writer.checkpoint()  # ids of what is gone are free again before anything new is read
        reader.run(find(paths, base, options.ignore, out, options.follow_links))
        if verb == "index" and len(roots) < len(paths):
            reader.drop_old_stdin()
        if fresh and writer.committed:
            _keep_uploads(reader, out, writer.committed)
            if not force:
                _refuse_loss(writer)
        writer.commit()
        save_skipped(out, reader.report.skipped, keep_others=verb != "index")
        return _finish(reader.report, writer, started)


def _keep_uploads(reader: Ingest, out: Path, committed: Manifest) -> None:
    try:
        reader.keep_uploads(Corpus(out, committed))
    except IndexDamaged:  # a fresh build is the cure for that, and must not fail of it
        reason = "the old index is damaged: what was uploaded to it, if anything, could not be taken along"
        reader.report.skip(Skipped(str(out), reason))


def _refuse_loss(writer: Writer) -> None:
    """A fresh build that has far less than the index it replaces is rather a mistake than a wish."""
    writer.checkpoint()
    try:
        old = Corpus(writer.root, writer.committed).documents if writer.committed else 0
    except IndexDamaged:
        return
    new = writer.corpus.documents
    if new < old * _FAR_LESS:
        raise MundapError(
            "the new index would have {new:,} documents in place of {old:,}. It was not committed: {path} is as it "
            "was. If that is what you want, run the same command with --force.",
            new=new,
            old=old,
            path=writer.root,
        )


def something_to_read(paths: Sequence[str | Path], base: Path, options: Options, out: Path | None) -> None:
    """Refuse before anything is made or dropped: an empty folder may be a disk that is not there."""
    reasons = []
    for file in find(paths, base, options.ignore, out, options.follow_links):
        if isinstance(file, SourceFile):
            return
        reasons.append(f"{file.source}: {file.reason}")
    raise MundapError(
        "nothing to index: no files in {paths}. {reasons}Nothing was changed. To drop what was indexed from there, "
        "use: mundap delete --source",
        paths=", ".join(map(str, paths)),
        reasons=f"{'; '.join(reasons[:3])}. " if reasons else "",
    )


def _finish(report: Report, writer: Writer, started: float) -> Report:
    report.documents = writer.corpus.documents
    report.passages = len(writer.corpus)
    report.seconds = time.monotonic() - started
    found, wanted = writer.manifest.dense, writer.manifest.settings.recall
    if found and found.probes and found.recall < wanted:
        report.note = f"recall {found.recall / 1000:g} was found on a sample, and {wanted / 1000:g} was wanted"
    return report
