"""Reranking: a reader orders what it can read, and nothing else."""

import numpy as np
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
    order = rerank_order(
        reader, "who?", [("", "한라산"), ("", "the lord"), ("", "설악산"), ("", "the king")], [0.0] * 4
    )
    assert [place for place, _ in order] == [3, 1, 0, 2]
    assert [text for _, text in read] == ["the lord", "the king"]


def test_a_reader_of_all_scripts_scores_everything(tmp_path):
    reader = Reader(make_reader(tmp_path / "all"))
    found = rerank(reader, "who?", hits("a film", "제주도는 섬이다 villain"))
    assert [hit.score for hit in found] == [6.0, 0.0]


def test_how_well_a_passage_was_found_counts_as_much_as_the_reader_wants(tmp_path):
    """A reader hardly prefers one passage, the search clearly another."""
    passages = [("", "a king"), ("", "a villain"), ("", "a film")]
    found = [3.0, 1.0, 1.0]
    deviations = (np.array(found) - np.mean(found)) / np.std(found)
    for weight in (0.0, 2.0, 20.0):
        folder = make_reader(tmp_path / str(weight), scripts="latin", retrieval_weight=weight)
        reader = Reader(folder)
        alone = dict(rerank_order(reader, "who?", passages, [0.0] * 3))
        mixed = dict(rerank_order(reader, "who?", passages, found))
        for place in range(3):
            assert mixed[place] == pytest.approx(alone[place] + weight * deviations[place])
    assert rerank_order(reader, "who?", passages, found)[0][0] == 0
    assert rerank_order(reader, "who?", [], []) == []


def test_a_passage_that_was_read_is_never_behind_one_that_was_not(tmp_path):
    """The first ten are found nearly equally well, so that the eleventh is thousands of deviations behind."""
    reader = Reader(make_reader(tmp_path / "r", scripts="latin", retrieval_weight=2.0))
    passages = [("", "한라산"), *[("", "a king")] * 9, ("", "a villain")]
    found = [1.0 + 1e-4 * n for n in range(10)] + [-9.0]
    order = rerank_order(reader, "who?", passages, found)
    assert order[-1] == (0, UNSCORED)
    assert order[-2][0] == 10 and order[-2][1] < UNSCORED
