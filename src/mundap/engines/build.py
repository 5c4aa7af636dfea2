"""The verbs that change an index, in a folder or in an engine: build, add, delete."""

import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from mundap.documents.walk import printable
from mundap.engines import connect, is_address
from mundap.engines.engine import Engine, Where
from mundap.engines.remote import RemoteIndex
from mundap.engines.state import settings_from
from mundap.engines.vectors import VectorWriter
from mundap.engines.writer import EngineWriter
from mundap.errors import EngineError, IndexMissing
from mundap.index import build as folder
from mundap.index import locate
from mundap.index.build import Options
from mundap.index.files import InputFiles, find_files
from mundap.index.ingest import Ingest, Report, Watcher
from mundap.index.manifest import Settings
from mundap.index.writer import Writer
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
        opened: folder.OpenWriter = Writer
        if vectors is not None:
            opened = partial(VectorWriter, vectors)
        return folder.build(paths, where, options, fresh, watch, force, opened)
    engine = connect(where)
    with find_files(paths, _BASE, options) as files:
        return _ingest("index", engine, files, options, fresh, watch, vectors)


def add(paths: Sequence[str | Path], where: str | None, options: Options, watch: Watcher | None = None) -> Report:
    """Add files to an index, or read them again if they changed."""
    if where is None or not is_address(where):
        return folder.add(paths, locate.to_read(where), options, watch)
    engine = connect(where, existing=True)
    if engine.settings() is None:
        raise IndexMissing("no index in {path}. Make one with `mundap index PATHS… -o {path}`.", path=where)
    with find_files(paths, _BASE, options) as files:
        return _ingest("add", engine, files, options, False, watch)


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
        out = locate.to_write(where)
        shards = cluster.beside(out)
        with find_files(paths, _BASE, options, out) as files:
            settings = folder.settings_for(out, options, fresh, files)
    else:
        shards = Path.cwd() / ".mundap.shards"
        with find_files(paths, _BASE, options) as files:
            settings = _settings(connect(where), options, fresh, files)
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
    shutil.rmtree(shards, ignore_errors=True)
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
    _delete_documents(writer, documents, report)
    _delete_sources(writer, sources, report)
    return _finish(report, writer, started)


def _delete_documents(writer: EngineWriter, documents: Sequence[str], report: Report) -> None:
    known = []
    for name in documents:
        if writer.engine.count(Where(documents=(name,))):
            known.append(name)
        else:
            report.skip(Skipped(name, "no document with this id."))
    if known:
        report.removed += writer.delete_documents(known)


def _delete_sources(writer: EngineWriter, patterns: Sequence[str], report: Report) -> None:
    for pattern in patterns:
        matching = [name for name in writer.corpus.sources() if fnmatchcase(name, pattern)]
        if not matching:
            report.skip(Skipped(pattern, "no source matches this pattern"))
        for name in matching:
            report.removed += writer.delete(name)


def _settings(engine: Engine, options: Options, fresh: bool, files: InputFiles) -> Settings:
    """The settings of the existing index, or new ones; an option that contradicts the former is an error."""
    note = engine.settings()
    existing = None
    if note is not None:
        try:
            existing = settings_from(note)
        except EngineError:
            if not fresh:
                raise
    return folder.chosen_settings(existing, engine.address, options, fresh, files)


def _ingest(
    verb: str,
    engine: Engine,
    files: InputFiles,
    options: Options,
    fresh: bool,
    watch: Watcher | None,
    vectors: Path | None = None,
) -> Report:
    started = time.monotonic()
    settings = _settings(engine, options, fresh, files)
    job = _job(verb, files.roots, options, settings, fresh)
    report = Report()
    writer = EngineWriter(engine, settings, job, fresh, report, vectors)
    report.resumed = writer.resumed
    untyped: Any = writer  # it does what a Writer does, as far as Ingest asks for it
    reader = Ingest(untyped, files, watch)
    reader.report = report
    reader.look()
    if verb == "index":
        reader.drop_vanished()
    if writer.deleting:
        writer.checkpoint()  # ids of what is gone are free again before anything new is read
    reader.run()
    return _finish(report, writer, started)


def _job(verb: str, roots: Sequence[Path], options: Options, settings: Settings, fresh: bool) -> dict[str, Any]:
    """What is being done: the same again goes on where it was broken off."""
    return {
        "verb": verb,
        "paths": [printable(str(root)) for root in roots],
        "ignore": list(options.ignore),
        "links": options.follow_links,
        "form": options.form,
        "fresh": fresh,
        "settings": asdict(settings),
    }


def _finish(report: Report, writer: EngineWriter, started: float) -> Report:
    writer.finish()
    report.documents = writer.engine.count(Where(first=True))
    report.passages = writer.engine.count(Where())
    report.seconds = time.monotonic() - started
    report.note = writer.engine.limits
    writer.engine.close()
    return report
