import io
import os
import sys
from types import SimpleNamespace

import pytest

from mundap.documents import SourceFile, find, read
from mundap.documents.walk import stdin_copy
from mundap.errors import MundapError
from mundap.records import Skipped
from tests.systems import not_windows


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "root"
    for name in (
        "b.txt",
        "a.txt",
        "sub/c.md",
        "sub/deep/d.txt",
        ".hidden/x.txt",
        "build/out.txt",
        "sub/skip.log",
        "이름 😀.txt",
    ):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
    (root / ".gitignore").write_text("build/\n")
    (root / "sub" / ".gitignore").write_text("*.log\n")
    return root


def names(found):
    return [file.id for file in found]


def test_folders_are_walked_in_order_without_hidden_and_ignored_files(tree, tmp_path):
    assert names(find([tree], tmp_path)) == ["a.txt", "b.txt", "sub/c.md", "sub/deep/d.txt", "이름 😀.txt"]


def test_ignore_patterns(tree, tmp_path):
    assert names(find([tree], tmp_path, ["deep/", "*.md"])) == ["a.txt", "b.txt", "이름 😀.txt"]


def test_sources_are_relative_below_the_base_and_absolute_elsewhere(tree, tmp_path):
    assert next(iter(find([tree], tmp_path))).source == "root/a.txt"
    assert next(iter(find([tree], tmp_path / "elsewhere"))).source == (tree / "a.txt").as_posix()


def test_the_gitignore_of_the_repository_above_counts(tree, tmp_path):
    (tree / ".git").mkdir()
    (tree / ".gitignore").write_text("d.txt\n")
    assert names(find([tree / "sub"], tmp_path)) == ["c.md"]


def test_an_index_is_never_its_own_input(tree, tmp_path):
    (tree / "i" / "segments").mkdir(parents=True)
    (tree / "i" / "manifest.json").write_text("{}")
    assert not [name for name in names(find([tree], tmp_path)) if name.startswith("i/")]


def test_a_file_given_twice_is_read_once(tree, tmp_path):
    assert names(find([tree / "a.txt", tree / "sub", tree / "sub/c.md"], tmp_path)) == [
        "a.txt",
        "c.md",
        "deep/d.txt",
    ]


def test_a_missing_path_is_an_error_and_a_broken_link_a_note(tree, tmp_path):
    with pytest.raises(MundapError, match="no such file"):
        list(find([tree / "nope"], tmp_path))
    (tree / "zz.txt").symlink_to(tree / "gone")
    assert [f for f in find([tree], tmp_path) if isinstance(f, Skipped)] == [
        Skipped("root/zz.txt", "broken symbolic link")
    ]


@pytest.mark.parametrize(
    ("data", "texts"),
    [
        (b"plain words", ["plain words"]),
        (b'{"id": "1", "text": "x"}\n{"id": "2", "text": "y"}\n', ["x", "y"]),
        (b"id\ttext\ttitle\n1\tz\tT\n", ["z"]),
    ],
)
def test_standard_input(monkeypatch, data, texts):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    with stdin_copy() as copy:
        assert [document.text for document in read(copy)] == texts
    assert not copy.path.exists()


def test_the_deepest_gitignore_has_the_last_word(tree, tmp_path):
    (tree / ".gitignore").write_text("*.log\n")
    (tree / "sub" / ".gitignore").write_text("!skip.log\n")
    assert "sub/skip.log" in names(find([tree], tmp_path))
    assert "sub/skip.log" not in names(find([tree], tmp_path, ["*.log"]))


@not_windows
def test_strange_entries_are_named_and_stop_nothing(tree, tmp_path):
    (tree / "loop").symlink_to(tree / "loop")
    os.mkfifo(tree / "pipe")
    (tree / "deeper" / ".gitignore").mkdir(parents=True)
    (tree / os.fsdecode(b"a\xff.txt")).write_text("x")
    (tree / os.fsdecode(b"a\xfe.txt")).write_text("y")
    found = list(find([tree], tmp_path))
    assert {f.source for f in found if isinstance(f, Skipped)} == {"root/loop", "root/pipe"}
    assert {"a\\xff.txt", "a\\xfe.txt"} <= {f.id for f in found if isinstance(f, SourceFile)}
    with pytest.raises(MundapError):
        list(find(["x" * 5000], tmp_path))
    with pytest.raises(MundapError):
        list(find([tree], tmp_path, ["!"]))


def test_links_that_lead_out_are_not_followed_unless_asked_for(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    (inside / "own.txt").write_text("own")
    (inside / "alias.txt").symlink_to("own.txt")
    (inside / "out.txt").symlink_to(outside / "secret.txt")
    (inside / "folder").symlink_to(outside)
    (inside / "sub" / "loop").symlink_to(inside)
    found = list(find([inside], tmp_path))
    assert [one.id for one in found if isinstance(one, SourceFile)] == ["alias.txt", "own.txt"]
    left = [one for one in found if isinstance(one, Skipped)]
    assert len(left) == 3
    assert all(one.expected for one in left)
    followed = [one.id for one in find([inside], tmp_path, follow_links=True) if isinstance(one, SourceFile)]
    assert followed == ["alias.txt", "folder/secret.txt", "out.txt", "own.txt"]
    (direct,) = find([inside / "out.txt"], tmp_path)
    assert direct.path.read_text() == "secret"
