import threading

import pytest

from mundap import Filters, Index, Reader
from mundap.errors import IndexMissing
from mundap.index.build import add, delete
from mundap.index.latest import Latest
from mundap.integrations.search import Search, facts
from mundap.pipeline.search import RERANK_DEPTH, rerank
from mundap.records import Hit, Passage


def test_a_search_is_that_of_the_index(folder):
    index = Index(folder)
    for mode in ("bm25", "dense", "hybrid", None):
        assert Search(folder, mode, False, None)("river", 4) == index.search("river", 4, mode)
    only = Filters(metadata={"topic": "geo"})
    assert [hit.passage.document for hit in Search(index, None, False, None)("river", 4, only)] == ["two.md"]


def test_an_empty_index(folder):
    delete(folder, sources=["*"])
    for given in (Index(folder), folder, str(folder)):
        assert Search(given, None, False, None)("river", 3) == []


def test_reranking_is_that_of_the_reader(folder, tiny_reader):
    found = Index(folder).search("music", RERANK_DEPTH)
    expected = rerank(Reader.from_pretrained(tiny_reader), "music", found)[:3]
    assert Search(folder, None, True, tiny_reader)("music", 3) == expected


def test_a_folder_is_opened_again_after_a_commit_and_an_open_index_is_not(folder, tmp_path):
    living, still = Search(folder, "bm25", False, None), Search(Index(folder), "bm25", False, None)
    assert living("zebra", 3) == still("zebra", 3) == []
    (tmp_path / "new.txt").write_text("A zebra by the river.")
    add([tmp_path / "new.txt"], folder)
    assert [hit.passage.document for hit in living("zebra", 3)] == ["new.txt"]
    assert still("zebra", 3) == []


def test_the_encoder_is_loaded_once(folder, tmp_path):
    latest = Latest(folder)
    before = latest()
    encoder = before.encoder
    assert latest() is before
    (tmp_path / "new.txt").write_text("A zebra by the river.")
    add([tmp_path / "new.txt"], folder)
    assert latest() is not before
    assert latest().encoder is encoder


def test_an_index_that_goes_and_comes_back(folder, tmp_path):
    latest = Latest(folder)
    latest()
    folder.rename(tmp_path / "away")
    with pytest.raises(IndexMissing, match="no index in"):
        latest()
    (tmp_path / "away").rename(folder)
    assert latest().search("river", 1)


def test_many_threads_get_one_index(folder):
    latest, seen = Latest(folder), []
    threads = [threading.Thread(target=lambda: seen.append(latest())) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, seen))) == 1


def test_a_documents_metadata_cannot_pose_as_what_is_known_of_the_hit():
    passage = Passage("p", "d", "T", "text", "a.md", 3, 7, {"source": "evil", "rank": "0", "colour": "red"})
    assert facts(Hit(2, 0.5, passage, bm25=1.5)) == {
        "colour": "red",
        "passage": "p",
        "document": "d",
        "title": "T",
        "source": "a.md",
        "start": 3,
        "end": 7,
        "rank": 2,
        "bm25": 1.5,
    }
