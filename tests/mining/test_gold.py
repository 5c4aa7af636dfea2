import pytest

from mundap import Index
from mundap.mining.gold import find_gold
from mundap.pipeline.retrieve import retrieve, retrieve_among
from mundap.records import Context, Question

FIRST = (
    "The Han River runs through Seoul. It is one of the longest rivers of Korea and its banks are parks now. "
    "In the summer of 1988 people came from everywhere to see the boats on it and to walk over its many bridges."
)
SECOND = (
    "Many wars were fought about the valley, for whoever held it held the trade. The last of them ended in 1953 and "
    "left the bridges broken. They were built again, and in 1988 there were more of them than ever before in time."
)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """A paragraph cut between FIRST and SECOND, and others about something else."""
    folder = tmp_path_factory.mktemp("pool")
    (folder / "han.txt").write_text(f"{FIRST} {SECOND}")
    for number in range(6):
        (folder / f"{number}.txt").write_text(f"Text number {number} about a film, a king and the music of 1988.")
    return Index.build([folder], folder / "i", model="none", words=43)


def test_the_passage_with_the_answer_in_its_place(pool):
    text = f"{FIRST} {SECOND}"
    first, last = text.index("1988"), text.rindex("1988")
    asked = [Question("a", "When?", ("1988",), (Context("x", "Han", text),), start) for start in (first, last)]
    assert [[p.id for p in find_gold(pool, question)] for question in asked] == [["han.txt#1"], ["han.txt#2"]]
    anywhere = Question("a", "When?", ("1988",), (Context("x", "Han", text),))
    assert {p.id for p in find_gold(pool, anywhere)} == {"han.txt#1", "han.txt#2"}


def test_another_edition_of_the_text_is_recognised(pool):
    edited = FIRST.replace("It is one of the longest rivers of Korea", "It's among the longest in Korea")
    question = Question("a", "Which river?", ("Han River",), (Context("", "", f"Some words before. {edited}"),))
    assert [p.id for p in find_gold(pool, question)] == ["han.txt#1"]


def test_what_is_not_in_the_pool_is_not_found(pool):
    other = Question("a", "Who?", ("king",), (Context("", "", "A king of another country sat on a golden throne."),))
    assert find_gold(pool, other) == []
    without = Question("a", "Who?", ("Napoleon",), (Context("", "", FIRST),))
    assert find_gold(pool, without) == []
    assert find_gold(pool, Question("a", "Who?", ("x",))) == []


def test_by_id_of_a_passage_or_a_document(pool):
    assert [p.id for p in find_gold(pool, Question("a", "?", ("1953",), (Context("han.txt"),)))] == ["han.txt#2"]
    assert [p.id for p in find_gold(pool, Question("a", "?", ("1988",), (Context("han.txt#1"),)))] == ["han.txt#1"]
    assert find_gold(pool, Question("a", "?", ("1988",), (Context("nowhere"),))) == []


def test_an_id_of_another_corpus_does_not_mislead(pool):
    """Ids are only believed where there is no text to compare."""
    question = Question("a", "?", ("1988",), (Context("1.txt", "", FIRST),))
    assert [p.id for p in find_gold(pool, question)] == ["han.txt#1"]


def test_reranking_keeps_every_candidate_and_adds_none(pool):
    question = Question("a", "the Han river in Seoul")
    candidates = [["1.txt", "han.txt#1", "gone", "han.txt#2", "1.txt"]]
    (result,) = retrieve_among(pool, [question], candidates, "bm25")
    names = [context.id for context in result.contexts]
    assert names[0] == "han.txt#1"
    assert sorted(names) == ["1.txt", "han.txt#1", "han.txt#2"]
    (documents,) = retrieve_among(pool, [question], [["1.txt", "han.txt"]], "bm25", by_document=True)
    assert [context.id for context in documents.contexts] == ["han.txt", "1.txt"]
    (none,) = retrieve_among(pool, [question], [[]], "bm25")
    assert none.contexts == ()


def test_reranking_a_run_of_its_own_changes_nothing(example_index):
    asked = [Question(str(n), text) for n, text in enumerate(["Who is the bad guy in Lord of the Rings?", "한강은?"])]
    for mode in ("bm25", "dense", "hybrid"):
        found = list(retrieve(example_index, asked, 30, mode))
        candidates = [[context.id for context in result.contexts] for result in found]
        again = list(retrieve_among(example_index, asked, candidates, mode))
        if mode == "hybrid":  # its scores are relative to the list
            assert [{c.id for c in r.contexts} for r in again] == [{c.id for c in r.contexts} for r in found]
        else:
            assert [[c.id for c in r.contexts] for r in again] == [[c.id for c in r.contexts] for r in found]


def test_a_fragment_is_not_the_passage(tmp_path):
    (tmp_path / "whole.txt").write_text(FIRST)
    (tmp_path / "head.txt").write_text("The Han River runs through")
    index = Index.build([tmp_path], tmp_path / "i", model="none")
    question = Question("a", "Which river?", ("Han River",), (Context("", "", FIRST),), 4)
    assert [p.id for p in find_gold(index, question)] == ["whole.txt"]
