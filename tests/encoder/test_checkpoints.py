"""Other people's checkpoints, in and out: tiny random weights in each layout, vectors compared with their own code."""

import json
import shutil

import numpy as np
import pytest

from mundap import Encoder
from mundap.errors import ModelError
from tests.encoder.test_export import as_sentence_transformers, make_checkpoint

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.torch
TEXTS = ["a river", "the sea of night", "x"]


def vectors(loaded, texts=TEXTS):
    from mundap.encoder.network import Tower

    encoder = Tower(loaded).eval()
    with torch.no_grad():
        return np.concatenate([encoder(torch.tensor([loaded.tokenizer(text)["input_ids"]])).numpy() for text in texts])


def make_dpr(folder, projection=0, seed=1):
    """A pair of Hugging Face's DPR encoders."""
    make_checkpoint(folder / "base")
    torch.manual_seed(seed)
    base = transformers.AutoConfig.from_pretrained(folder / "base").to_dict()
    facts = {
        key: base[key]
        for key in (
            "vocab_size",
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
            "intermediate_size",
            "max_position_embeddings",
        )
    }
    config = transformers.DPRConfig(**facts, projection_dim=projection)
    for name, role in (("DPRQuestionEncoder", "question"), ("DPRContextEncoder", "context")):
        getattr(transformers, name)(config).save_pretrained(folder / role)
        for path in (folder / "base").glob("*token*"):
            shutil.copy(path, folder / role)
    return folder / "question", folder / "context"


def dpr_vectors(folder, name, texts=TEXTS):
    """By Hugging Face's own class; token types 0, no padding."""
    model = getattr(transformers, name).from_pretrained(folder).eval()
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    with torch.no_grad():
        return np.concatenate(
            [model(torch.tensor([tokenizer(text)["input_ids"]])).pooler_output.numpy() for text in texts]
        )


@pytest.mark.parametrize("projection", [0, 8])
def test_hugging_faces_dpr_pair_in_out_and_at_run_time(tmp_path, projection):
    from mundap.encoder import LAYOUTS, layouts
    from mundap.encoder.checkpoints import open_checkpoint
    from mundap.encoder.export import export

    question, context = make_dpr(tmp_path, projection)
    pair = {"question": open_checkpoint(question, "question"), "passage": open_checkpoint(context, "passage")}
    theirs = dpr_vectors(question, "DPRQuestionEncoder"), dpr_vectors(context, "DPRContextEncoder")
    assert vectors(pair["question"]) == pytest.approx(theirs[0], abs=1e-5)
    assert vectors(pair["passage"]) == pytest.approx(theirs[1], abs=1e-5)
    assert not np.allclose(theirs[0], theirs[1])
    for layout in LAYOUTS:
        layouts.write(pair, tmp_path / layout, layout)
        for number, role in enumerate(("question", "passage")):
            assert vectors(open_checkpoint(tmp_path / layout, role)) == pytest.approx(theirs[number], abs=1e-5)
    again = dpr_vectors(tmp_path / "dpr" / "passage", "DPRContextEncoder")
    assert again == pytest.approx(theirs[1], abs=1e-5)
    assert export(tmp_path / "dpr", tmp_path / "onnx", precisions=["fp32"])["fp32"] > 0.9999
    encoder = Encoder.from_pretrained(tmp_path / "onnx")
    assert encoder.encode_questions(TEXTS) == pytest.approx(theirs[0], abs=1e-4)
    assert encoder.encode_passages([("", text) for text in TEXTS]) == pytest.approx(theirs[1], abs=1e-4)


def test_trap_a_context_encoder_is_not_taken_for_a_question_encoder(tmp_path):
    from mundap.encoder.checkpoints import open_checkpoint

    _, context = make_dpr(tmp_path)
    with pytest.raises(ModelError, match="passage encoder of a pair"):
        open_checkpoint(context, "question")


def test_trap_capitals_survive_in_cased_models(tmp_path):
    from mundap.encoder.checkpoints import open_checkpoint

    question, _ = make_dpr(tmp_path)
    raw = json.loads((question / "tokenizer.json").read_text())
    raw["normalizer"]["lowercase"] = False
    raw["model"]["vocab"] |= {"A": len(raw["model"]["vocab"])}
    (question / "tokenizer.json").write_text(json.dumps(raw))
    loaded = open_checkpoint(question, "question")
    assert loaded.tokenizer("A")["input_ids"] != loaded.tokenizer("a")["input_ids"]


def test_trap_token_types_are_zero_for_pairs(tmp_path):
    from mundap.encoder.checkpoints import open_checkpoint
    from mundap.encoder.network import Tower

    loaded = open_checkpoint(make_checkpoint(tmp_path / "hf"))
    ids = torch.tensor([loaded.tokenizer("a river", "the sea")["input_ids"]])
    network = transformers.AutoModel.from_pretrained(tmp_path / "hf").eval()
    with torch.no_grad():
        zeros = network(ids, token_type_ids=torch.zeros_like(ids)).last_hidden_state[0, 0]
        ones = network(ids, token_type_ids=torch.ones_like(ids)).last_hidden_state[0, 0]
        ours = Tower(loaded).eval()(ids)[0]
    assert torch.allclose(ours, zeros, atol=1e-5)
    assert not torch.allclose(ours, ones, atol=1e-3)


def test_trap_missing_weights_are_refused_not_made_up(tmp_path):
    from safetensors.torch import load_file, save_file

    from mundap.encoder.checkpoints import open_checkpoint

    folder = make_checkpoint(tmp_path / "hf")
    weights = load_file(folder / "model.safetensors")
    key = next(name for name in weights if "layer.1" in name)
    del weights[key]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="lacks weights"):
        open_checkpoint(folder)


def make_cp(folder, extra=None):
    """A file in the layout of the original DPR, with the towers' weights under its own names."""
    make_checkpoint(folder / "base")
    towers = []
    weights = {}
    for seed, prefix in ((3, "question_model."), (4, "ctx_model.")):
        torch.manual_seed(seed)
        network = transformers.AutoModel.from_config(transformers.AutoConfig.from_pretrained(folder / "base")).eval()
        towers.append(network)
        weights |= {prefix + key: value for key, value in network.state_dict().items()}
        weights[prefix + "embeddings.position_ids"] = torch.arange(80).unsqueeze(0)
    state = {
        "model_dict": weights,
        "optimizer_dict": {"state": {}, "param_groups": []},
        "scheduler_dict": {"last_epoch": 1},
        "offset": 0,
        "epoch": 3,
        "encoder_params": {"pretrained_model_cfg": "bert-base-uncased", "do_lower_case": True, **(extra or {})},
    }
    torch.save(state, folder / "dpr.cp")
    return folder / "dpr.cp", towers


def test_original_dpr_files(tmp_path):
    from mundap.encoder.checkpoints import open_towers

    path, towers = make_cp(tmp_path)
    for loaded, network in zip(open_towers(path, base=tmp_path / "base").values(), towers, strict=True):
        ids = torch.tensor([loaded.tokenizer("a river")["input_ids"]])
        with torch.no_grad():
            expected = network(ids).last_hidden_state[:, 0].numpy()
        assert vectors(loaded, ["a river"]) == pytest.approx(expected, abs=1e-5)


class Payload:
    """Harmless, but code: unpickling it would make a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_pickle_with_code_in_it_is_refused_and_not_run(tmp_path):
    from mundap.encoder.checkpoints import open_towers

    path, _ = make_cp(tmp_path, {"evil": Payload(tmp_path / "proof")})
    with pytest.raises(ModelError, match="never run"):
        open_towers(path, base=tmp_path / "base")
    assert not (tmp_path / "proof").exists()
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ModelError, match="broken"):
        open_towers(path, base=tmp_path / "base")


def test_another_architecture_is_named(tmp_path):
    from mundap.encoder.checkpoints import open_towers

    path, _ = make_cp(tmp_path)
    config = json.loads((tmp_path / "base" / "config.json").read_text())
    (tmp_path / "base" / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(ModelError, match="lacks weights.*layer.2"):
        open_towers(path, base=tmp_path / "base")
    (tmp_path / "base" / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}))
    with pytest.raises(ModelError, match="another architecture"):
        open_towers(path, base=tmp_path / "base")


def test_ances_layout(tmp_path):
    from mundap.encoder import layouts
    from mundap.encoder.checkpoints import open_checkpoint
    from mundap.encoder.export import export

    folder = make_checkpoint(tmp_path / "ance", "roberta")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["RobertaDot_NLL_LN"]}))
    network = transformers.RobertaModel.from_pretrained(folder, add_pooling_layer=False).eval()
    head, norm = torch.nn.Linear(32, 24), torch.nn.LayerNorm(24)
    torch.nn.init.normal_(norm.weight)
    state = {f"roberta.{key}": value for key, value in network.state_dict().items()}
    state |= {f"embeddingHead.{key}": value for key, value in head.state_dict().items()}
    state |= {f"norm.{key}": value for key, value in norm.state_dict().items()}
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    loaded = open_checkpoint(folder)
    ids = torch.tensor([loaded.tokenizer("a river")["input_ids"]])
    with torch.no_grad():
        expected = norm(head(network(ids).last_hidden_state[:, 0])).numpy()
    assert vectors(loaded, ["a river"]) == pytest.approx(expected, abs=1e-5)
    layouts.write({"question": loaded}, tmp_path / "st")
    assert vectors(open_checkpoint(tmp_path / "st"), ["a river"]) == pytest.approx(expected, abs=1e-5)
    export(tmp_path / "st", tmp_path / "onnx", precisions=["fp32"])
    assert Encoder.from_pretrained(tmp_path / "onnx").encode_questions(["a river"]) == pytest.approx(expected, abs=1e-4)
    del state["norm.bias"]
    torch.save(state, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"norm\.bias"):
        open_checkpoint(folder)


@pytest.mark.parametrize("mode", ["mean_tokens", "cls_token"])
def test_sentence_transformers_gives_the_same_vectors(tmp_path, mode):
    """Their directory read by us, ours read by them."""
    library = pytest.importorskip("sentence_transformers")
    from mundap.encoder import layouts
    from mundap.encoder.checkpoints import open_checkpoint, with_settings

    source = as_sentence_transformers(make_checkpoint(tmp_path / "st"), mode)
    loaded = open_checkpoint(source)
    assert vectors(loaded) == pytest.approx(library.SentenceTransformer(str(source)).encode(TEXTS), abs=1e-5)
    loaded.head.append(torch.nn.Linear(32, 12))
    layouts.write({"question": with_settings(loaded, similarity="dot")}, tmp_path / "ours")
    theirs = library.SentenceTransformer(str(tmp_path / "ours")).encode(TEXTS)
    assert theirs.shape == (3, 12)
    assert vectors(open_checkpoint(tmp_path / "ours")) == pytest.approx(theirs, abs=1e-5)


def test_what_dprs_layout_cannot_hold_is_said(tmp_path):
    from mundap.encoder import layouts
    from mundap.encoder.checkpoints import open_checkpoint

    mean = as_sentence_transformers(make_checkpoint(tmp_path / "st"), "mean_tokens")
    with pytest.raises(ModelError, match="CLS"):
        layouts.write({"question": open_checkpoint(mean)}, tmp_path / "out", "dpr")
    with pytest.raises(ModelError, match="roberta"):
        layouts.write(
            {"question": open_checkpoint(make_checkpoint(tmp_path / "r", "roberta"))}, tmp_path / "out", "dpr"
        )
    assert not (tmp_path / "out").exists()
