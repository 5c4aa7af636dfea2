"""Reranking: a reader orders what it can read, and nothing else."""

import pytest

from mundap.pipeline.search import UNSCORED, rerank, rerank_order
from mundap.reader.runtime import Reader
from mundap.records import Hit, Passage
from tests.conftest import make_reader


@pytest.fixture
def reader(tmp_path):
    return Reader(make_reader(tmp_path / "latin", scripts="latin"))


def hits(*texts):
    return [
        Hit(rank, 11.0 - rank, Passage(str(rank), str(rank), "", text, "", 0, len(text)))
        for rank, text in enumerate(texts, 1)
    ]


def test_a_passage_in_a_script_that_the_reader_does_not_know_is_not_scored(reader):
    """The villain would be the best word, but what a Latin reader says of a Korean passage means nothing."""
    found = rerank(reader, "who?", hits("제주도는 대한민국의 섬이다 villain 한라산", "a film", "the king"))
    assert [hit.passage.text for hit in found[:2]] == ["the king", "a film"]
    assert found[2].passage.text.startswith("제주도")
    assert (found[2].rank, found[2].score) == (3, UNSCORED)


def test_unknown_passages_keep_their_order_and_are_not_read(reader):
    read = []
    scored = reader.read
    reader.read = lambda question, passages: read.extend(passages) or scored(question, passages)
    order = rerank_order(reader, "who?", [("", "한라산"), ("", "the lord"), ("", "설악산"), ("", "the king")])
    assert [place for place, _ in order] == [3, 1, 0, 2]
    assert [text for _, text in read] == ["the lord", "the king"]


def test_a_reader_of_all_scripts_scores_everything(tmp_path):
    reader = Reader(make_reader(tmp_path / "all"))
    found = rerank(reader, "who?", hits("a film", "제주도는 섬이다 villain"))
    assert [hit.score for hit in found] == [6.0, 0.0]
