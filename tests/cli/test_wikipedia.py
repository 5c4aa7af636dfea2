import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.documents.wikipedia.making import multistream, page, pages, plain
from tests.program import mundap
from tests.systems import not_windows


@pytest.fixture
def dump(tmp_path):
    path = tmp_path / "enwiki-latest-pages-articles-multistream.xml.bz2"
    parts = [
        *pages(6),
        page(7, "Old", "#REDIRECT [[Article 1]]", redirect="Article 1"),
        page(8, "A", "* b\n{{disambig}}"),
    ]
    path.write_bytes(multistream(parts)[0])
    return path


def test_passages_of_a_dump(dump, tmp_path):
    code, out, err = mundap("data", "wikipedia", dump, "-o", tmp_path / "psgs.tsv")
    assert (code, err) == (0, "")
    first, second, third = out.splitlines()
    assert first == f"{tmp_path}/psgs.tsv: 18 passages of 6 articles; 8 pages in all"
    assert second == "left out: redirects 1, disambiguation 1, other namespaces 0, empty 0; skipped 0"
    assert "pages/s" in third
    assert (tmp_path / "psgs.tsv").read_text().startswith("id\ttext\ttitle\n1\tArticle 1 is about word1x0 word1x1")


def test_json_and_exit_codes(dump, tmp_path):
    broken = tmp_path / "broken.xml"
    broken.write_bytes(plain([page(1, "Good", "Text."), page(2, "Bad", "x").replace(b"</text>", b"<b></text>")]))
    code, out, _ = mundap("data", "wikipedia", dump, broken, "-o", tmp_path / "p.tsv.gz", "--json", "--words", 50)
    report = json.loads(out)
    assert code == 3 and report["passages"] == 37 and report["pages"] == 10 and report["skipped_count"] == 1
    assert report["skipped"][0]["reason"].startswith("page 'Bad': invalid XML (")
    code, _, err = mundap("data", "wikipedia", broken, "-o", tmp_path / "p.tsv", "--strict")
    assert code == 1 and "skipped" in err and "page 'Bad'" in err
    code, _, err = mundap("data", "wikipedia", tmp_path / "none.xml", "-o", tmp_path / "p.tsv")
    assert code == 1 and "no such file" in err
    code, _, err = mundap("data", "wikipedia", dump, "-o", tmp_path)
    assert code == 2 and "not a file" in err


def test_options(tmp_path):
    path = tmp_path / "x.xml"
    path.write_bytes(plain([page(1, "Emma", "''Emma'' is a novel.\n== Plot ==\nShe errs.")]))
    for options, expected in (
        ((), "Emma is a novel. She errs."),
        (("--headings",), "Emma is a novel. Plot She errs."),
        (("--published", "--words", "8"), '"Emma ""Emma"" is a novel. She errs. Emma"'),
    ):
        assert mundap("data", "wikipedia", path, "-o", tmp_path / "o.tsv", *options)[0] == 0
        assert (tmp_path / "o.tsv").read_text().splitlines()[1] == f"1\t{expected}\tEmma"


def test_a_dump_straight_into_an_index(dump, tmp_path):
    code, out, _ = mundap("index", dump, "-o", tmp_path / "i", "--model", "none", "--json")
    assert code == 0 and json.loads(out)["documents"] == 6 and json.loads(out)["passages"] == 18
    code, out, _ = mundap("search", "-i", tmp_path / "i", "word3x120", "--json", "-k", 1)
    (hit,) = json.loads(out)["hits"]
    assert hit["passage"]["id"] == "enwiki:3#2" and hit["passage"]["title"] == "Article 3"
    facts = {"language": "en", "url": "https://en.wikipedia.org/wiki/Article_3"}
    assert facts.items() <= hit["passage"]["metadata"].items()
    assert hit["passage"]["end"] - hit["passage"]["start"] == len(hit["passage"]["text"])
    code, out, _ = mundap("index", dump, "-o", tmp_path / "i", "--model", "none", "--json")
    assert json.loads(out)["unchanged"] == 1
    assert mundap("verify", "-i", tmp_path / "i")[0] == 0


SLOWLY = """
import sys, time
from pathlib import Path
from mundap.documents.wikipedia import dump
from mundap.index import build, ingest, writer

dump._PACKED_CHUNK, writer.CHECKPOINT_SECONDS, ingest._BATCH = 1000, 0.1, 3
options = build.Options(model="none")
build.build([sys.argv[1]], Path(sys.argv[2]), options, watch=lambda now: time.sleep(0.02))
"""


def has_segments(manifest):
    return manifest.exists() and bool(json.loads(manifest.read_bytes())["segments"])


@not_windows
def test_a_killed_build_from_a_dump_goes_on(tmp_path):
    path, out = tmp_path / "x.bz2", tmp_path / "i"
    path.write_bytes(multistream(pages(80))[0])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "MUNDAP_THREADS": "2"}
    process = subprocess.Popen([sys.executable, "-c", SLOWLY, str(path), str(out)], env=environment)
    limit = time.monotonic() + 300
    while not has_segments(out / "manifest.next.json") and time.monotonic() < limit:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (out / "manifest.json").exists()
    code, text, _ = mundap("index", path, "-o", out, "--model", "none", "--json")
    report = json.loads(text)
    assert code == 0 and report["resumed"] and report["documents"] == 80 and report["passages"] == 240
    assert report["added"] < 240
    assert mundap("verify", "-i", out)[0] == 0
