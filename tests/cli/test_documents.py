"""`mundap list`, facts in `info` and `--where`, and small things about the command line. In this process: no model is needed."""

import json

import pytest
from click.testing import CliRunner

from mundap.cli import main


def mundap(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "river.md").write_text("# River\n\nThe river is long.\n")
    (tmp_path / "docs" / "seoul.txt").write_text("서울은 대한민국의 수도이자 가장 큰 도시이다.")
    (tmp_path / "docs" / "photo.png").write_bytes(b"\x89PNG")
    (tmp_path / "docs" / "old.doc").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    told = mundap("index", "docs", "--model", "none")
    assert told.exit_code == 0 or "skipped" in told.output
    return tmp_path


def test_list_filters_and_what_was_skipped(place):
    found = json.loads(mundap("list", "--json").stdout)
    assert [one["id"] for one in found["documents"]] == ["river.md", "seoul.txt"]
    assert json.loads(mundap("list", "--json", "--where", "language=ko").stdout)["total"] == 1
    assert "seoul.txt" in mundap("list", "--sort", "size").stdout
    assert "old.doc" in mundap("list", "--skipped").stdout
    assert "markdown" in mundap("info").stdout
    assert "KEY=VALUE" in str(mundap("search", "--where", "language", "river").exception)


def test_a_project_stands_for_the_index_in_it(place):
    assert "river.md" in mundap("list", "-i", place).stdout


def test_a_command_that_is_nearly_right(tmp_path):
    told = mundap("aks", "what?")
    assert told.exit_code == 2
    assert "Did you mean 'ask'?" in told.output


def test_a_list_sends_no_codes_to_the_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a\x1b[2Jb\u202e.md").write_text("# Title \x1b]0;gone\x07 \x9b31m\n\nThe river.\n")
    (tmp_path / "docs" / "c\x1b[2J.pdf").write_bytes(b"%PDF-1.4 nonsense")
    mundap("index", "docs", "--model", "none")
    for words in (("list",), ("list", "--skipped"), ("info",), ("list", "--where", "\x1b[2J>1"), ("list", "\x1b[2J")):
        told = mundap(*words)
        assert told.exit_code == 0
        assert not set("\x1b\x9b\x07\u202e") & set(told.output), words
    assert "The river" not in mundap("list").output
    assert mundap("list").stdout.count("\n") == 1


def test_hits_name_their_place_and_rows_stand_on_lines_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "peaks.md").write_text(
        "# Peaks\n\nOf two.\n\n| Name | Height |\n|---|---|\n| Ring | 12 |\n| King | 13 |\n"
    )
    (tmp_path / "stock.csv").write_text("Sort,Price\nSejak,48\nUjeon,30\n")
    mundap("index", ".", "--model", "none")
    lines = mundap("search", "Ring", "-k", "1").stdout.splitlines()
    assert lines[1].startswith("    peaks.md:1  [")
    assert lines[2:5] == ["    Peaks Of two.", "    Name: Ring; Height: 12", "    Name: King; Height: 13"]
    assert "    stock.csv, row 2  [" in mundap("search", "Sejak", "-k", "1").stdout
