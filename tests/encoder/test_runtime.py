import json
from dataclasses import replace

import numpy as np
import pytest

from mundap import Encoder, Index
from mundap.encoder.inputs import EncoderInputs, TextFormat
from mundap.errors import ModelError
from mundap.models.folder import EncoderConfig, installed
from mundap.models.tokenizer import open_tokenizer, truncating
from tests.conftest import make_model


def test_the_shipped_model_is_whole():
    from mundap.disk import checksum

    assert {"reader", "retriever"} <= installed().keys()
    encoder = Encoder.from_pretrained()
    for name, expected in encoder.config.sha256.items():
        assert checksum(encoder.folder / name) == expected


def test_the_shipped_model_knows_what_means_the_same():
    encoder = Encoder.from_pretrained()
    question = encoder.encode_questions(["Who is the bad guy?"])[0]
    near, far = encoder.encode_passages([("", "The villain is Sauron."), ("", "Bread is made of flour.")])
    assert question @ near > question @ far + 0.2
    assert np.linalg.norm(question) == pytest.approx(1, abs=1e-3)


def test_only_the_right_single_quote_of_a_question_is_replaced(tiny_model):
    encoder = Encoder.from_pretrained(tiny_model)
    curly, straight = encoder.encode_questions(["what\u2019s it", "what's it"])
    assert np.array_equal(curly, straight)


def test_title_and_text_are_a_pair_and_the_last_token_survives_truncation(tiny_model):
    (ids,) = Encoder.from_pretrained(tiny_model).inputs.passages([("ring", "water " * 500)])
    tokens = words(tiny_model, ids)
    assert len(tokens) == 64
    assert tokens[:4] == ["[CLS]", "ring", "[SEP]", "water"]
    assert tokens[-1] == "[SEP]"


def test_prompts_and_the_title_as_a_prefix(tiny_model):
    short, long = (truncating(open_tokenizer(tiny_model / "tokenizer.json"), length) for length in (5, 64))
    inputs = EncoderInputs(short, long, TextFormat("the city ", "the king ", "prefix"))
    assert words(tiny_model, inputs.questions(["ring of water"])[0]) == ["[CLS]", "the", "city", "ring", "[SEP]"]
    found = inputs.passages([("moon", "of music"), ("", "of music")])
    assert words(tiny_model, found[0]) == ["[CLS]", "the", "king", "moon", "[UNK]", "of", "music", "[SEP]"]
    assert words(tiny_model, found[1]) == ["[CLS]", "the", "king", "of", "music", "[SEP]"]


def test_the_fingerprint_of_inputs_follows_all_that_changes_the_ids(tiny_model):
    def fingerprint(text_format, *lengths):
        tokenizers = (truncating(open_tokenizer(tiny_model / "tokenizer.json"), length) for length in lengths)
        return EncoderInputs(*tokenizers, text_format).fingerprint

    plain = fingerprint(TextFormat(), 16, 64)
    assert plain == fingerprint(TextFormat(), 16, 64)
    others = [(TextFormat("q: "), 16, 64), (TextFormat("", "p: "), 16, 64), (TextFormat(), 17, 64)]
    assert len({plain, *(fingerprint(*other) for other in others)}) == 4


def words(model, ids):
    tokenizer = open_tokenizer(model / "tokenizer.json")
    return [tokenizer.id_to_token(number) for number in ids]


def test_threads_change_nothing(tiny_model):
    passages = [("t", f"the river {n}") for n in range(100)]
    one = Encoder.from_pretrained(tiny_model, threads=1).encode_passages(passages)
    assert np.array_equal(one, Encoder.from_pretrained(tiny_model, threads=4).encode_passages(passages))
    assert Encoder.from_pretrained(tiny_model).encode_passages([]).shape == (0, 16)


def test_a_broken_folder_is_said(tmp_path):
    with pytest.raises(ModelError, match="models export"):
        Encoder.from_pretrained(tmp_path)
    model = make_model(tmp_path / "m")
    replace(EncoderConfig.load(model), sha256={}).save(model)
    (model / "encoder.fp32.onnx").write_bytes(b"nonsense")
    with pytest.raises(ModelError, match="not a usable ONNX"):
        Encoder.from_pretrained(model).encode_questions(["x"])
    (model / "encoder.fp32.onnx").unlink()
    with pytest.raises(ModelError, match="no encoder weights"):
        Encoder.from_pretrained(model)
    (model / "config.json").write_text("[]")
    with pytest.raises(ModelError, match="not a model's config"):
        Encoder.from_pretrained(model)


def test_the_fingerprint_follows_what_decides_the_vectors(tiny_model):
    config = EncoderConfig.load(tiny_model)
    facts = json.loads((tiny_model / "config.json").read_text())
    assert EncoderConfig(**{**facts, "fusion_weight": 0.1}).fingerprint == config.fingerprint
    assert EncoderConfig(**{**facts, "max_length": 32}).fingerprint != config.fingerprint


def test_a_model_of_english_has_little_say_in_other_writing():
    config = EncoderConfig("x", 1, fusion_weight=0.7, scripts="latin", foreign_weight=0.1)
    assert config.weight_for("Who is Sejong?") == 0.7
    assert config.weight_for("Où est Séoul?") == 0.7
    assert config.weight_for("세종대왕은 누구인가?") == 0.1
    assert config.weight_for("1987?") == 0.7
    assert EncoderConfig("x", 1).weight_for("세종대왕") == 0.7


def test_l2_has_one_more_dimension_and_is_searched_as_any_other(tmp_path, tiny_model):
    folder = make_model(tmp_path / "l2")
    config = EncoderConfig.load(folder)
    replace(config, similarity="l2", normalized=False, dimension=17).save(folder)
    plain, encoder = Encoder.from_pretrained(tiny_model), Encoder.from_pretrained(folder)
    (question,) = plain.encode_questions(["king of water"])
    assert np.array_equal(encoder.encode_questions(["king of water"])[0], np.append(2 * question, 1))
    (tmp_path / "docs").mkdir()
    for number, text in enumerate(["the king", "water of a river", "music", "king of water"]):
        (tmp_path / "docs" / f"{number}.txt").write_text(text)
    index = Index.build([tmp_path / "docs"], tmp_path / "index", model=str(folder))
    hits = index.search("king of water", 4, "dense")
    vectors = plain.encode_passages([(hit.passage.title, hit.passage.text) for hit in hits])
    distances = np.linalg.norm(vectors - question, axis=1)
    assert [hit.score for hit in hits] == pytest.approx(question @ question - distances**2, abs=0.01)
    assert distances == pytest.approx(np.sort(distances), abs=0.01)
