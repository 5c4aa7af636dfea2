import json

import numpy as np
import pytest

from mundap import Filters, Index
from mundap.errors import UsageError


@pytest.fixture
def index(corpus, tmp_path, tiny_model):
    return Index.build([corpus], tmp_path / "i", model=str(tiny_model))


def test_passages_are_slices_of_their_documents(index):
    seen = 0
    for passage in index.passages():
        document = index.document(passage.document)
        assert document.text[passage.start : passage.end] == passage.text
        assert index.passage(passage.id) == passage
        seen += 1
    assert seen == len(index) == 10


def test_rows_that_are_passages_keep_their_ids_and_are_not_split(index):
    passage = index.passage("b3")
    assert (passage.title, passage.document, len(passage.text.split())) == ("T3", "b3", 155)
    assert index.passage("wiki:b3") == passage
    assert index.passage("one.txt#3").text.endswith("river")
    assert index.passage("one.txt") is None  # three passages: which one?
    assert index.passage("nope") is None


def test_modes(index):
    bm25 = index.search("river", mode="bm25")
    assert {hit.passage.document for hit in bm25} == {"one.txt", "two.md"}
    assert [hit.rank for hit in bm25] == [1, 2]
    assert all(hit.dense is None and hit.bm25 == hit.score for hit in bm25)
    dense = index.search("river", k=100, mode="dense")
    assert len(dense) == len(index)
    assert all(hit.bm25 is None for hit in dense)
    hybrid = index.search("river", k=100)
    assert len(hybrid) == len(index)
    assert [hit.score for hit in hybrid] == sorted((hit.score for hit in hybrid), reverse=True)


def test_every_hybrid_candidate_has_both_scores_exactly(index):
    lexical = {hit.passage.id: hit.score for hit in index.search("river music", k=100, mode="bm25")}
    dense = {hit.passage.id: hit.score for hit in index.search("river music", k=100, mode="dense")}
    for candidates in (1, 3, 2000):
        for hit in index.search("river music", k=100, candidates=candidates):
            assert hit.bm25 == pytest.approx(lexical.get(hit.passage.id, 0.0), rel=1e-5)
            assert hit.dense == pytest.approx(dense[hit.passage.id], rel=1e-5)


def test_linear_fusion_is_the_papers_formula(index):
    for hit in index.search("river", fusion="linear", scale=1.1):
        assert hit.score == pytest.approx(hit.bm25 + 1.1 * hit.dense, rel=1e-5)


@pytest.mark.parametrize("mode", ["bm25", "dense", "hybrid"])
def test_filters_return_k_where_k_exist(index, mode):
    def found(**filters):
        return {
            hit.passage.document for hit in index.search("music river row", k=5, mode=mode, filters=Filters(**filters))
        }

    assert found(documents=("b1", "b2")) == {"b1", "b2"}
    assert found(sources=("docs/corpus*",)) == {f"b{n}" for n in range(5)}
    assert found(metadata={"topic": "geo"}) == {"two.md"}
    assert found(metadata={"topic": "geo", "language": "ko"}) == set()
    assert found(documents=("nope",)) == set()


def test_a_document_counts_with_its_best_passage(index):
    hits = index.search("word1 word120 word230 river", k=3, mode="bm25", by_document=True)
    documents = [hit.passage.document for hit in hits]
    assert len(documents) == len(set(documents))
    best = max(
        hit.score
        for hit in index.search("word1 word120 word230 river", k=10, mode="bm25")
        if hit.passage.document == "one.txt"
    )
    assert next(hit.score for hit in hits if hit.passage.document == "one.txt") == best


def test_a_batch_gives_what_single_questions_give(index):
    questions = ["river", "music row", "서울"]
    for question, hits in zip(questions, index.search_batch(questions, 5), strict=True):
        alone = index.search(question, 5)
        assert [hit.passage for hit in hits] == [hit.passage for hit in alone]
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in alone], abs=1e-5)


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("", {}),
        (" \n", {}),
        ("x" * 100_001, {}),
        ("x", {"k": 0}),
        ("x", {"mode": "magic"}),
        ("x", {"fusion": "magic"}),
    ],
)
def test_wrong_usage_is_said(index, question, options):
    with pytest.raises(UsageError):
        index.search(question, **options)


@pytest.mark.parametrize("question", ["a", "the", "?!", '"a AND (b: [', "x " * 50_000, "😀"])
def test_odd_questions_are_answered_in_every_mode(index, question):
    for mode in ("bm25", "dense", "hybrid"):
        index.search(question, mode=mode)


def test_an_index_without_vectors(corpus, tmp_path):
    index = Index.build([corpus], tmp_path / "plain", model="none")
    assert index.default_mode == "bm25"
    assert index.search("river")
    with pytest.raises(UsageError, match="no vectors"):
        index.search("river", mode="dense")


def test_a_vector_does_not_depend_on_its_batch(example_index):
    encoder = example_index.encoder
    passages = [(p.title, p.text) for p, _ in zip(example_index.passages(), range(40), strict=False)]
    together = encoder.encode_passages(passages)
    assert np.array_equal(together[7], encoder.encode_passages([passages[7]])[0])
    assert np.array_equal(together[::-1], encoder.encode_passages(passages[::-1]))


def test_hit_as_json(index):
    hit = json.loads(json.dumps(index.search("river", 1)[0].as_dict()))
    assert set(hit) == {"rank", "score", "bm25", "dense", "passage"}
    assert set(hit["passage"]) >= {"id", "title", "text", "source", "start", "end"}
