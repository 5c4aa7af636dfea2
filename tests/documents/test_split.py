import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mundap.documents import Splitter
from mundap.errors import UsageError
from mundap.records import Block

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


def built(*parts):
    """Text and blocks of (kind, words, section)."""
    text, blocks = "", []
    for kind, words, section in parts:
        start = len(text) + 2 if text else 0
        text = f"{text}\n\n{words}" if text else words
        blocks.append(Block(start, len(text), kind, section))
    return text, blocks


def cut(parts, **options):
    text, blocks = built(*parts)
    return [text[start:end] for start, end in Splitter(sentences=True, **options).spans(text, blocks)]


def test_a_heading_goes_with_what_follows_it():
    parts = [("text", "a b c d e f g.", "A"), ("heading", "Next", "B"), ("text", "h i j.", "B")]
    assert cut(parts, words=8) == ["a b c d e f g.", "Next\n\nh i j."]
    assert cut([parts[0], ("heading", "Next", "A"), ("text", "h i j k.", "A")], words=8)[1].startswith("Next")


def test_rows_items_and_code_are_never_cut():
    rows = [("row", f"Item: n{n}; Limit: one two three. Four", "T") for n in range(10)]
    assert all(piece.startswith("Item: ") and piece.endswith("Four") for piece in cut(rows, words=20))
    code = [("text", "Do this:", ""), ("code", "one two. Three\nfour five. Six", ""), ("text", "And then that.", "")]
    assert "one two. Three\nfour five. Six" in "|".join(cut(code, words=4))


def test_a_code_block_that_is_too_long_is_cut_at_line_ends():
    code = [("code", "\n".join(f"line {n} of it" for n in range(30)), "")]
    assert all(piece.startswith("line") and piece.endswith("it") for piece in cut(code, words=10))


def test_a_code_block_that_is_too_long_is_cut_at_empty_lines_first():
    parts = [f"def f{n}():\n    one two\n    return {n}" for n in range(6)]
    pieces = cut([("code", "\n \n".join(parts) + "  ", "")], words=10)
    assert pieces == ["\n \n".join(parts[n : n + 1]) for n in range(6)]


def test_a_passage_ends_with_its_section_if_it_is_long_enough():
    long = [("text", "one two three four five.", "A"), ("text", "six seven.", "B")]
    assert cut(long, words=10) == ["one two three four five.", "six seven."]
    short = [("text", "one two.", "A"), ("text", "six seven.", "B")]
    assert cut(short, words=10) == ["one two.\n\nsix seven."]


def test_a_small_rest_joins_the_passage_before_it():
    parts = [("text", "a b c d e f g h i j.", ""), ("text", "k.", "")]
    assert len(cut(parts, words=10)) == 1
    assert len(cut(parts, words=10, overlap=3)) == 2


def test_a_sentence_may_be_twice_as_long_as_a_passage():
    assert cut([("text", "a b c d e f. G h.", "")], words=4) == ["a b c d e f.", "G h."]


@given(texts, st.integers(1, 12), st.integers(0, 5))
@settings(max_examples=200, deadline=None)
def test_units_with_overlap_cover_everything_in_order(text, words, overlap):
    splitter = Splitter(words=words, overlap=min(overlap, words - 1), sentences=True)
    spans = list(splitter.spans(text))
    covered = set()
    for start, end in spans:
        covered |= set(range(start, end))
    assert all(n in covered for n, character in enumerate(text) if not character.isspace())
    assert spans == sorted(spans)
