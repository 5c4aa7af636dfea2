import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mundap.documents import Splitter
from mundap.errors import UsageError

texts = st.text(alphabet="ab c\n\t.!서울 東京タワー。éx", max_size=400)


def pieces(text, **options):
    return [text[start:end] for start, end in Splitter(**options).spans(text)]


def test_blocks_of_a_hundred_words_the_last_may_be_short():
    words = [f"w{n}" for n in range(250)]
    assert [len(piece.split()) for piece in pieces(" ".join(words))] == [100, 100, 50]
    assert " ".join(pieces(" ".join(words))).split() == words


@given(texts, st.integers(1, 12), st.booleans())
@settings(max_examples=300, deadline=None)
def test_passages_are_disjoint_ordered_and_lose_nothing(text, words, sentences):
    spans = list(Splitter(words=words, sentences=sentences).spans(text))
    assert all(left < right for left, right in spans)
    assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:], strict=False))
    assert "".join("".join(text[a:b] for a, b in spans).split()) == "".join(text.split())


@given(texts, st.integers(2, 12), st.data())
@settings(max_examples=300, deadline=None)
def test_overlapping_passages_lose_nothing_either(text, words, data):
    overlap = data.draw(st.integers(1, words - 1))
    covered = set()
    for start, end in Splitter(words=words, overlap=overlap).spans(text):
        covered |= set(range(start, end))
    assert all(n in covered for n, character in enumerate(text) if not character.isspace())


def test_overlap_repeats_words():
    assert pieces("a b c d e f g h", words=4, overlap=2) == ["a b c d", "c d e f", "e f g h"]


def test_sentences_are_kept_together():
    text = "One two three. Four five six. Seven eight nine ten."
    assert pieces(text, words=7, sentences=True) == ["One two three. Four five six.", "Seven eight nine ten."]


def test_a_sentence_longer_than_a_passage_is_cut():
    assert pieces("a b c d e f g.", words=3, sentences=True) == ["a b c", "d e f", "g."]


def test_japanese_is_cut_at_sentences_and_not_into_one_huge_passage():
    found = pieces("今日は天気がいいですね。明日は雨が降るでしょう。" * 40)
    assert len(found) > 3
    assert all(piece.endswith("。") for piece in found)


def test_korean_is_cut_by_words():
    assert [len(piece.split()) for piece in pieces("서울은 큰 도시이다 " * 50)] == [100, 50]


def test_a_word_without_end_does_not_make_a_passage_without_end():
    assert max(map(len, pieces("x" * 100_000))) <= 100 * 100


def test_english_words_with_a_few_chinese_characters_stay_whole():
    assert pieces("Tokyo (東京) is big", words=2) == ["Tokyo (東京)", "is big"]


@pytest.mark.parametrize("options", [{"words": 0}, {"words": 5, "overlap": 5}, {"overlap": -1}])
def test_nonsense_is_refused(options):
    with pytest.raises(UsageError):
        Splitter(**options)


@pytest.mark.parametrize(
    "text", ["", " a  b\n\nc ", "w " * 250, "x" * 250, "漢字かな交じり文。" * 40, "서울은 수도이다. " * 80]
)
@pytest.mark.parametrize("splitter", [Splitter(), Splitter(7), Splitter(10, overlap=3), Splitter(20, sentences=True)])
def test_texts_are_what_the_spans_hold(text, splitter):
    assert list(splitter.texts(text)) == [" ".join(text[start:end].split()) for start, end in splitter.spans(text)]
