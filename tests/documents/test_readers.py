"""Files are read in processes of their own: what takes too much is skipped, and the next file is read."""

import subprocess
import sys

import pytest

from mundap.documents import SourceFile
from mundap.documents import read as read_here
from mundap.documents.readers import Limits, Readers
from mundap.errors import MundapError
from mundap.records import Document, Skipped
from tests.systems import linux_only, not_windows


@pytest.fixture(autouse=True)
def readers_live_on():
    """Here each starts its own, and ends it."""


def source(path):
    return SourceFile(path, path.name, path.name)


def test_documents_arrive_as_they_were_sent(corpus):
    for path in sorted(corpus.rglob("*.*")):
        with Readers() as readers:
            assert list(readers.read(source(path))) == list(read_here(source(path)))


def test_many_files_come_in_order_and_ahead(tmp_path):
    files = []
    for n in range(12):
        path = tmp_path / f"{n:02d}.txt"
        path.write_text(f"text {n}")
        files.append(source(path))
    with Readers(processes=3) as readers:
        readers.start()
        readers.start()
        found = [[one.text for one in readers.read(file, files[n + 1 :])] for n, file in enumerate(files)]
    assert found == [[f"text {n}"] for n in range(12)]


def test_what_a_sample_has_of_a_file_is_not_read_again(tmp_path, monkeypatch):
    short, long = tmp_path / "short.txt", tmp_path / "long.jsonl"
    short.write_text("all of it")
    long.write_text("".join(f'{{"id": "{n}", "text": "row {n}"}}\n' for n in range(5)))
    begun = []
    begin = Readers._begin
    monkeypatch.setattr(Readers, "_begin", lambda self, file: (begun.append(file.id), begin(self, file)))
    with Readers() as readers:
        assert [one.text for one in readers.sample([source(short)], 2)] == ["all of it"]
        assert [one.text for one in readers.sample([source(long)], 2)] == ["row 0", "row 1"]
        assert [one.text for one in readers.read(source(short))] == ["all of it"]
        assert readers.digest == source(short).digest()
        assert len(list(readers.read(source(long)))) == 5
        assert begun == ["short.txt", "long.jsonl", "long.jsonl"]
        readers.sample([source(short)], 2)
        short.write_text("changed since")
        assert [one.text for one in readers.read(source(short))] == ["changed since"]


def test_a_sample_leaves_room_for_readers_that_work_ahead(tmp_path):
    """A reader that was stopped within a file does not count as one that is there."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(f'{{"id": "{n}", "text": "row {n}"}}\n' for n in range(5)))
    with Readers(processes=2) as readers:
        readers.sample([source(rows)] * 3, 2)
        assert readers._started == 0


def test_a_file_that_takes_too_much_memory_is_skipped_and_the_next_one_read(tmp_path):
    large = tmp_path / "large.jsonl"
    large.write_bytes(b"[" + b'{"a":1},' * 5_000_000 + b"1]\n")  # 40 MB, and a gigabyte of objects
    good = tmp_path / "good.txt"
    good.write_text("all is well")
    with Readers(limits=Limits(memory=700 << 20, memory_factor=0)) as readers:
        (skipped,) = readers.read(source(large))
        (document,) = readers.read(source(good))
    assert isinstance(skipped, Skipped)
    assert "more than 700 MB of memory" in skipped.reason
    assert isinstance(document, Document)


@not_windows
def test_a_file_that_takes_too_long_is_skipped_and_the_next_one_read(tmp_path):
    pipe = tmp_path / "slow.txt"
    subprocess.run(["mkfifo", pipe], check=True)  # whoever reads it waits for ever
    good = tmp_path / "good.txt"
    good.write_text("all is well")
    with Readers(limits=Limits(seconds=1)) as readers:
        (document,) = readers.read(source(good))  # the process has started
        (skipped,) = readers.read(source(pipe))
        (again,) = readers.read(source(good))
    assert "longer than 1 seconds" in skipped.reason
    assert document == again


@linux_only
def test_a_limit_of_the_whole_machine_is_no_fault_of_the_file(tmp_path):
    import resource

    large = tmp_path / "large.txt"
    large.write_bytes(b"word " * 30_000_000)
    code = (
        "import sys, pathlib; from mundap.documents import SourceFile; from mundap.documents.readers import Readers;"
        "p = pathlib.Path(sys.argv[1]); print(list(Readers().read(SourceFile(p, p.name, p.name))))"
    )
    limit = 360 << 20
    done = subprocess.run(
        [sys.executable, "-c", code, str(large)],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert "MundapError" in done.stderr
    assert "out of memory" in done.stderr


def test_a_reader_that_dies_costs_its_file_alone(tmp_path, monkeypatch):
    good = tmp_path / "good.txt"
    good.write_text("all is well")
    with Readers() as readers:
        readers.start()
        readers._idle[0]._process.kill()
        readers._idle[0]._ready = True
        (skipped,) = readers.read(source(good))
        assert "signal 9" in skipped.reason
        (document,) = readers.read(source(good))
    assert document.text == "all is well"


def test_readers_that_cannot_start_are_an_error(tmp_path, monkeypatch):
    good = tmp_path / "good.txt"
    good.write_text("all is well")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with Readers() as readers, pytest.raises(MundapError, match="cannot start"):
        list(readers.read(source(good)))
