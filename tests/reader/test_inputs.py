"""Rows for the reader: every token knows its place in the text, nothing is lost, nothing is too long."""

import re

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from mundap.models import folder
from mundap.models.folder import ReaderConfig
from mundap.models.tokenizer import open_tokenizer
from mundap.reader.inputs import Windows

SENTENCES = [
    "🎬 The film 👩‍👩‍👧 won the prize 🏆 in Cannes.",
    "<p>Paris &amp; <b>Rome</b> are <a href='x'>cities</a></p>",
    "العاصمة هي القاهرة الكبرى ، وعدد سكانها 20 مليون",
    "ירושלים היא בירת ישראל (מאז 1949)",
    "기생충은 2019년 칸 영화제에서 황금종려상을 받았다",
    "Ｆｕｌｌ ｗｉｄｔｈ, naïve Zoë, Straße and Ångström",
    "tab\tand\nnewline\u00a0and  two  spaces",
]


@pytest.fixture(scope="module")
def bert():
    """That of the shipped encoder: a real vocabulary."""
    return open_tokenizer(folder.find(folder.DEFAULT) / "tokenizer.json")


@pytest.fixture(scope="module")
def roberta():
    """Bytes, as RoBERTa has them: a character may be several tokens."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES * 3, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


@pytest.fixture(params=["bert", "roberta"])
def tokenizer(request):
    return request.getfixturevalue(request.param)


def windows(tokenizer, **settings):
    return Windows(tokenizer, ReaderConfig(name="test", **settings))


@pytest.mark.parametrize("layout", ["dpr", "pair"])
@pytest.mark.parametrize("text", SENTENCES)
def test_tokens_know_their_words(tokenizer, text, layout):
    ((window,),) = windows(tokenizer, layout=layout).of("a question", [("a title", text)])
    for word in re.finditer(r"\S+", text):
        inside = [place for place in window.offsets.tolist() if place[1] > word.start() and place[0] < word.end()]
        assert text[min(a for a, _ in inside) : max(b for _, b in inside)] == word.group()
    assert len(window.ids) == len(window.types)
    assert window.position(window.first) == 0


def test_bytes_of_one_character_all_have_its_place(roberta):
    ((window,),) = windows(roberta).of("q", [("", "🏆")])
    assert len(window.offsets) > 1
    assert window.offsets.tolist() == [[0, 1]] * len(window.offsets)


@pytest.mark.parametrize("layout", ["dpr", "pair"])
def test_a_long_text_gets_windows_that_overlap_and_miss_nothing(tokenizer, layout):
    text = " ".join(f"word{n} of {n * 7}" for n in range(300))
    whole = tokenizer.encode(text, add_special_tokens=False)
    made = windows(tokenizer, layout=layout, max_length=100, stride=20)
    (rows,) = made.of("what is it?", [("title", text)])
    assert len(rows) > 5
    seen, last = [], None
    for window in rows:
        assert len(window.ids) <= 100
        count = len(window.offsets)
        begin = whole.offsets.index(tuple(window.offsets[0].tolist()))
        assert window.ids[window.first : window.first + count] == whole.ids[begin : begin + count]
        assert window.offsets.tolist() == [list(place) for place in whole.offsets[begin : begin + count]]
        assert window.ids[: window.first] == rows[0].ids[: window.first]  # question and title stand in each
        if last is not None:
            assert last - begin == 20
        seen += range(begin, begin + count)
        last = begin + count
    assert set(seen) == set(range(len(whole.ids)))
    assert len(rows[-1].offsets) > 20  # the last one has something new to say


def test_a_text_that_just_fits_gets_one_window(bert):
    (rows,) = windows(bert, max_length=50, stride=10).of("king", [("", " ".join(["river"] * 46))])
    assert [len(window.ids) for window in rows] == [50]
    (rows,) = windows(bert, max_length=50, stride=10).of("king", [("", " ".join(["river"] * 47))])
    assert len(rows) == 2


@pytest.mark.parametrize("layout", ["dpr", "pair"])
@pytest.mark.parametrize("most", [350, 80])  # a model with few positions fails on a row that is too long
def test_no_question_is_too_long(tokenizer, layout, most):
    """A question of 5,000 words under a title of 500 still leaves room for the text."""
    long, title = " ".join(["why"] * 5000), " ".join(["title"] * 500)
    made = windows(tokenizer, layout=layout, max_length=most, question_length=64)
    (rows,) = made.of(long, [(title, "The river runs to the sea. " * 30)])
    assert max(len(window.ids) for window in rows) <= most
    assert all(len(window.offsets) >= 8 for window in rows[:-1])


def test_a_question_is_cut_to_its_length(bert):
    ((window,),) = windows(bert, question_length=5).of("a b c d e f g h", [("", "river")])
    expected = bert.encode("a b c d e", add_special_tokens=False).ids
    assert window.ids[: window.first] == [101, *expected, 102, 102]


@pytest.mark.parametrize("text", ["", "  ", "\u200b"])
def test_a_text_without_tokens_has_one_window_without_places(bert, text):
    ((window,),) = windows(bert).of("who?", [("title", text)])
    assert window.offsets.shape == (0, 2)
    assert window.first == len(window.ids)
    assert windows(bert).of("who?", []) == []


def test_the_right_single_quote_of_a_question_is_an_apostrophe(bert):
    made = windows(bert)
    ((curly,), (straight,)) = (made.of(text, [("", "x")])[0] for text in ("who\u2019s it?", "who's it?"))
    assert curly.ids == straight.ids


QUESTION, TEXT = "Who won the prize?", "The film 🎬 won <b>it</b> in 2019, they say."


def hugging_face(raw, special):
    transformers = pytest.importorskip("transformers")
    names = dict(zip(("cls_token", "sep_token", "pad_token", "unk_token"), special, strict=True))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, **names)


@pytest.mark.parametrize(
    ("kind", "special"),
    [("bert", ("[CLS]", "[SEP]", "[PAD]", "[UNK]")), ("roberta", ("<s>", "</s>", "<pad>", "<unk>"))],
)
@pytest.mark.parametrize("text", [TEXT, " "])
def test_a_pair_is_what_hugging_faces_tokenizer_makes(request, kind, special, text):
    raw = request.getfixturevalue(kind)
    theirs = hugging_face(raw, special)(QUESTION, text, return_offsets_mapping=True, return_token_type_ids=True)
    ((ours,),) = windows(raw, layout="pair").of(QUESTION, [("a title that is not read", text)])
    assert ours.ids == theirs["input_ids"]
    assert ours.types == theirs["token_type_ids"]
    assert (max(ours.types) == 1) == (kind == "bert")  # RoBERTa has one segment
    last = ours.first + len(ours.offsets)
    assert [tuple(place) for place in ours.offsets.tolist()] == theirs["offset_mapping"][ours.first : last]
    assert len(ours.ids) == last + 1


def test_an_old_berts_processor_has_the_same_pair(bert):
    """Not a template but BertProcessing, as files of older versions have it."""
    raw = Tokenizer.from_str(bert.to_str())
    raw.post_processor = processors.BertProcessing(("[SEP]", 102), ("[CLS]", 101))
    (ours,), (other,) = (windows(one, layout="pair").of(QUESTION, [("", TEXT)])[0] for one in (raw, bert))
    assert (ours.ids, ours.types, ours.first) == (other.ids, other.types, other.first)


def test_dprs_layout_is_what_hugging_faces_dpr_tokenizer_makes(bert, tmp_path):
    """[CLS] question [SEP] title [SEP] text, without a last [SEP], all of segment 0."""
    transformers = pytest.importorskip("transformers")
    hugging_face(bert, ("[CLS]", "[SEP]", "[PAD]", "[UNK]")).save_pretrained(tmp_path)
    theirs = transformers.DPRReaderTokenizerFast.from_pretrained(tmp_path)
    expected = theirs(questions=QUESTION, titles="The Prize", texts=TEXT, truncation=True, max_length=350)["input_ids"]
    ((ours,),) = windows(bert).of(QUESTION, [("The Prize", TEXT)])
    assert ours.ids == np.array(expected).reshape(-1).tolist()
    assert set(ours.types) == {0}


def test_capitals_survive_in_a_cased_model(bert):
    """DPR's own tokenizer lower-cases whatever it is told; ours does what its file says."""
    raw = Tokenizer.from_str(bert.to_str())
    raw.normalizer = normalizers.BertNormalizer(lowercase=False)
    (upper,), (lower,) = (windows(raw).of("q", [("", text)])[0] for text in ("PARIS", "paris"))
    assert upper.ids != lower.ids
