"""An index that is found in a folder above must be the user's own."""

import os

import pytest

from mundap.errors import IndexDamaged, UsageError
from mundap.index import locate
from mundap.index.build import Options, add, build

PLAIN = Options(model="none")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


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
        with pytest.raises(UsageError, match="belongs to another user.*-i"):
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
    with pytest.raises(IndexDamaged, match="no ordinary file"):
        add([tmp_path / "b.txt"], out)
    assert private.stat().st_mode & 0o777 == 0o600


def test_a_link_in_place_of_a_temporary_file_is_not_written_through(tmp_path):
    (tmp_path / "a.txt").write_text("the river")
    out = tmp_path / "i"
    build([tmp_path / "a.txt"], out, PLAIN)
    private = tmp_path / "private"
    private.write_text("secret")
    (out / "manifest.json.tmp").symlink_to(private)
    (tmp_path / "b.txt").write_text("the sea")
    add([tmp_path / "b.txt"], out)
    assert private.read_text() == "secret"
