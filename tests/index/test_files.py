"""The files that an index is made of: one walk, and every file read once, standard input too."""

import io
import sys
from types import SimpleNamespace

import pytest

from mundap import Index
from mundap.documents import walk
from mundap.errors import MundapError
from mundap.index.build import Options, build
from mundap.index.files import find_files
from mundap.models import folder as models


def test_standard_input_is_there_for_the_choice_of_a_model_and_for_reading(tmp_path, monkeypatch):
    if models.MULTILINGUAL not in models.installed():
        pytest.skip("needs mundap-models-multilingual")
    korean = "서울은 대한민국의 수도이다. 한강은 서울을 흐르는 강이다. 부산은 큰 항구 도시이다.\n"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(korean.encode())))
    report = build(["-"], tmp_path / "i")
    assert (report.documents, report.skipped_count) == (1, 0)
    assert Index(tmp_path / "i").manifest.settings.model == models.MULTILINGUAL


def test_a_build_walks_the_folders_once(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "one.txt").write_text("the king of the river")
    walks = []
    folder = walk._folder
    monkeypatch.setattr(walk, "_folder", lambda *words: walks.append(words[0]) or folder(*words))
    build([tmp_path / "docs"], tmp_path / "i", Options(model="none"))
    assert walks == [tmp_path / "docs"]


def test_the_copy_of_standard_input_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"the river")))
    with find_files(["-"], tmp_path, Options()) as files:
        (copy,) = files.found
        assert copy.path.read_bytes() == b"the river"
    assert not copy.path.exists()


def test_nothing_to_read_is_an_error_before_anything_is_made(tmp_path):
    (tmp_path / "docs").mkdir()
    with pytest.raises(MundapError, match="nothing to index"):
        build([tmp_path / "docs"], tmp_path / "i", Options(model="none"))
    assert not (tmp_path / "i").exists()
