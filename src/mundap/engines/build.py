"""The verbs that change an index, in a folder or in an engine: build, add, delete."""

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from mundap.documents import find
from mundap.documents.walk import STDIN, printable
from mundap.engines import connect, is_address
from mundap.engines.engine import Engine, Where
from mundap.engines.remote import RemoteIndex
from mundap.engines.state import settings_from
from mundap.engines.vectors import VectorWriter
from mundap.engines.writer import EngineWriter
from mundap.errors import IndexMissing, UsageError
from mundap.index import build as folder
from mundap.index import locate
from mundap.index.analyzer import best_hangul, check_language
from mundap.index.build import Options, default_model, model_settings, something_to_read
from mundap.index.ingest import Ingest, Report, Watcher, splitter
from mundap.index.manifest import Settings
from mundap.index.modes import DEFAULT_BM25, checked_bm25
from mundap.records import Skipped

_BASE = Path("/dev/null")  # no file is below it: sources have absolute names, whoever looks from wherever


def build(
    paths: Sequence[str | Path],
    where: str | None,
    options: Options,
    fresh: bool = False,
    watch: Watcher | None = None,
    force: bool = False,
    vectors: Path | None = None,
) -> Report:
    """Make the index hold what the paths hold, as `mundap.index.build.build`.

    With `fresh` an old index in an engine is gone at once: there is no room to keep it until the new one is done.
    Vectors that are there already, in a folder or a file, are taken from `vectors`.
    """
    if where is None or not is_address(where):
        opened = partial(VectorWriter, vectors) if vectors is not None else None
        return folder.build(paths, locate.to_write(where), options, fresh, watch, force, opened)
    engine = connect(where)
    return _ingest("index", engine, paths, options, _settings(engine, options, fresh, paths), fresh, watch, vectors)


def add(paths: Sequence[str | Path], where: str | None, options: Options, watch: Watcher | None = None) -> Report:
    """Add files to an index, or read them again if they changed."""
    if where is None or not is_address(where):
        return folder.add(paths, locate.to_read(where), options, watch)
    engine = connect(where, existing=True)
    if engine.settings() is None:
        raise IndexMissing("no index in {path}. Make one with: mundap index PATHS… -o {path}", path=where)
    return _ingest("add", engine, paths, options, _settings(engine, options, False, paths), False, watch)


def build_on_cluster(
    paths: Sequence[str | Path],
    where: str | None,
    options: Options,
    address: str,
    fresh: bool = False,
    watch: Watcher | None = None,
    force: bool = False,
) -> Report:
    """Encode over a Ray cluster, then build from the shards: the same index as one machine makes.

    The shards are beside the index, in a folder that all machines must see; for an engine, in this one.
    """
    from mundap.engines import cluster

    if where is None or not is_address(where):
        shards = cluster.beside(locate.to_write(where))
        settings = folder.settings_for(locate.to_write(where), options, fresh, paths)
    else:
        shards = Path.cwd() / ".mundap.shards"
        settings = _settings(connect(where), options, fresh, paths)
    # As the index has it, and told to every machine: none is to find out for itself.
    told = replace(
        options,
        words=settings.words,
        overlap=settings.overlap,
        sentences=settings.sentences,
        chunks=settings.chunks,
        model=settings.model or "none",
    )
    cluster.encode([str(path) for path in paths], shards, told, address, watch)
    report = build(paths, where, options, fresh, watch, force, shards)
    cluster.remove(shards)
    return report


def delete(where: str | None, documents: Sequence[str] = (), sources: Sequence[str] = ()) -> Report:
    """Delete documents by id, or everything whose source matches a pattern."""
    if where is None or not is_address(where):
        return folder.delete(locate.to_read(where), documents, sources)
    started = time.monotonic()
    report = Report()
    engine = connect(where, existing=True)
    RemoteIndex(engine)  # is there one?
    writer = EngineWriter(engine, None, {"verb": "delete"}, False, report)
    known = [name for name in documents if engine.count(Where(documents=(name,)))]
    for name in documents:
        if name not in known:
            report.skip(Skipped(name, "no document with this id."))
    report.removed += writer.delete_documents(known) if known else 0
    for pattern in sources:
        matching = [name for name in writer.corpus.sources() if fnmatchcase(name, pattern)]
        if not matching:
            report.skip(Skipped(pattern, "no source matches this pattern"))
        for name in matching:
            report.removed += writer.delete(name)
    return _finish(report, writer, started)


def _settings(engine: Engine, options: Options, fresh: bool, paths: Sequence[str | Path]) -> Settings:
    """The settings of the existing index, or new ones; an option that contradicts the former is an error."""
    if options.language is not None:
        check_language(options.language)
    note = engine.settings()
    given: dict[str, Any] = {}
    checked_bm25(options.k1, options.b, DEFAULT_BM25)
    for name in ("words", "overlap", "sentences", "chunks", "language", "dense", "k1", "b"):
        if getattr(options, name) is not None:
            given[name] = getattr(options, name)
    if note is None or fresh:
        model = options.model or default_model(paths, None, options)
        new = Settings(sentences=True, hangul=best_hangul(), **DEFAULT_BM25._asdict())
        made = replace(new, **given, **model_settings(model))
        splitter(made)  # raises on nonsense
        return made
    existing = settings_from(note)
    if options.model is not None:
        given |= model_settings(options.model)
    for name, value in given.items():
        if getattr(existing, name) != value:
            raise UsageError(
                "the index in {path} was made with {option} {old}, not {new}. Leave the option out, choose another -o, "
                "or rebuild with --fresh.",
                path=engine.address,
                option=name,
                old=getattr(existing, name) or "none",
                new=value or "none",
            )
    return existing


def _ingest(
    verb: str,
    engine: Engine,
    paths: Sequence[str | Path],
    options: Options,
    settings: Settings,
    fresh: bool,
    watch: Watcher | None,
    vectors: Path | None = None,
) -> Report:
    started = time.monotonic()
    given = [path for path in paths if str(path) != STDIN]
    roots = [Path(path).resolve() for path in given]
    if len(given) == len(paths):
        something_to_read(given, _BASE, options, None)
    job = {
        "verb": verb,
        "paths": [printable(str(root)) for root in roots],
        "ignore": list(options.ignore),
        "form": options.form,
        "fresh": fresh,
        "settings": asdict(settings),
    }
    report = Report()
    writer = EngineWriter(engine, settings, job, fresh, report, vectors)
    untyped: Any = writer  # it does what a Writer does, as far as Ingest asks for it
    reader = Ingest(untyped, options.form, watch or (lambda _: None))
    reader.report = report
    report.resumed = writer.resumed
    reader.look(find(given, _BASE, options.ignore, follow_links=options.follow_links))
    if verb == "index":
        reader.drop_vanished(roots, _BASE)
    if writer.deleting:
        writer.checkpoint()  # ids of what is gone are free again before anything new is read
    reader.run(find(paths, _BASE, options.ignore, follow_links=options.follow_links))
    if verb == "index" and len(roots) < len(paths):
        reader.drop_old_stdin()
    return _finish(report, writer, started)


def _finish(report: Report, writer: EngineWriter, started: float) -> Report:
    writer.finish()
    report.documents = writer.engine.count(Where(first=True))
    report.passages = writer.engine.count(Where())
    report.seconds = time.monotonic() - started
    report.note = writer.engine.limits
    writer.engine.close()
    return report
