"""An index of every format there has been: opened, searched, added to."""

import json
import tarfile
from dataclasses import fields
from pathlib import Path

import pytest

from mundap import Index
from mundap.index.build import add, compact, delete
from mundap.index.manifest import (
    FORMAT,
    READABLE,
    DenseEntry,
    FileEntry,
    LexicalEntry,
    Manifest,
    SegmentEntry,
    Settings,
)
from mundap.index.verify import verify

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(params=READABLE)
def golden(request, tmp_path):
    with tarfile.open(GOLDEN / f"format-{request.param}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    assert json.loads((tmp_path / "index" / "manifest.json").read_text())["format"] == request.param
    return tmp_path


def test_an_index_of_each_format_is_opened_and_searched(golden):
    expected = json.loads((golden / "expected.json").read_text())
    index = Index(golden / "index")
    assert index.documents == expected["documents"]
    assert sorted([one.id, one.title, one.text, one.source] for one in index.passages()) == expected["passages"]
    found = [[hit.passage.id, round(hit.score, 5)] for hit in index.search("river", 20)]
    assert found == expected["river"]
    assert verify(golden / "index") == []


def test_an_index_of_each_format_is_changed_and_becomes_one_of_the_newest(golden, tmp_path):
    out = golden / "index"
    expected = json.loads((golden / "expected.json").read_text())
    more = tmp_path / "more.txt"
    more.write_text("the king of the mountain")
    old = Index(out)
    add([more], out)
    assert [[hit.passage.id, round(hit.score, 5)] for hit in old.search("river", 20)] == expected["river"]
    assert json.loads((out / "manifest.json").read_text())["format"] == FORMAT
    assert Manifest.load(out).lexical.files
    assert Index(out).search("king")[0].passage.id == "more.txt"
    delete(out, ["seoul.md"])
    compact(out)
    assert verify(out) == []
    assert len(Index(out).search("river", 20)) == len(expected["river"]) - 1


FROZEN = {
    Manifest: "settings lexical generation next_number next_segment segments deleted dense tool job",
    Settings: "words overlap sentences chunks language hangul model fingerprint dimension dense recall k1 b",
    LexicalEntry: "folder files",
    SegmentEntry: "name first last passages documents files",
    DenseEntry: "file kind until passages probes candidates recall copy",
    FileEntry: "path bytes sha256",
}


@pytest.mark.parametrize("record", FROZEN, ids=lambda record: record.__name__)
def test_format_2_is_frozen(record):
    """A field that an older program may overlook is added here too. For any other, `FORMAT` becomes 3."""
    assert FORMAT == 2
    assert [one.name for one in fields(record)] == FROZEN[record].split()
