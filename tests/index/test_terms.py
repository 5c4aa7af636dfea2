"""BM25 with a k1 and b of one's own: tantivy's candidates, scored again."""

import json

import numpy as np
import pytest

from mundap import Index
from mundap.errors import IndexDamaged, UsageError
from mundap.index import lexical as lexical_module
from mundap.index.analyzer import Analyzer
from mundap.index.build import add, compact, delete
from mundap.index.lexical import Lexical, LexicalWriter
from mundap.index.manifest import Manifest
from mundap.index.modes import TANTIVY, Bm25
from mundap.index.sparse import SparseLexical
from mundap.index.terms import Terms, TermsWriter, codes_of, terms_files
from mundap.index.verify import verify
from mundap.index.writer import Writer
from tests.conftest import EXAMPLES

OTHERS = [Bm25(0.9, 0.4), Bm25(0.82, 0.68), Bm25(3.0, 0.0), Bm25(0.0, 0.75), Bm25(1.5, 1.0)]


@pytest.fixture(scope="module")
def texts():
    """The example encyclopaedia in passages of 60 words, and a text that is much longer."""
    words = [path.read_text("utf-8").split() for path in sorted((EXAMPLES / "encyclopedia" / "en").glob("*.md"))]
    cut = [" ".join(one[start : start + 60]) for one in words for start in range(0, len(one), 60)]
    return [*cut, " ".join(words[0] + words[1] + words[2])]


@pytest.fixture(scope="module")
def questions():
    rows = map(json.loads, (EXAMPLES / "questions.jsonl").read_text("utf-8").splitlines())
    return [row["question"] for row in rows if row["language"] == "en"][:100]


@pytest.fixture(scope="module")
def stored(texts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("terms") / "lexical"
    writer = LexicalWriter(folder, Analyzer(), threads=1, store_terms=True)
    for number, text in enumerate(texts):
        writer.add(number, "", text)
        if number in (50, 200):  # several files
            writer.commit()
    writer.commit()
    writer.finish()
    return Lexical(folder, Analyzer())


def agreement(ours, texts, questions, bm25, k=20):
    """The share of questions with the ranking of the exact matrix; swapping equal scores is no difference."""
    analyzer = Analyzer()
    exact = SparseLexical.build(texts, analyzer.terms, "bm25", *bm25, ask=analyzer.question_terms)
    same = 0
    for question in questions:
        numbers, scores = ours.search(question, k, bm25=bm25)
        expected = exact.search(question, k)[1] * (bm25.k1 + 1)
        its_scores = exact.scores(question, numbers) * (bm25.k1 + 1)
        assert scores == pytest.approx(its_scores, rel=1e-4)
        same += len(scores) == len(expected) and bool(np.allclose(scores, expected, rtol=1e-4))
    return same / len(questions)


@pytest.mark.parametrize("bm25", OTHERS, ids=str)
def test_any_k1_and_b_rank_real_text_as_the_exact_matrix_does(stored, texts, questions, bm25):
    assert agreement(stored, texts, questions, bm25) == 1


def test_few_candidates_of_tantivy_are_enough_for_nearly_all_questions(stored, texts, questions, monkeypatch):
    """A fifth of this corpus stands for the first thousand of a large one."""
    monkeypatch.setattr(lexical_module, "_RESCORED", len(texts) // 5)
    assert agreement(stored, texts, questions, Bm25(0.9, 0.4), k=10) >= 0.97


def test_at_tantivys_own_values_the_scores_are_tantivys(stored, questions):
    for question in questions[:20]:
        numbers, scores = stored.search(question, 10)
        assert list(stored.search(question, 10, bm25=TANTIVY)[1]) == list(scores)
        assert stored._own_scores(question, numbers, TANTIVY) == pytest.approx(scores, rel=0.05)  # lengths are rounded


def test_passages_whose_terms_are_not_stored_are_analysed_again(stored, texts, questions, tmp_path):
    writer = LexicalWriter(tmp_path / "lexical", Analyzer(), threads=1)
    for number, text in enumerate(texts):
        writer.add(number, "", text)
    writer.commit()
    writer.finish()
    plain = Lexical(tmp_path / "lexical", Analyzer())
    read = []

    def analysed(numbers):
        read.extend(numbers.tolist())
        return [plain.analyzer.terms(texts[number]) for number in numbers]

    plain.analysed = analysed
    for question in questions[:20]:
        expected = stored.search(question, 10, bm25=Bm25(0.9, 0.4))
        found = plain.search(question, 10, bm25=Bm25(0.9, 0.4))
        assert list(found[0]) == list(expected[0])
        assert found[1] == pytest.approx(expected[1])
    assert len(read) == len(set(read))  # each is remembered


def test_files_are_joined_and_gaps_have_no_terms(tmp_path):
    for first in (0, 10, 20, 500_000):
        writer = TermsWriter(tmp_path)
        for number in range(first, first + 10, 2):
            writer.add(number, ["a"] * (number % 7) + ["b", "c"])
        writer.flush()
        writer.join()
    assert [(one.first, one.size) for one in terms_files(tmp_path)] == [(0, 29), (500_000, 9)]
    assert len(list(tmp_path.iterdir())) == 2
    numbers = np.array([500_004, 3, 14, 0, 28, 29, 499_999, 500_009], np.uint64)
    counts, lengths = Terms(tmp_path).frequencies(numbers, codes_of(["b", "z", "a"]))
    assert lengths.tolist() == [500_004 % 7 + 2, 0, 2, 2, 2, 0, 0, 0]
    assert counts.tolist()[0] == [1, 0, 500_004 % 7]
    assert counts.tolist()[1] == [0, 0, 0]
    assert counts.tolist()[2:5] == [[1, 0, 0]] * 3
    assert Terms(tmp_path).frequencies(numbers[5:], codes_of(["b"]))[0].tolist() == [[0], [0], [0]]


def test_what_a_dead_writer_left_is_dropped(tmp_path):
    writer = TermsWriter(tmp_path)
    for first in (0, 10):
        for number in range(first, first + 10):
            writer.add(number, ["a"])
        writer.flush()
    writer.drop_from(10)
    assert [(one.first, one.size) for one in terms_files(tmp_path)] == [(0, 10)]


@pytest.fixture
def index(corpus, tmp_path):
    return Index.build([corpus], tmp_path / "i", model="none", k1=0.9, b=0.4)


def test_an_index_remembers_its_k1_and_b_and_a_search_may_ask_for_others(index, corpus, tmp_path):
    assert Manifest.load(index.path).settings.bm25 == (0.9, 0.4)
    plain = Index.build([corpus], tmp_path / "plain", model="none", k1=1.2, b=0.75)
    assert not list(plain.path.rglob("terms-*"))
    question = "music river word7"
    for k1, b in ((None, None), (2.0, 0.1), (0.9, None)):
        ours = index.search(question, 10, k1=k1, b=b)
        theirs = plain.search(question, 10, k1=k1 or 0.9, b=b or 0.4)
        assert [hit.passage.id for hit in ours] == [hit.passage.id for hit in theirs]
        assert [hit.score for hit in ours] == pytest.approx([hit.score for hit in theirs])
    assert index.search(question)[0].score != pytest.approx(plain.search(question)[0].score)
    for wrong in ({"k1": -1.0}, {"b": 1.5}, {"k1": float("nan")}):
        with pytest.raises(UsageError, match="choose between"):
            index.search(question, **wrong)
    with pytest.raises(UsageError, match=r"made with k1 0\.9, not 1\.2"):
        Index.build([corpus], index.path, model="none", k1=1.2)


def test_its_terms_follow_the_index_through_its_life(index, corpus, tmp_path):
    (corpus / "new.txt").write_text("music music of the river")
    add([corpus / "new.txt"], index.path)
    delete(index.path, ["b1"])
    for _ in range(2):
        now = Index(index.path)
        now._lexical.analysed = None  # all terms are stored
        assert now.search("T1") == []  # tantivy still counts the deleted passage with this word
        again = Index.build([corpus], tmp_path / "again", model="none", k1=0.9, b=0.4)
        delete(again.path, ["b1"])
        compact(again.path)
        compact(index.path)
        assert [hit.passage.id for hit in now.search("music river", 3)][0] == "new.txt"
        assert len(now.search("music", 20)) == 5
        assert verify(index.path) == []
    now = Index(index.path)
    found, expected = now.search("music river", 20), Index(again.path).search("music river", 20)
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in expected])


def test_a_damaged_file_of_terms_is_noticed(index):
    (path,) = index.path.rglob("terms-*.bin")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(IndexDamaged):
        Index(index.path)


def test_an_index_that_says_nothing_of_k1_and_b_has_tantivys(index):
    path = index.path / "manifest.json"
    body = json.loads(path.read_text())
    del body["settings"]["k1"], body["settings"]["b"]
    from mundap.index.manifest import _digest

    body["sha256"] = _digest({name: value for name, value in body.items() if name not in ("format", "sha256")})
    path.write_text(json.dumps(body))
    assert Manifest.load(index.path).settings.bm25 == TANTIVY


def test_terms_of_a_writer_that_died_are_not_taken_for_those_of_the_next(corpus, tmp_path):
    """It wrote its terms and died before tantivy's commit: the numbers are given to other passages."""
    out = tmp_path / "i"
    Index.build([corpus], out, model="none", k1=0.9, b=0.4)
    with Writer(out) as writer:
        lexical = writer._writing_lexical()
        first = writer.manifest.next_number
        for number in range(first, first + 5):
            lexical.add(number, "", "zebra zebra")
        lexical._add_waiting()
        lexical._terms.flush()
        folder, manifest = lexical.folder, writer.manifest
    with Writer(out) as writer:
        writer.manifest = writer.manifest.with_changes(lexical=manifest.lexical)
        assert writer._writing_lexical().folder == folder
        assert not [file for file in terms_files(folder) if file.first >= first]
