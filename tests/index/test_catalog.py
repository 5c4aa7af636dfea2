"""What an index says of its documents: the list, the facts with counts, filters by facts, what was skipped."""

import json
import os

import pytest

from mundap import Index
from mundap.errors import UsageError
from mundap.index.build import Options, add, build, compact, delete
from mundap.index.matching import Filters


@pytest.fixture
def folder(tmp_path):
    docs = tmp_path / "docs"
    (docs / "manual").mkdir(parents=True)
    (docs / "manual" / "ships.md").write_text(
        "# Ships\n\nA ship needs a crew.\n\n## Sails\n\n" + "The sails are made of strong cloth and last for years. " * 8
        + "\n\n## Anchors\n\n" + "The anchor is heavy and lies on the ground of the sea. " * 8
    )  # fmt: skip
    (docs / "seoul.txt").write_text("서울은 대한민국의 수도이자 가장 큰 도시이다.")
    (docs / "photo.png").write_bytes(b"\x89PNG")
    (docs / "broken.pdf").write_bytes(b"%PDF-1.4 nonsense")
    for name, year in (("manual/ships.md", 2021), ("seoul.txt", 2024)):
        stamp = (year - 1970) * 365.25 * 86400 + 100 * 86400
        os.utime(docs / name, (stamp, stamp))
    return docs


@pytest.fixture
def index(folder, tmp_path):
    report = build([folder], tmp_path / "i", Options(model="none"))
    assert (report.skipped_count, sum(report.left_out.values())) == (1, 1)
    return Index(tmp_path / "i")


def texts(index, **filters):
    passages = index._corpus.passages_at(index._corpus.matching(Filters(**filters)))
    return [passage.title for passage in passages]


def test_the_list_has_what_a_person_wants_to_know(index):
    found, total = index.listing(sort="passages")
    assert total == 2
    assert [(one.id, one.type, one.language, one.modified[:4]) for one in found] == [
        ("manual/ships.md", "markdown", "en", "2021"),
        ("seoul.txt", "text", "ko", "2024"),
    ]
    assert found[0].passages == len(index.passages_of("manual/ships.md")) > 1
    assert index.listing("SHIPS")[1] == 1
    assert [one.id for one in index.listing(filters=Filters(metadata={"language": "ko"}))[0]] == ["seoul.txt"]
    assert ([one.id for one in index.listing(most=1, first=1)[0]], index.listing(most=1)[1]) == (["seoul.txt"], 2)
    with pytest.raises(UsageError):
        index.listing(sort="colour")


def test_facts_are_counted_by_passages(index):
    facts = index.facts()
    assert facts["language"]["ko"] == 1
    assert facts["type"] == {"markdown": len(index) - 1, "text": 1}
    assert set(facts["modified"]) == {"2021", "2024"}


def test_filters_by_facts_of_passage_and_file(index):
    assert texts(index, metadata={"language": "ko"}) == ["seoul"]
    assert texts(index, metadata={"section": "Sails"}) == ["Ships > Sails"]
    assert len(texts(index, metadata={"folder": "docs"})) == len(index)
    assert len(texts(index, metadata={"folder": "docs/manual"})) == len(index) - 1
    assert texts(index, metadata={"modified": "2024"}) == ["seoul"]
    assert texts(index, ranges=(("modified", ">", "2021"),)) == ["seoul"]
    assert len(texts(index, ranges=(("modified", ">=", "2021"),))) == len(index)
    assert texts(index, ranges=(("modified", ">", "2024"),)) == []
    assert texts(index, metadata={"colour": "red"}) == []


def test_passages_know_their_place_also_after_compaction(index, tmp_path):
    def places():
        found = Index(tmp_path / "i").passages()
        return sorted((one.title, one.metadata["language"], one.place(), one.text[:20]) for one in found)

    before = places()
    assert ("Ships > Sails", "en") in {place[:2] for place in before}
    assert before[-1][0] == "seoul"
    extra = tmp_path / "extra.txt"
    extra.write_text("Some more words about ships and the sea.")
    add([extra], tmp_path / "i")
    delete(tmp_path / "i", ["extra.txt"])
    compact(tmp_path / "i")
    assert places() == before


def test_what_was_skipped_is_remembered(index, folder, tmp_path):
    assert [one.source for one in index.skipped()] == ["docs/broken.pdf"]
    (folder / "broken.pdf").unlink()
    build([folder], tmp_path / "i")
    assert Index(tmp_path / "i").skipped() == []


def test_rows_of_numbers_are_compared_as_numbers(tmp_path):
    rows = tmp_path / "r.jsonl"
    rows.write_text('{"id": "a", "text": "one", "year": 900}\n{"id": "b", "text": "two", "year": 1900}\n')
    index = Index.build([rows], tmp_path / "i", model="none")
    corpus = index._corpus
    assert corpus.names_at(corpus.matching(Filters(ranges=(("year", ">", "1000"),)))) == ["b"]


HOSTILE = ("\ud800", "\0", '"', "\\", "[", "[!", "*" * 300, "nan", "-inf", "1e999", "9" * 5000, "x" * 100_000, "' OR 1=1 --",
           "../../etc/passwd", "\x1b[2J", "\u202e", "{0}", "%s")  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: ascii(value)[:20])
def test_hostile_values_of_filters_find_nothing_and_break_nothing(index, value):
    for key in ("type", "page", "section", "folder", "modified", "language", value):
        assert texts(index, metadata={key: value}) == []
        for sign in ("<", "<=", ">", ">="):
            texts(index, ranges=((key, sign, value),))
    assert texts(index, documents=(f"{value}?",)) == []
    texts(index, sources=(value,))
    assert index.listing(f"{value}?", Filters(), "id", 10) == ([], 0)
    assert index.document(f"{value}?") is None


def test_a_fact_with_a_quote_in_its_name_is_compared(tmp_path):
    (tmp_path / "rows.jsonl").write_text(json.dumps({"_id": "1", "text": "the river", 'a"b\\c': "5"}) + "\n")
    build([tmp_path / "rows.jsonl"], tmp_path / "i", Options(model="none"))
    found = Index(tmp_path / "i")
    assert len(texts(found, ranges=(('a"b\\c', ">", "4"),))) == 1
    assert len(texts(found, metadata={'a"b\\c': "5"})) == 1
