import json
from dataclasses import replace

import numpy as np
import pytest

from mundap import Encoder
from mundap.errors import ModelError
from mundap.models.folder import EncoderConfig, shipped
from tests.conftest import make_model


def test_the_shipped_model_is_whole():
    from mundap.disk import checksum

    assert shipped() == ["reader", "retriever"]
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
    encoder = Encoder.from_pretrained(tiny_model)
    tokens = encoder._tokenizer.encode_batch([("ring", "water " * 500)])[0]
    assert len(tokens.ids) == 64
    assert tokens.tokens[:3] == ["[CLS]", "ring", "[SEP]"]
    assert tokens.tokens[-1] == "[SEP]"


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
