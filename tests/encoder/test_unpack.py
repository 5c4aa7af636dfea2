"""An encoder as the run time has it, back into a checkpoint: the same weights, or the same to within eight bits."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mundap import Encoder
from mundap.errors import ModelError
from mundap.models.folder import EncoderConfig, installed
from tests.encoder.test_export import as_sentence_transformers, make_checkpoint

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pytest.mark.parametrize(("precision", "most"), [("fp32", 1e-6), ("int8", 0.02)])
def test_weights_and_settings_come_back(tmp_path, precision, most):
    from mundap.encoder.checkpoints import open_checkpoint
    from mundap.encoder.export import export

    source = as_sentence_transformers(make_checkpoint(tmp_path / "source"), "mean_tokens")
    export(source, tmp_path / "onnx", precisions=[precision])
    own, back = open_checkpoint(source), open_checkpoint(tmp_path / "onnx")
    assert back.settings == replace(own.settings, max_length=40)
    assert back.tokenizer("a b")["input_ids"] == own.tokenizer("a b")["input_ids"]
    theirs = back.network.state_dict()
    for name, value in own.network.state_dict().items():
        if "pooler" not in name and "position_ids" not in name:
            assert float((theirs[name] - value).abs().max()) <= most * float(value.abs().max()), name


@pytest.mark.parametrize("name", ["retriever", "retriever-multilingual"])
def test_what_ships_gives_the_same_vectors_in_torch(name):
    from mundap.encoder.checkpoints import open_checkpoint
    from mundap.encoder.inputs import EncoderInputs
    from mundap.encoder.network import Tower

    if name not in installed():
        pytest.skip(f"{name} is not installed")
    loaded = open_checkpoint(installed()[name])
    inputs = EncoderInputs.from_checkpoints(loaded, loaded, 64, 64)
    texts = ["Who is the bad guy in Lord of the Rings?", "How high is Kilimanjaro?"]
    with torch.no_grad():
        vectors = [
            Tower(loaded).eval()(torch.tensor([ids]), torch.ones(1, len(ids))) for ids in inputs.questions(texts)
        ]
    ours = Encoder(installed()[name], threads=1).encode_questions(texts)
    assert (np.concatenate(vectors) * ours).sum(axis=1) == pytest.approx(1, abs=0.03)


def test_training_goes_on_from_a_retriever_that_is_installed_by_its_name(tmp_path, monkeypatch):
    from mundap.encoder.export import export
    from mundap.training import towers
    from mundap.training.recipe import RetrieverRecipe

    source = as_sentence_transformers(make_checkpoint(tmp_path / "source"), "mean_tokens")
    export(source, tmp_path / "mine", precisions=["int8"])
    monkeypatch.setattr(towers, "installed", lambda: {"mine": tmp_path / "mine"})
    recipe = towers.with_similarity(RetrieverRecipe(base_model=str(tmp_path / "recipes" / "mine")))
    assert (recipe.similarity, recipe.temperature) == ("cosine", 0.05)
    model, _ = towers.build(replace(recipe, question_length=20, passage_length=40))
    assert model.question.dimension == 32


def test_a_pair_comes_back_as_two(tmp_path):
    from mundap.encoder.checkpoints import open_towers
    from mundap.encoder.export import export

    for role in ("question", "passage"):
        (tmp_path / "pair").mkdir(exist_ok=True)
        as_sentence_transformers(make_checkpoint(tmp_path / "pair" / role), "mean_tokens")
    export(tmp_path / "pair", tmp_path / "onnx", precisions=["fp32"])
    assert list(open_towers(tmp_path / "onnx")) == ["question", "passage"]


def test_what_cannot_be_trained_on_says_why(tmp_path):
    from mundap.encoder.checkpoints import open_checkpoint
    from mundap.encoder.export import export

    source = as_sentence_transformers(make_checkpoint(tmp_path / "source"), "mean_tokens")
    export(source, tmp_path / "onnx", precisions=["int8"])
    file = tmp_path / "onnx" / "encoder.int8.onnx"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(ModelError, match="damaged"):
        open_checkpoint(tmp_path / "onnx")
    export(make_checkpoint(tmp_path / "mpnet", "mpnet"), tmp_path / "other", precisions=["fp32"])
    with pytest.raises(ModelError, match="is no BERT"):
        open_checkpoint(tmp_path / "other")
    facts = json.loads((tmp_path / "other" / "config.json").read_text())
    assert EncoderConfig.load(tmp_path / "other").dimension == facts["dimension"]
