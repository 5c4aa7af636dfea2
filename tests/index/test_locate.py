"""An index that is found in a folder above must be the user's own."""

import os
from pathlib import Path

import pytest

from mundap.disk import write_atomic
from mundap.errors import IndexDamaged, UsageError
from mundap.index import locate
from mundap.index.analyzer import Analyzer
from mundap.index.build import Options, add, build
from mundap.index.lexical import LexicalWriter

PLAIN = Options(model="none")
needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def planted(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("the river")
    build([tmp_path / "a.txt"], tmp_path / ".mundap", PLAIN)
    below = tmp_path / "private" / "notes"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    return tmp_path / ".mundap"


def test_ones_own_index_above_is_found(planted):
    assert locate.to_read(None) == planted
    assert locate.to_write(None) == planted


@needs_root
@pytest.mark.parametrize("what", [".", "manifest.json"])
def test_somebody_elses_is_refused_unless_it_is_named(planted, what):
    os.chown(planted / what, 12345, 12345)
    for look in (locate.to_read, locate.to_write):
        with pytest.raises(UsageError, match="belongs to another user.* name its folder: "):
            look(None)
    assert locate.to_read(planted) == planted


@needs_root
def test_a_link_of_somebody_elses_is_refused(planted, tmp_path):
    planted.rename(tmp_path / "mine")
    planted.symlink_to(tmp_path / "mine")
    os.lchown(planted, 12345, 12345)
    with pytest.raises(UsageError, match="belongs to another user"):
        locate.to_read(None)


def test_no_mode_is_changed_through_a_link(tmp_path):
    (tmp_path / "a.txt").write_text("the river")
    out = tmp_path / "i"
    build([tmp_path / "a.txt"], out, PLAIN)
    victim = next(out.glob("lexical-*/*.store"))
    private = tmp_path / "private"
    private.write_bytes(victim.read_bytes())
    private.chmod(0o600)
    victim.unlink()
    victim.symlink_to(private)
    (tmp_path / "b.txt").write_text("the sea")
    with pytest.raises(IndexDamaged, match="not a regular file"):
        add([tmp_path / "b.txt"], out)
    assert private.stat().st_mode & 0o777 == 0o600


def test_a_link_put_there_while_a_writer_works_is_not_followed(tmp_path):
    folder = tmp_path / "lexical"
    writer = LexicalWriter(folder, Analyzer("en"), 1)
    writer.add(0, "", "the river")
    writer.commit()
    victim = next(folder.glob("*.store"))
    private = tmp_path / "private"
    victim.rename(private)
    private.chmod(0o600)
    victim.symlink_to(private)
    with pytest.raises(OSError, match="symbolic links"):
        writer.finish()
    assert private.stat().st_mode & 0o777 == 0o600


def test_a_link_in_place_of_a_temporary_file_is_not_written_through(tmp_path):
    private, path = tmp_path / "private", tmp_path / "manifest.json"
    private.write_text("secret")
    (tmp_path / "manifest.json.tmp").symlink_to(private)
    write_atomic(path, b"new")
    assert private.read_text() == "secret"
    assert path.read_text() == "new"
    assert not path.is_symlink()


def test_a_link_that_comes_back_at_once_is_not_written_through(tmp_path, monkeypatch):
    private, link = tmp_path / "private", tmp_path / "manifest.json.tmp"
    private.write_text("secret")
    monkeypatch.setattr(Path, "unlink", lambda self, missing_ok=False: link.symlink_to(private))
    with pytest.raises(FileExistsError):
        write_atomic(tmp_path / "manifest.json", b"new")
    assert private.read_text() == "secret"
