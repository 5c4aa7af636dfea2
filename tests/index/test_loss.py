"""What cannot be read now is not lost: neither by a lack of memory, nor by a broken file, nor by a fresh build."""

import subprocess
import sys

import pytest

from mundap import Index
from mundap.errors import MundapError
from mundap.index.build import Options, build, delete
from mundap.index.manifest import Manifest
from mundap.index.verify import verify
from tests.systems import linux_only

resource = pytest.importorskip("resource")  # Windows has no limits

PLAIN = Options(model="none")


@pytest.fixture
def docs(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for n in range(10):
        (folder / f"{n}.html").write_text(f"<html><body><p>river number {n}</p></body></html>")
    return folder


def names(out):
    return sorted(passage.id for passage in Index(out).passages())


def limited(what, limit, *arguments):
    """Run the program with so little of something."""
    return subprocess.run(
        [sys.executable, "-m", "mundap", *map(str, arguments)],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(what, (limit, limit)),
    )


@linux_only
@pytest.mark.parametrize("fresh", [True, False])
def test_lack_of_memory_empties_no_index(docs, tmp_path, fresh):
    out = tmp_path / "i"
    build([docs], out, PLAIN)
    before = names(out)
    for path in docs.iterdir():
        path.write_text(path.read_text().replace("river", "mountain"))
    done = limited(
        resource.RLIMIT_AS, 600 << 20, "index", docs, "-o", out, "--model", "none", *(["--fresh"] if fresh else [])
    )
    assert names(out) == before
    assert done.returncode != 3
    assert "Traceback" not in done.stderr
    assert verify(out) == []


@pytest.mark.parametrize("size", [100, 1000])
def test_a_compaction_without_room_is_said_and_changes_nothing(docs, tmp_path, size):
    out = tmp_path / "i"
    build([docs], out, PLAIN)
    delete(out, ["3.html"])
    before = names(out)
    done = limited(resource.RLIMIT_FSIZE, size, "compact", "-i", out)
    assert done.returncode == 1
    assert "cannot write to" in done.stderr
    assert "Traceback" not in done.stderr
    assert names(out) == before
    assert verify(out) == []
    assert limited(resource.RLIMIT_FSIZE, 1 << 30, "compact", "-i", out).returncode == 0


def test_a_fresh_build_without_room_is_not_called_damage(docs, tmp_path):
    out = tmp_path / "i"
    build([docs], out, PLAIN)
    before = names(out)
    done = limited(resource.RLIMIT_FSIZE, 100, "index", docs, "-o", out, "--fresh", "--model", "none")
    assert done.returncode == 1
    assert "cannot write to" in done.stderr
    assert names(out) == before


def test_a_changed_file_that_cannot_be_read_keeps_its_old_version(docs, tmp_path):
    out = tmp_path / "i"
    build([docs], out, PLAIN)
    (docs / "3.html").rename(docs / "3.pdf")
    build([docs], out, PLAIN)
    (docs / "4.html").write_bytes(b"\x00\x01\x02 no text")
    report = build([docs], out, PLAIN)
    assert "4.html" in names(out)
    assert "river number 4" in {passage.text for passage in Index(out).passages()}
    assert any("4.html" in one.source and "is kept" in one.reason for one in report.skipped)
    (docs / "4.html").write_text("<html><body><p>mountain number 4</p></body></html>")
    build([docs], out, PLAIN)
    assert "mountain number 4" in {passage.text for passage in Index(out).passages()}
    (docs / "4.html").write_text("")  # emptied, and not broken
    build([docs], out, PLAIN)
    assert "4.html" not in names(out)
    assert verify(out) == []


def test_a_fresh_build_with_far_less_is_committed_only_by_force(docs, tmp_path):
    out = tmp_path / "i"
    build([docs], out, PLAIN)
    before = names(out)
    for n in range(6):
        (docs / f"{n}.html").unlink()
    with pytest.raises(MundapError, match="4 documents in place of 10.*--force"):
        build([docs], out, PLAIN, fresh=True)
    assert names(out) == before
    assert verify(out) == []
    build([docs], out, PLAIN, fresh=True, force=True)
    assert len(names(out)) == 4


def test_a_fresh_build_keeps_the_settings(docs, tmp_path):
    out = tmp_path / "i"
    build([docs], out, Options(model="none", words=30, language="de"))
    build([docs], out, Options(overlap=5), fresh=True)
    settings = Manifest.load(out).settings
    assert (settings.model, settings.words, settings.language, settings.overlap) == ("", 30, "de", 5)
