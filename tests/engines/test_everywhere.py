"""What must hold wherever an index lives: a folder, milvus-lite, a Milvus server."""

import json

import pytest

from mundap import Filters, Reader, ask
from mundap.engines import build, open_index
from mundap.errors import IndexMissing, UsageError
from mundap.index.build import Options
from mundap.records import Skipped


@pytest.fixture
def made(corpus, place, tiny_model):
    report = build.build([corpus], place, Options(model=str(tiny_model)))
    assert (report.documents, report.passages, report.added, report.skipped) == (8, 10, 10, [])
    return place


def modes_of(index):
    return getattr(index, "modes", ("bm25", "dense", "hybrid"))


def names(hits):
    return [hit.passage.id for hit in hits]


def test_holds_every_passage_and_document_as_it_was(made, corpus):
    index = open_index(made)
    assert (len(index), index.documents) == (10, 8)
    seen = 0
    for passage in index.passages():
        document = index.document(passage.document)
        assert document.text[passage.start : passage.end] == passage.text
        assert index.passage(passage.id) == passage
        seen += 1
    assert seen == 10
    assert [passage.id for passage in index.passages_of("one.txt")] == ["one.txt#1", "one.txt#2", "one.txt#3"]
    assert index.document("one.txt").text == (corpus / "one.txt").read_text()
    assert index.passage("wiki:b3").title == "T3"
    assert index.document("b3").whole
    facts = index.passage("two.md").metadata
    assert (facts["language"], facts["topic"], facts["section"], facts["line"]) == ("en", "geo", "Head", "6")
    assert index.passage("two.md").place() == "line 6"
    assert index.passage("nope") is None and index.document("nope") is None
    assert index.has("b3") and not index.has("nope")


def test_dense_search_is_the_inner_product(made):
    index = open_index(made)
    hits = index.search("river", k=100, mode="dense")
    assert len(hits) == 10
    question = index.encoder.encode_questions(["river"])[0]
    for hit in hits:
        passage = index.encoder.encode_passages([(hit.passage.title, hit.passage.text)])[0]
        assert hit.score == hit.dense == pytest.approx(float(question @ passage), abs=2e-3)
        assert hit.bm25 is None
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert [hit.rank for hit in hits] == list(range(1, 11))
    assert len(index.search("river", k=3, mode="dense")) == 3


def test_bm25_and_hybrid_where_there_is_full_text(made):
    index = open_index(made)
    if "bm25" not in modes_of(index):
        assert index.default_mode == "dense"
        with pytest.raises(UsageError, match="BM25 came with 2.5: dense search only. Use the mode dense"):
            index.search("river", mode="bm25")
        with pytest.raises(UsageError, match="dense"):
            index.search("river", mode="hybrid")
        return
    found = index.search("Rivers", mode="bm25")
    assert {hit.passage.document for hit in found} == {"one.txt", "two.md"}  # stemmed, by our own analyzer
    assert found[0].score > found[1].score > 0
    assert index.search("한강", mode="bm25")[0].passage.id == "sub/세.txt"
    assert index.search("zzzz", mode="bm25") == []
    assert index.default_mode == "hybrid"
    hybrid = index.search("river", k=100)
    assert len(hybrid) == 10 and hybrid[0].bm25 and hybrid[0].dense
    assert names(index.search("river", k=100, fusion="rrf"))[0] in ("two.md", "one.txt#3")
    for hit in index.search("river", fusion="linear", scale=1.1):
        assert hit.score == pytest.approx(hit.bm25 + 1.1 * hit.dense, rel=1e-5)


def test_filters(made):
    index = open_index(made)
    mode = index.default_mode

    def found(**given):
        return sorted(names(index.search("river music", 100, mode, filters=Filters(**given))))

    assert found(documents=("two.md", "b1")) == ["b1", "two.md"]
    assert found(sources=("*.jsonl",)) == ["b0", "b1", "b2", "b3", "b4"]
    assert found(sources=("*/docs/*",) if "://" in made else ("docs/*",)) != []
    assert found(sources=("nowhere/*",)) == []
    assert found(metadata={"topic": "geo"}) == ["two.md"]
    assert found(metadata={"topic": "geo", "language": "ko"}) == []
    assert found(metadata={'to"pic': 'g"e\\o'}) == []
    assert index.matching(Filters(sources=("*.jsonl",))) == 5


def test_metadata_with_quotes_is_found(place, tmp_path, tiny_model):
    value = 'a "b" \\c\\ 한'
    folder = tmp_path / "odd"
    folder.mkdir()
    rows = [{"_id": 'x"1\\', "text": "the river", "metadata": {"k'ey": value}}, {"_id": "x2", "text": "the city"}]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    build.build([folder], place, Options(model=str(tiny_model)))
    index = open_index(place)
    assert index.passage('x"1\\').metadata.get("k'ey") == value
    assert names(index.search("river", filters=Filters(metadata={"k'ey": value}))) == ['x"1\\']
    assert names(index.search("river", filters=Filters(documents=('x"1\\',)))) == ['x"1\\']


def test_many_questions_and_one_hit_a_document(made):
    index = open_index(made)
    mode = index.default_mode
    many = index.search_batch(["river", "music", "king"] * 30, 4, mode)
    assert [names(hits) for hits in many[:3]] == [names(index.search(q, 4, mode)) for q in ("river", "music", "king")]
    assert len(many) == 90
    documents = [hit.passage.document for hit in index.search("word1 river", 100, mode, by_document=True)]
    assert len(documents) == len(set(documents)) == 8


def test_rerank(made):
    index = open_index(made)
    hits = index.rerank("river", ["two.md", "b1", "one.txt", "nope"], index.default_mode)
    assert sorted(names(hits)) == ["b1", "one.txt#1", "one.txt#2", "one.txt#3", "two.md"]


def test_only_what_changed_is_read_again(made, corpus, tiny_model):
    options = Options(model=str(tiny_model))
    assert build.build([corpus], made, options).unchanged == 4
    (corpus / "two.md").write_text("The king has a ring.")
    (corpus / "sub" / "세.txt").unlink()
    (corpus / "new.txt").write_text("The moon and the sun.")
    report = build.build([corpus], made, options)
    assert (report.added, report.removed, report.unchanged, report.passages) == (2, 2, 2, 10)
    index = open_index(made)
    assert index.document("two.md").text == "The king has a ring."
    assert index.passage("sub/세.txt") is None
    assert names(index.search("the sun and moon", 1, "dense")) == ["new.txt"]


def test_add_and_delete(made, tmp_path):
    extra = tmp_path / "extra.txt"
    extra.write_text("A villain of the moon.")
    report = build.add([extra], made, Options())
    assert (report.added, report.passages) == (1, 11)
    assert open_index(made).passage("extra.txt").text == "A villain of the moon."
    report = build.delete(made, ["one.txt", "nope", "b1"])
    assert (report.removed, report.passages, report.documents) == (4, 7, 7)
    assert report.skipped[0].source == "nope"
    index = open_index(made)
    assert index.document("one.txt") is None
    assert "b1" not in names(index.search("music", 100, "dense"))
    report = build.delete(made, sources=["*.jsonl", "nowhere"])
    assert (report.removed, report.passages) == (4, 3)
    assert report.skipped == [Skipped("nowhere", "no source matches this pattern")]


def test_a_deleted_file_is_read_again(made, corpus, tiny_model):
    build.delete(made, ["two.md"])
    report = build.build([corpus], made, Options(model=str(tiny_model)))
    assert (report.added, report.passages) == (1, 10)


def test_equal_ids_are_told_apart(made, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "corpus.jsonl").write_text('{"_id": "b1", "text": "another"}\n{"_id": "b1", "text": "twice"}\n')
    report = build.add([other], made, Options())
    assert (report.renamed, report.added, report.skipped_count) == (2, 2, 0)
    assert open_index(made).passage("corpus.jsonl#b1").text == "another"


def test_settings_are_kept(made, corpus):
    with pytest.raises(UsageError, match="was made with words 100, not 50"):
        build.build([corpus], made, Options(words=50))
    assert build.build([corpus], made, Options(words=50), fresh=True).passages > 10


def test_documents_as_a_list(made):
    index = open_index(made)
    found, total = index.listing()
    assert total == 8 and [one.id for one in found] == sorted(one.id for one in index.catalog())
    one = next(one for one in found if one.id == "one.txt")
    assert (one.passages, one.size) == (3, len(index.document("one.txt").text))
    korean = next(one for one in found if one.id == "sub/세.txt")
    assert (korean.language, len(korean.modified)) == ("ko", 10)
    found, total = index.listing("T", Filters(sources=("*.jsonl",)), most=2, first=1)
    assert ([one.id for one in found], total) == (["b1", "b2"], 5)
    assert index.listing(sort="passages", most=1)[0][0].id == "one.txt"
    assert index.listing(filters=Filters(metadata={"topic": "geo"}))[0][0].metadata["topic"] == "geo"
    with pytest.raises(UsageError, match="choose one of"):
        index.listing(sort="colour")


def test_looking_makes_nothing(place, tmp_path):
    before = sorted(tmp_path.iterdir())
    with pytest.raises(IndexMissing):
        open_index(place)
    assert sorted(tmp_path.iterdir()) == before


def test_none_there(place):
    with pytest.raises(IndexMissing, match="no index"):
        open_index(place)
    with pytest.raises(IndexMissing, match="no index"):
        build.add(["/etc/hostname"], place, Options())


def test_questions_are_answered(made, tiny_reader):
    index = open_index(made)
    answered = ask(index, "where is the river", Reader.from_pretrained(tiny_reader), threshold=0.0)
    assert answered.hits
    assert index.info()["passages"] == 10
    with pytest.raises(UsageError, match="empty"):
        index.search(" ")
