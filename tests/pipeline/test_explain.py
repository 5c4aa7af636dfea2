"""Explaining an answer takes what `ask` found and read."""

import pytest

from mundap import Index
from mundap.pipeline.ask import ask
from mundap.pipeline.explain import explain
from mundap.reader.runtime import Reader
from tests.conftest import make_reader

CURVE = {"bias": 0.0, "selection": 0.5}


@pytest.fixture
def index(tmp_path, tiny_model):
    docs = tmp_path / "docs"
    docs.mkdir()
    for number, text in enumerate(["the king of music", "the king", "a film", "the lord of a ring", "water"]):
        (docs / f"{number}.txt").write_text(text)
    return Index.build([docs], tmp_path / "index", model=str(tiny_model))


def test_nothing_is_searched_or_read_again(index, tmp_path, monkeypatch):
    reader = Reader(make_reader(tmp_path / "reader", confidence=CURVE))
    result = ask(index, "king of music", reader)

    def refuse(*arguments, **options):
        raise AssertionError("again")

    for owner, name in ((Reader, "read_batch"), (Index, "search_batch"), (type(index.encoder), "encode_questions")):
        monkeypatch.setattr(owner, name, refuse)
    rows = explain(index, reader, result)
    assert [row.hit for row in rows] == list(result.hits)
    assert all(row.read for row in rows)
    best = {row.hit.passage.text: row.best.text if row.best else None for row in rows}
    assert (best["the king of music"], best["the lord of a ring"]) == ("king", "lord")
    assert sum(row.selection for row in rows) == pytest.approx(1)
    music = next(row for row in rows if row.hit.passage.text == "the king of music")
    assert set(music.words) == {"king", "music"}
    assert music.hit.dense is not None and music.hit.bm25 is not None


def test_what_was_not_read_is_told_apart(index, tmp_path):
    reader = Reader(make_reader(tmp_path / "reader", confidence=CURVE, early_stop=0.5))
    result = ask(index, "king of music", reader)
    rows = explain(index, reader, result)
    assert [row.read for row in rows] == [True, True, False, False, False]
    assert rows[-1].as_dict()["best_span"] is None
    assert rows[0].as_dict()["best_span"]["text"] == "king"


def test_nothing_is_explained_where_nothing_was_read(index, tmp_path):
    reader = Reader(make_reader(tmp_path / "reader", scripts="latin"))
    assert explain(index, reader, ask(index, "왕은 누구인가", reader)) == []
