"""Readers see exactly the committed state, whatever a writer is doing or was doing when it died."""

import os
import shutil
from pathlib import Path

import pytest

from mundap import Index
from mundap.documents import SourceFile
from mundap.documents.readers import Readers
from mundap.index.build import Options, add, build, compact, delete
from mundap.index.files import InputFiles
from mundap.index.ingest import Ingest
from mundap.index.lexical import listed
from mundap.index.manifest import IN_PROGRESS, Manifest
from mundap.index.verify import verify
from mundap.index.writer import Writer
from tests.systems import linux_only

PLAIN = Options(model="none")


@pytest.fixture(autouse=True)
def one_segment(monkeypatch):
    """Tantivy's threads share documents by chance; one that is alone in its segment leaves no list of deletions."""
    monkeypatch.setattr("mundap.index.writer.cores", lambda: 1)


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for n in range(20):
        (folder / f"{n:02d}.txt").write_text(f"river {n} " + "the music of the moon " * n)
    return folder


def ranking(out):
    return [(hit.passage.id, hit.score) for hit in Index(out).search("river music 7", 50, "bm25")]


def test_unfinished_work_does_not_change_a_score(docs, tmp_path):
    out = tmp_path / "i"
    build([docs], out, PLAIN)
    before = ranking(out)
    more = tmp_path / "more.txt"
    more.write_text("river music " * 500)
    with Writer(out) as writer:
        with Readers() as readers:
            Ingest(writer, InputFiles([SourceFile(more, "more.txt", "more.txt")], readers)).run()
        assert ranking(out) == before
        writer.checkpoint()  # on the disk, and not committed
        assert ranking(out) == before
    assert ranking(out) == before  # as after a kill: nobody cleaned up
    assert verify(out) == []
    add([more], out)
    assert ranking(out) != before


def test_deletions_do_not_change_a_score_before_they_are_committed(docs, tmp_path):
    out = tmp_path / "i"
    build([docs], out, PLAIN)
    old = Index(out)
    before = [(hit.passage.id, hit.score) for hit in old.search("river music 7", 50)]
    delete(out, ["03.txt", "04.txt"])
    compact(out)
    assert [(hit.passage.id, hit.score) for hit in old.search("river music 7", 50)] == before
    assert len(ranking(out)) == 18


def orphan(out, tmp_path):
    """The file that tantivy writes first when a document is deleted."""
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    before = {path.name for path in copy.glob("lexical-*/*")}
    delete(copy, ["03.txt"])
    (found,) = (path for path in copy.glob("lexical-*/*.del") if path.name not in before)
    return found


@pytest.mark.parametrize("whole", [True, False])
def test_a_file_left_by_a_killed_writer_stops_no_later_one(docs, tmp_path, whole):
    out = tmp_path / "i"
    build([docs], out, PLAIN)
    left = orphan(out, tmp_path)
    (folder,) = out.glob("lexical-*")
    (folder / left.name).write_bytes(left.read_bytes()[: None if whole else 5])
    assert verify(out) == []
    delete(out, ["03.txt"])
    add([docs], out)
    compact(out)
    assert verify(out) == []
    assert len(ranking(out)) == 20


def test_a_file_left_in_unfinished_work_stops_no_resumed_build(docs, tmp_path):
    out = tmp_path / "i"
    build([docs], out, PLAIN)
    (docs / "03.txt").write_text("the river has changed")
    job = {"verb": "index", "paths": [str(docs)], "ignore": [], "links": False, "form": None, "fresh": False}
    with Writer(out, job=job) as writer, Readers() as readers:
        changed = SourceFile(docs / "03.txt", "03.txt", "docs/03.txt")
        reader = Ingest(writer, InputFiles([changed], readers))
        reader.look()
        writer.checkpoint()
        reader.run()
        writer.checkpoint()
    (docs / "04.txt").unlink()
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    unfinished = Manifest.load(out, IN_PROGRESS).lexical.folder
    assert unfinished != Manifest.load(out).lexical.folder
    before = {path.name for path in (copy / unfinished).iterdir()}
    assert build([docs], copy).resumed
    (left,) = (path for path in (copy / unfinished).glob("*.del") if path.name not in before)
    (out / unfinished / left.name).write_bytes(b"half")  # the name that the next writer takes
    assert build([docs], out).resumed
    assert verify(out) == []
    assert len(ranking(out)) == 19


def test_what_tantivy_does_not_list_is_gone_after_a_commit(docs, tmp_path):
    out = tmp_path / "i"
    build([docs], out, PLAIN)
    delete(out, ["03.txt"])
    compact(out)
    folder = out / Manifest.load(out).lexical.folder
    assert sorted(path.name for path in folder.iterdir()) == listed(folder)


@linux_only
def test_new_folders_are_on_the_disk_before_the_manifest_names_them(docs, tmp_path, monkeypatch):
    """A power cut after the commit must not take a folder whose entry was only in memory."""
    out = tmp_path / "i"
    build([docs], out, PLAIN)
    (docs / "new.txt").write_text("the river is new")
    done = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor):
        found = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if found.is_dir() and found.is_relative_to(out):
            done.append((str(found.relative_to(out)), sorted(one.name for one in found.iterdir())))
        fsync(descriptor)

    def replaced(self, target):
        if Path(target).is_relative_to(out):
            done.append((str(Path(target).relative_to(out)), []))
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    add([docs / "new.txt"], out)
    manifest = Manifest.load(out)
    commit = next(n for n, (name, _) in enumerate(done) if name == "manifest.json")
    before = done[:commit]
    segment = manifest.segments[-1].name
    assert any(name == "segments" and segment in held for name, held in before)
    assert any(name == f"segments/{segment}" and "strings.bin" in held for name, held in before)
    assert any(name == "." and manifest.lexical.folder in held for name, held in before)
    assert any(name == manifest.lexical.folder and "meta.json" in held for name, held in before)
    assert any(name == "." for name, _ in done[commit:])
