import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mundap.errors import UsageError
from mundap.index.analyzer import Analyzer
from mundap.index.lexical import Lexical, LexicalWriter
from mundap.index.sparse import SparseLexical

TEXTS = [
    "the quick brown fox jumps over the lazy dog",
    "a fox is a small wild animal",
    "dogs and foxes are both animals, dogs are tame",
    "rivers run to the sea",
    "서울은 대한민국의 수도이다",
    "東京は日本の首都です",
]


def tantivy_index(folder, texts, analyzer=None):
    analyzer = analyzer or Analyzer()
    writer = LexicalWriter(folder / "lexical", analyzer, threads=1)
    for number, text in enumerate(texts):
        writer.add(number, "", text)
    writer.commit()
    writer.close()
    return Lexical(folder / "lexical", analyzer)


def test_the_korean_worked_example_of_tf_idf():
    texts = ["나는 떡볶이를 좋아한다", "나는 가을을 가장 좋아한다", "나는 야구 관람을 가장 좋아한다"]
    matrix = SparseLexical.build(texts, str.split, "tfidf")
    weights = {term: float(matrix.matrix[:, column].max()) for term, column in matrix.terms.items()}
    expected = {
        "나는": 0,
        "좋아한다": 0,
        "떡볶이를": 1.1,
        "가을을": 1.1,
        "가장": 0.4,
        "야구": 1.1,
        "관람을": 1.1,
    }
    assert {term: round(weight, 1) for term, weight in weights.items()} == expected


@given(
    st.lists(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=12), min_size=2, max_size=12),
    st.floats(0.1, 3),
    st.floats(0, 1),
)
@settings(max_examples=60, deadline=None)
def test_sparse_bm25_equals_bm25s_in_its_lucene_form(documents, k1, b):
    ours = SparseLexical.build([" ".join(words) for words in documents], str.split, "bm25", k1, b)
    theirs = bm25s.BM25(method="lucene", k1=k1, b=b)
    theirs.index(documents, show_progress=False)
    question = ["a", "c", "g"]
    known = [term for term in question if any(term in words for words in documents)]
    if known:
        expected = theirs.get_scores(known)
        assert ours.scores(" ".join(question), np.arange(len(documents))) == pytest.approx(expected, abs=1e-4)


def test_tantivy_agrees_with_the_sparse_matrix_at_its_own_k1_and_b(tmp_path):
    analyzer = Analyzer()
    ours = tantivy_index(tmp_path, TEXTS, analyzer)
    reference = SparseLexical.build(TEXTS, analyzer.terms, "bm25", k1=1.2, b=0.75, ask=analyzer.question_terms)
    for question in ("fox", "lazy dogs", "small animals run", "수도"):
        numbers, scores = ours.search(question, 10)
        # Lengths below 40 are exact in tantivy, so at this size the scores are equal; its factor k1 + 1 is ours to add.
        expected = reference.scores(question, numbers) * 2.2
        assert scores == pytest.approx(expected, rel=1e-4)
        assert list(numbers) == list(reference.search(question, 10)[0])


def test_scores_of_given_passages_are_exact_and_zero_without_a_match(tmp_path):
    index = tantivy_index(tmp_path, TEXTS)
    numbers, scores = index.search("brown fox", 10)
    asked = np.array([3, *numbers[::-1], 5], np.uint64)
    assert list(index.scores("brown fox", asked)) == [0.0, *scores[::-1], 0.0]
    assert list(index.scores("zzz", asked)) == [0.0] * len(asked)


def test_only_living_passages_are_found_and_still_k_of_them(tmp_path):
    index = tantivy_index(tmp_path, ["fox"] * 500)
    numbers, _ = index.search("fox", 10, lambda found: found >= 480)
    assert list(numbers) == list(range(480, 490))
    numbers, _ = index.search_among("fox", 3, np.array([7, 400, 5], np.uint64))
    assert list(numbers) == [5, 7, 400]


def test_english_is_stemmed_and_stop_words_count_only_when_alone(tmp_path):
    index = tantivy_index(tmp_path, TEXTS)
    assert set(index.search("foxes", 10)[0]) == {0, 1, 2}
    assert set(index.search("the fox", 10)[0]) == {0, 1, 2}
    assert set(index.search("the", 10)[0]) == {0, 3}


@pytest.mark.parametrize("hangul", ["kiwi", "bigrams"])
def test_korean_particles_do_not_matter(tmp_path, hangul):
    index = tantivy_index(tmp_path, TEXTS, Analyzer("en", hangul))
    assert list(index.search("서울", 10)[0]) == [4]
    assert list(index.search("수도가", 10)[0])[0] == 4


@pytest.mark.parametrize("question", ["日本", "都", "首都はどこ", "ｶ 日本"])
def test_japanese_by_characters_and_pairs(tmp_path, question):
    assert list(tantivy_index(tmp_path, TEXTS).search(question, 10)[0]) == [5]


def test_seoul_finds_every_form_of_seoul(tmp_path):
    texts = ["서울은 크다", "서울에서 만나자", "서울특별시의 인구", "부산은 항구 도시다", "서울시청"]
    index = tantivy_index(tmp_path, texts, Analyzer("auto", "kiwi", ["ko"]))
    assert set(index.search("서울", 10)[0]) == {0, 1, 2, 4}


def test_verbs_and_adjectives_are_found_by_their_stems_and_compounds_whole_and_split():
    analyzer = Analyzer("auto", "kiwi", ["ko"])
    assert {"아름답", "산", "오르"} <= set(analyzer.terms("아름다웠던 산에 올랐다"))
    assert {"황금종려상", "황금", "종려", "상"} <= set(analyzer.terms("황금종려상을"))
    assert not {"은", "을", "었", "다"} & set(analyzer.terms("서울은 산을 먹었다"))


def test_korean_question_words_count_only_when_alone():
    analyzer = Analyzer("auto", "kiwi", ["ko"])
    assert analyzer.question_terms("수도는 어디에 있는가?") == ["수도"]
    assert "어디" in analyzer.question_terms("어디?")


@pytest.mark.parametrize(
    "written",
    [
        "\u1109\u1165\u110b\u116e\u11af은 수도",  # decomposed
        "서😀울은 수도",
        "서\u200b울은 수도",
        "서울은수도",
        "「서울」은 수도(首都)",
        "Ｓｅｏｕｌ 서울 수도",
        "서울은 the capital 수도 東京",
    ],
)
def test_however_korean_is_written_its_words_are_found(written):
    terms = Analyzer("auto", "kiwi", ["ko"]).terms(written, "ko")
    assert {"서울", "수도"} <= set(terms)


def test_hanja_and_full_width_letters_are_terms_too():
    terms = set(Analyzer("auto", "kiwi", ["ko"]).terms("首都는 Ｓｅｏｕｌ"))
    assert {"首都", "首", "seoul"} <= terms


def test_thai_characters_keep_their_marks():
    assert "น้ำ"[:2] in " ".join(Analyzer().terms("น้ำตก"))
    assert all(not term.startswith("\u0e49") for term in Analyzer().terms("น้ำตก"))


GERMAN = "Die Häuser der alten Stadt wurden im Krieg zerstört und danach wieder aufgebaut."
FRENCH = "Les maisons de la vieille ville ont été détruites pendant la guerre et reconstruites ensuite."
ENGLISH = "The houses of the old town were destroyed in the war and built again afterwards."


def test_every_passage_is_stemmed_in_its_own_language(tmp_path):
    analyzer = Analyzer("auto", held=["de", "fr", "en"])
    writer = LexicalWriter(tmp_path / "lexical", analyzer, threads=1)
    for number, (text, language) in enumerate([(GERMAN, "de"), (FRENCH, "fr"), (ENGLISH, "en")]):
        writer.add(number, "", text, language)
    writer.commit()
    writer.close()
    index = Lexical(tmp_path / "lexical", analyzer)
    assert sorted(index.languages()) == [("de", 1), ("en", 1), ("fr", 1)]
    assert index.search("In welcher Stadt steht das Haus?", 10)[0][0] == 0
    assert index.search("Quelle maison a été détruite?", 10)[0][0] == 1
    assert index.search("Which house was built after the war?", 10)[0][0] == 2
    assert "die" not in analyzer.question_terms("Wo stehen die Häuser?")


def test_an_index_of_one_language_needs_no_detection(monkeypatch):
    monkeypatch.setattr("mundap.index.analyzer.likely", lambda *_: pytest.fail("the model was loaded"))
    assert Analyzer("auto", held=["de", "ko"]).question_terms("die Häuser") == ["haus"]
    assert Analyzer("auto", held=["ko"]).question_terms("the houses") == ["hous"]


def test_a_text_without_a_language_is_stemmed_as_what_it_is():
    assert "haus" in Analyzer("auto", held=["de", "en"]).terms(GERMAN)


def test_a_question_in_a_language_without_a_stemmer_is_not_taken_for_one_with():
    analyzer = Analyzer("auto", held=["id", "fr"])
    assert "les" in analyzer.question_terms("Siapa yang memberikan les piano di sekolah itu?")


def test_kiwi_is_loaded_in_the_background_for_korean_indexes_only(monkeypatch):
    loaded = []
    monkeypatch.setattr("mundap.text.korean.load_in_background", lambda: loaded.append(True))
    Analyzer("auto", "kiwi", ["en"]).warm()
    Analyzer("auto", "bigrams", ["ko"]).warm()
    assert not loaded
    Analyzer("auto", "kiwi", ["en", "ko"]).warm()
    assert loaded


def test_many_texts_give_the_same_terms_as_one_by_one():
    analyzer = Analyzer("auto", "kiwi", ["ko"])
    texts = [(text, "") for text in (*TEXTS, "", "서울 " * 15_000)]
    assert list(analyzer.terms_of(texts)) == [analyzer.terms(text) for text, _ in texts]


def test_decomposed_hangul_is_the_same_as_composed():
    analyzer = Analyzer("en", "bigrams")
    assert analyzer.terms("\u1109\u1165\u110b\u116e\u11af") == analyzer.terms("서울")


@pytest.mark.parametrize(
    "question",
    ['"a AND (b: [', "fox* OR ~dog^2", "title:fox", "\\", "?!…", "a", "\0", "😀", "-fox +dog", "x" * 100_000],
)
def test_questions_are_plain_text(tmp_path, question):
    numbers, scores = tantivy_index(tmp_path, TEXTS).search(question, 5)
    assert len(numbers) == len(scores)


def test_an_empty_index_finds_nothing(tmp_path):
    assert len(tantivy_index(tmp_path, []).search("fox", 5)[0]) == 0


def test_other_languages_and_unknown_ones():
    assert Analyzer("de").terms("Häuser") == Analyzer("de").terms("Haus")
    with pytest.raises(UsageError, match="no stemmer"):
        Analyzer("xx")


def test_matches_for_highlighting():
    text = "Foxes and the 서울은 東京"
    spans = Analyzer("en", "kiwi").matches(text, "the fox 서울 東京")
    assert [text[a:b] for a, b in spans] == ["Foxes", "서울은", "東京"]
