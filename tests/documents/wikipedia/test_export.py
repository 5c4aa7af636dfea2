import bz2
import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mundap.documents import SourceFile, Splitter, read
from mundap.documents.wikipedia import dump
from mundap.documents.wikipedia.articles import Article, Style
from mundap.documents.wikipedia.export import export
from mundap.documents.wikipedia.passages import Cut, rows
from mundap.errors import MundapError, UsageError
from tests.documents.wikipedia.making import head, multistream, page, pages, plain
from tests.systems import linux_only


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    monkeypatch.setenv("MUNDAP_THREADS", "1")


def table(path):
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream, delimiter="\t"))


def written(folder, data, name="x.xml", out="psgs.tsv", **options):
    (folder / name).write_bytes(data)
    report = export([folder / name], folder / out, **options)
    return report, table(folder / out)


def test_the_form_of_psgs_w100(tmp_path):
    text = " ".join(f"w{number}" for number in range(230)) + ' and "so" on.'
    report, (header, *passages) = written(
        tmp_path, plain([page(1, 'The "Thing"', text), page(2, "Next", "Short text.")])
    )
    assert header == ["id", "text", "title"]
    assert [row[0] for row in passages] == ["1", "2", "3", "4"]
    assert [len(row[1].split()) for row in passages] == [100, 100, 33, 2]
    assert [row[2] for row in passages] == ['The "Thing"'] * 3 + ["Next"]
    assert " ".join(row[1] for row in passages[:3]) == text
    raw = (tmp_path / "psgs.tsv").read_bytes().decode()
    assert raw.startswith("id\ttext\ttitle\n1\tw0 w1") and '""so"" on."\t"The ""Thing"""\n4\tShort text.\tNext\n' in raw
    assert report.passages == 4 and report.counts["articles"] == 2 and not report.resumed
    # What others, and we ourselves, make of it
    again = list(read(SourceFile(tmp_path / "psgs.tsv", "psgs.tsv", "psgs.tsv")))
    assert [(one.id, one.text, one.title) for one in again] == [tuple(row) for row in passages]
    assert sorted(os.listdir(tmp_path)) == ["psgs.tsv", "x.xml"]


def test_as_published(tmp_path):
    """The real file: the title is part of the text, italics are quoted, the last passage goes on with the first words."""
    text = "''Aaron'' is a prophet " + " ".join(f"w{number}" for number in range(120))
    _, (_, *passages) = written(
        tmp_path, plain([page(1, "Aaron B", text)]), style=Style(quotes=True), cut=Cut(published=True)
    )
    assert [len(row[1].split()) for row in passages] == [100, 100]
    assert passages[0][1].startswith('Aaron B "Aaron" is a prophet w0 w1')
    assert 'w118 w119 Aaron B "Aaron" is a prophet w0' in passages[1][1]


def test_an_article_shorter_than_a_passage_as_published():
    (row,) = rows(Article("1", "A", "b c"), Cut(words=8, published=True))
    assert row == b"A b c A b c A b\tA"


def test_passages_are_those_of_an_index():
    article = Article("1", "서울", "서울은 대한민국의 수도이다. " * 60)
    expected = [" ".join(article.text[start:end].split()) for start, end in Splitter(100).spans(article.text)]
    assert [row.decode().split("\t")[0] for row in rows(article, Cut())] == expected


def test_headings(tmp_path):
    data = plain([page(1, "A", "Lead.\n== History ==\nText.")])
    assert written(tmp_path, data)[1][1][1] == "Lead. Text."
    assert written(tmp_path, data, style=Style(headings=True))[1][1][1] == "Lead. History Text."


def test_several_files_folders_compression_and_what_is_no_dump(tmp_path):
    folder = tmp_path / "dumps"
    folder.mkdir()
    data, index = multistream(pages(10))
    (folder / "enwiki-pages-articles-multistream.xml.bz2").write_bytes(data)
    (folder / "enwiki-pages-articles-multistream-index.txt.bz2").write_bytes(index)
    (folder / "enwiki-pages-articles2.xml-p11p12.gz").write_bytes(
        gzip.compress(plain([page(11, "Eleven", "Text."), page(12, "Twelve", "Text.")]))
    )
    (folder / "notes.txt").write_text("no dump")
    report = export([folder], tmp_path / "psgs.tsv.gz")
    found = table(tmp_path / "psgs.tsv.gz")
    assert [row[0] for row in found[1:]] == [str(number) for number in range(1, 33)]
    assert found[-1] == ["32", "Text.", "Twelve"]
    assert report.counts["pages"] == 12 and report.skipped_count == 1
    assert "not a Wikipedia dump" in report.skipped[0].reason


def test_the_result_does_not_depend_on_the_number_of_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(dump, "_PACKED_CHUNK", 1000)
    (tmp_path / "x.bz2").write_bytes(multistream(pages(60))[0])
    for processes in (1, 3):
        export([tmp_path / "x.bz2"], tmp_path / f"{processes}.tsv", processes=processes)
    assert (tmp_path / "1.tsv").read_bytes() == (tmp_path / "3.tsv").read_bytes()


SLOWLY = """
import sys, time
from pathlib import Path
from mundap.documents.wikipedia import dump, export

dump._CHUNK, dump._PACKED_CHUNK, export._CHECKPOINT_SECONDS = 4000, 1000, 0
export.export([Path(sys.argv[1])], Path(sys.argv[2]), watch=lambda *now: time.sleep(0.05), processes=2)
"""


@linux_only
@pytest.mark.parametrize("kind", ["plain", "bz2", "gz"])
def test_a_killed_run_goes_on_and_leaves_no_process_behind(tmp_path, monkeypatch, kind):
    data = plain(pages(80))
    made = {"plain": data, "bz2": multistream(pages(80))[0], "gz": gzip.compress(data)}[kind]
    (tmp_path / "dump").write_bytes(made)
    out, notes = tmp_path / "psgs.tsv", tmp_path / "psgs.tsv.part.json"
    process = subprocess.Popen([sys.executable, "-c", SLOWLY, str(tmp_path / "dump"), str(out)], env=environment())
    until(lambda: notes.exists() and json.loads(notes.read_bytes())["passages"] > 20)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    workers = [int(number) for number in children.read_text().split()] if children.exists() else []
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not out.exists()
    until(lambda: not any(Path(f"/proc/{number}/cmdline").exists() and alive(number) for number in workers))
    monkeypatch.setattr(dump, "_CHUNK", 4000)
    monkeypatch.setattr(dump, "_PACKED_CHUNK", 1000)
    before = json.loads(notes.read_bytes())["passages"]
    report = export([tmp_path / "dump"], out)
    assert report.resumed and before > 20 and report.counts["pages"] == 80
    export([tmp_path / "dump"], tmp_path / "whole.tsv")
    assert out.read_bytes() == (tmp_path / "whole.tsv").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["dump", "psgs.tsv", "whole.tsv"]


def environment():
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def alive(number):
    return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def until(true, seconds=30):
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_other_options_do_not_go_on_with_what_was_begun(tmp_path, monkeypatch):
    (tmp_path / "dump").write_bytes(plain(pages(20)))
    monkeypatch.setattr(dump, "_CHUNK", 4000)
    monkeypatch.setattr("mundap.documents.wikipedia.export._CHECKPOINT_SECONDS", 0)

    def stop(done, read, total):
        if done > 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export([tmp_path / "dump"], tmp_path / "psgs.tsv", watch=stop)
    report = export([tmp_path / "dump"], tmp_path / "psgs.tsv", cut=Cut(words=50))
    assert not report.resumed
    assert all(len(row[1].split()) <= 50 for row in table(tmp_path / "psgs.tsv"))


def test_damaged_notes_are_no_reason_to_fail(tmp_path):
    (tmp_path / "dump").write_bytes(plain(pages(3)))
    (tmp_path / "psgs.tsv.part").write_bytes(b"half")
    (tmp_path / "psgs.tsv.part.json").write_bytes(b"{half")
    assert not export([tmp_path / "dump"], tmp_path / "psgs.tsv").resumed


def test_two_runs_do_not_write_into_one_file(tmp_path):
    from filelock import FileLock

    (tmp_path / "dump").write_bytes(plain(pages(3)))
    with FileLock(tmp_path / "psgs.tsv.part.lock"), pytest.raises(MundapError, match="another process"):
        export([tmp_path / "dump"], tmp_path / "psgs.tsv")


def test_what_cannot_be_done_is_said(tmp_path):
    (tmp_path / "notes").write_text("no dump")
    (tmp_path / "empty").write_bytes(plain([]))
    (tmp_path / "lists").write_bytes(plain([page(1, "List", "* a")]))
    with pytest.raises(MundapError, match=r"no Wikipedia dump to read: .*beginning\. Give files"):
        export([tmp_path / "notes"], tmp_path / "o")
    with pytest.raises(MundapError, match="no such file"):
        export([tmp_path / "nothing"], tmp_path / "o")
    with pytest.raises(MundapError, match="no article in it: no pages"):
        export([tmp_path / "empty"], tmp_path / "o")
    with pytest.raises(MundapError, match="1 pages, 1 empty"):
        export([tmp_path / "lists"], tmp_path / "o")
    with pytest.raises(UsageError, match="one of the files to read"):
        export([tmp_path / "lists"], tmp_path / "lists")
    with pytest.raises(UsageError, match="not a file"):
        export([tmp_path / "lists"], tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["empty", "lists", "notes"]


MEASURED = """
import re, resource, sys
from pathlib import Path
from mundap.documents.wikipedia.export import export

export([Path(sys.argv[1])], Path(sys.argv[2]), processes=2)
# What getrusage says of this process itself includes the one that started it.
alone = int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text()).group(1))
print(alone // 1024, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measured by /proc")
@pytest.mark.parametrize(
    "name", ["x.xml", *(pytest.param(name, marks=pytest.mark.slow) for name in ("x.xml.gz", "x.xml.bz2"))]
)
def test_memory_does_not_grow_with_the_dump(tmp_path, name):
    """140 MB, mostly comments, which are read but quickly cleaned; more than any process may hold."""
    filler = page(1, "Article 1", "A text of words.\n<!--" + "x" * (2 << 20) + "-->")
    dump = {"x.xml": head() + filler * 70, "x.xml.bz2": bz2.compress(head()) + bz2.compress(filler) * 70}
    dump["x.xml.gz"] = gzip.compress(dump["x.xml"], 1) if name == "x.xml.gz" else b""
    (tmp_path / name).write_bytes(dump[name])
    command = [sys.executable, "-c", MEASURED, str(tmp_path / name), str(tmp_path / "psgs.tsv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    assert max(map(int, done.stdout.split())) < 120, done.stdout  # megabytes; 500 are allowed
    assert len(table(tmp_path / "psgs.tsv")) == 71
