"""Readers of others, in and out: tiny random weights in each layout, logits compared with their own code."""

import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from mundap import Encoder, cli
from mundap.errors import ModelError, MundapError
from mundap.models.folder import ReaderConfig
from mundap.reader.runtime import Reader
from tests.encoder.test_checkpoints import Payload
from tests.encoder.test_export import make_checkpoint

onnx = pytest.importorskip("onnx")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.torch

QUESTION = "who is it"
PASSAGES = [("a title", "the river runs to a sea"), ("", "x"), ("long", "we walk along it with our dog by night " * 12)]
SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)


def loud(*layers):
    """Heads whose logits are large enough to tell one model from another."""
    for layer in layers:
        torch.nn.init.normal_(layer.weight, std=0.7)
        torch.nn.init.normal_(layer.bias)


def copy_tokenizer(source, folder):
    for path in source.glob("*token*"):
        shutil.copy(path, folder)


def make_own(folder, kind="bert"):
    """A reader in our own layout."""
    from mundap.reader.checkpoints import open_reader, write_reader

    make_checkpoint(folder.with_name("encoder"), kind)
    torch.manual_seed(2)
    loaded = open_reader(folder.with_name("encoder"), fresh=True)
    loud(loaded.model.spans, loaded.model.selection)
    loaded.model.eval()
    write_reader(loaded, folder)
    return loaded


def with_positions(folder, positions):
    """The config of a checkpoint, for weights that are yet to be made, with more positions than it has."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": positions}))


def make_dpr_reader(folder, positions=400):
    base = make_checkpoint(folder.with_name("base"))
    torch.manual_seed(1)
    facts = transformers.AutoConfig.from_pretrained(base).to_dict() | {"max_position_embeddings": positions}
    model = transformers.DPRReader(transformers.DPRConfig(**{key: facts[key] for key in SIZES})).eval()
    loud(model.span_predictor.qa_outputs, model.span_predictor.qa_classifier)
    model.save_pretrained(folder)
    copy_tokenizer(base, folder)
    return model


def make_plain_qa(folder, kind):
    base = make_checkpoint(folder.with_name("base"), kind if kind == "roberta" else "bert")
    torch.manual_seed(4)
    facts = transformers.AutoConfig.from_pretrained(base).to_dict()
    sizes = {key: facts[key] for key in SIZES}
    if kind == "roberta":  # as the real one: one segment, two separators between question and text
        config = transformers.RobertaConfig(**sizes, type_vocab_size=1)
        model = transformers.RobertaForQuestionAnswering(config)
    elif kind == "distilbert":  # has no token types at all
        config = transformers.DistilBertConfig(
            vocab_size=60, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=80
        )
        model = transformers.DistilBertForQuestionAnswering(config)
    else:
        model = transformers.BertForQuestionAnswering(transformers.BertConfig(**sizes))
    loud(model.qa_outputs)
    model.eval().save_pretrained(folder)
    copy_tokenizer(base, folder)
    if kind == "roberta":
        raw = json.loads((folder / "tokenizer.json").read_text())
        raw["post_processor"] = {
            "type": "RobertaProcessing",
            "sep": ["[SEP]", 3],
            "cls": ["[CLS]", 2],
            "trim_offsets": True,
            "add_prefix_space": False,
        }
        (folder / "tokenizer.json").write_text(json.dumps(raw))
    return model


def read(folder, precision="fp32"):
    """What our run time says of every window of a few passages."""
    return [scored for row in Reader(folder, precision).read(QUESTION, PASSAGES) for scored in row]


def dpr_logits(model, window):
    ids = torch.tensor([window.ids])
    with torch.no_grad():
        found = model(input_ids=ids, attention_mask=torch.ones_like(ids))
    return found.start_logits[0].numpy(), found.end_logits[0].numpy(), float(found.relevance_logits.squeeze())


def own_logits(loaded, window):
    ids = torch.tensor([window.ids])
    with torch.no_grad():
        starts, ends, selection = loaded.model.eval()(ids, torch.ones_like(ids))
    return starts[0].numpy(), ends[0].numpy(), float(selection[0])


def assert_same(scored, expected, tolerance=1e-4):
    assert len(scored) >= len(PASSAGES)
    for one, (starts, ends, selection) in zip(scored, expected, strict=True):
        assert one.starts == pytest.approx(starts, abs=tolerance)
        assert one.ends == pytest.approx(ends, abs=tolerance)
        if selection is not None:
            assert one.selection == pytest.approx(selection, abs=tolerance)
    assert np.ptp(np.concatenate([one.starts for one in scored])) > 1  # logits that differ among themselves


@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet"])
def test_our_own_layout_written_read_and_exported(tmp_path, kind):
    from mundap.reader.checkpoints import is_reader, open_reader
    from mundap.reader.export import export_reader

    loaded = make_own(tmp_path / "own", kind)
    assert is_reader(tmp_path / "own")
    again = open_reader(tmp_path / "own")
    assert again.layout == "dpr"
    assert export_reader(tmp_path / "own", tmp_path / "onnx", precisions=["fp32"])["fp32"] < 1e-4
    scored = read(tmp_path / "onnx")
    assert_same(scored, [own_logits(loaded, one.window) for one in scored])
    assert_same(scored, [own_logits(again, one.window) for one in scored])
    config = ReaderConfig.load(tmp_path / "onnx")
    positions = 80 if kind == "bert" else 78  # the others count from behind the padding token
    assert (config.layout, config.selection, config.max_length) == ("dpr", "head", positions)
    assert len(scored) > 4  # one passage is long enough for several windows


def test_hugging_faces_dpr_reader(tmp_path):
    from mundap.reader.checkpoints import is_reader, open_reader
    from mundap.reader.export import export_reader

    model = make_dpr_reader(tmp_path / "dpr")
    assert is_reader(tmp_path / "dpr")
    export_reader(tmp_path / "dpr", tmp_path / "onnx", precisions=["fp32"])
    scored = read(tmp_path / "onnx")
    theirs = [dpr_logits(model, one.window) for one in scored]
    assert_same(scored, theirs)
    loaded = open_reader(tmp_path / "dpr")
    assert_same(scored, [own_logits(loaded, one.window) for one in scored])
    assert ReaderConfig.load(tmp_path / "onnx").max_length == 350


def test_windows_are_no_longer_than_a_model_has_positions(tmp_path):
    from mundap.reader.checkpoints import open_reader

    make_dpr_reader(tmp_path / "dpr", positions=80)
    assert open_reader(tmp_path / "dpr").max_length == 80
    (tmp_path / "cp").mkdir()
    path, *_ = make_cp(tmp_path / "cp", positions=80)
    assert open_reader(path, base=tmp_path / "cp" / "base").max_length == 80


def test_our_reader_as_hugging_faces(tmp_path):
    from mundap.reader.checkpoints import open_reader, write_reader
    from mundap.reader.export import export_reader

    make_own(tmp_path / "own")
    write_reader(open_reader(tmp_path / "own"), tmp_path / "dpr", layout="dpr")
    model, report = transformers.DPRReader.from_pretrained(tmp_path / "dpr", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    export_reader(tmp_path / "own", tmp_path / "onnx", precisions=["fp32"])
    scored = read(tmp_path / "onnx")
    assert_same(scored, [dpr_logits(model.eval(), one.window) for one in scored])
    # and back again
    write_reader(open_reader(tmp_path / "dpr"), tmp_path / "back")
    back = open_reader(tmp_path / "back")
    assert_same(scored, [own_logits(back, one.window) for one in scored])


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert"])
def test_a_plain_extractive_model(tmp_path, kind):
    from mundap.reader.checkpoints import is_reader
    from mundap.reader.export import export_reader

    model = make_plain_qa(tmp_path / "qa", kind)
    assert is_reader(tmp_path / "qa")
    export_reader(tmp_path / "qa", tmp_path / "onnx", precisions=["fp32"])
    config = ReaderConfig.load(tmp_path / "onnx")
    assert (config.layout, config.selection) == ("pair", "null")
    scored = read(tmp_path / "onnx")
    theirs = []
    for one in scored:
        ids, types = torch.tensor([one.window.ids]), torch.tensor([one.window.types])
        more = {} if kind == "distilbert" else {"token_type_ids": types}
        with torch.no_grad():
            found = model(input_ids=ids, attention_mask=torch.ones_like(ids), **more)
        theirs.append((found.start_logits[0].numpy(), found.end_logits[0].numpy(), None))
        assert one.selection is None
    assert_same(scored, theirs)
    types = {kind for one in scored for kind in one.window.types}
    assert types == ({0} if kind == "roberta" else {0, 1})
    # token for token what the model's own tokenizer makes of the pair
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path / "qa")
    assert scored[0].window.ids == tokenizer(QUESTION, PASSAGES[0][1])["input_ids"]


def test_trap_token_types_of_a_pair_are_not_all_zero(tmp_path):
    """It matters: the same weights with other token types give other logits."""
    from mundap.reader.export import export_reader

    model = make_plain_qa(tmp_path / "qa", "bert")
    export_reader(tmp_path / "qa", tmp_path / "onnx", precisions=["fp32"])
    one = read(tmp_path / "onnx")[0]
    ids = torch.tensor([one.window.ids])
    with torch.no_grad():
        zeros = model(input_ids=ids, token_type_ids=torch.zeros_like(ids)).start_logits[0].numpy()
    assert np.abs(one.starts - zeros).max() > 1e-2


def make_cp(folder, extra=None, without=(), positions=400):
    """A reader in the layout of the original DPR."""
    make_checkpoint(folder / "base")
    with_positions(folder / "base", positions)
    torch.manual_seed(3)
    network = transformers.AutoModel.from_config(transformers.AutoConfig.from_pretrained(folder / "base")).eval()
    spans, selection = torch.nn.Linear(32, 2), torch.nn.Linear(32, 1)
    loud(spans, selection)
    weights = {f"encoder.{key}": value for key, value in network.state_dict().items()}
    weights["encoder.embeddings.position_ids"] = torch.arange(positions).unsqueeze(0)
    for name, layer in (("qa_outputs", spans), ("qa_classifier", selection)):
        weights |= {f"{name}.{key}": value for key, value in layer.state_dict().items()}
    state = {
        "model_dict": {key: value for key, value in weights.items() if not key.startswith(tuple(without) or "\0")},
        "optimizer_dict": {"state": {}, "param_groups": []},
        "scheduler_dict": {"last_epoch": 1},
        "offset": 0,
        "epoch": 16,
        "encoder_params": {"pretrained_model_cfg": "bert-base-uncased", "do_lower_case": True, **(extra or {})},
    }
    torch.save(state, folder / "reader.cp")
    return folder / "reader.cp", network, spans, selection


def test_original_dpr_readers(tmp_path):
    from mundap.reader.checkpoints import is_reader, open_reader

    path, network, spans, selection = make_cp(tmp_path)
    assert is_reader(path)
    loaded = open_reader(path, base=tmp_path / "base")
    ids = torch.tensor([loaded.tokenizer("a river")["input_ids"]])
    with torch.no_grad():
        states = network(ids).last_hidden_state
        expected = (*spans(states).unbind(-1), selection(states[:, 0])[:, 0])
        found = loaded.model(ids, torch.ones_like(ids))
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_from_a_cp_file_to_a_model_folder_on_the_command_line(tmp_path):
    path, *_ = make_cp(tmp_path)
    run = CliRunner().invoke
    done = run(cli.main, ["models", "convert", str(path), "-o", str(tmp_path / "x")], standalone_mode=False)
    assert isinstance(done.exception, MundapError)
    assert "--base" in str(done.exception)
    options = ["--base", str(tmp_path / "base"), "-o", str(tmp_path / "hf"), "--to", "dpr", "--json"]
    done = run(cli.main, ["models", "convert", str(path), *options])
    assert json.loads(done.output)["towers"] == ["reader"]
    model = transformers.DPRReader.from_pretrained(tmp_path / "hf").eval()
    done = run(cli.main, ["models", "export", str(tmp_path / "hf"), "-o", str(tmp_path / "onnx"), "--json"])
    facts = json.loads(done.output)
    assert facts["kind"] == "reader"
    assert facts["parity"]["fp32"] < 1e-4
    scored = read(tmp_path / "onnx")
    assert_same(scored, [dpr_logits(model, one.window) for one in scored])


def test_a_pickle_with_code_in_it_is_refused_and_not_run(tmp_path):
    from mundap.reader.checkpoints import is_reader, open_reader

    path, *_ = make_cp(tmp_path, {"evil": Payload(tmp_path / "proof")})
    for look in (is_reader, lambda path: open_reader(path, base=tmp_path / "base")):
        with pytest.raises(ModelError, match="never run"):
            look(path)
    assert not (tmp_path / "proof").exists()
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ModelError, match="broken"):
        open_reader(path, base=tmp_path / "base")


def drop_weight(folder, part):
    """Take the weights with this in their name out of a folder; their names."""
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    gone = [key for key in weights if part in key]
    assert gone
    kept = {key: value.clone() for key, value in weights.items() if key not in gone}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("part", ["layer.1.attention.self.query.weight", "qa_outputs.weight", "qa_classifier.weight"])
def test_trap_a_dpr_reader_with_missing_weights_is_refused(tmp_path, part):
    from mundap.reader.checkpoints import open_reader

    make_dpr_reader(tmp_path / "dpr")
    drop_weight(tmp_path / "dpr", part)
    with pytest.raises(ModelError, match=f"lacks weights.*{part}"):
        open_reader(tmp_path / "dpr")


@pytest.mark.parametrize("part", ["layer.0.output.dense.bias", "qa_outputs.bias"])
def test_trap_a_plain_model_with_missing_weights_is_refused(tmp_path, part):
    from mundap.reader.checkpoints import open_reader

    make_plain_qa(tmp_path / "qa", "bert")
    drop_weight(tmp_path / "qa", part)
    with pytest.raises(ModelError, match=f"lacks weights.*{part}"):
        open_reader(tmp_path / "qa")


@pytest.mark.parametrize("part", ["encoder.encoder.layer.1.", "qa_outputs", "qa_classifier.bias", "encoder."])
def test_a_cp_file_with_missing_weights_is_refused(tmp_path, part):
    from mundap.reader.checkpoints import open_reader

    path, *_ = make_cp(tmp_path, without=(part,))
    with pytest.raises(ModelError, match="lacks weights|no weights under encoder"):
        open_reader(path, base=tmp_path / "base")


def test_our_own_layout_with_missing_heads_is_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    from mundap.reader.checkpoints import open_reader

    make_own(tmp_path / "own")
    heads = load_file(tmp_path / "own" / "reader_heads.safetensors")
    save_file(
        {key: value for key, value in heads.items() if key != "qa_classifier.bias"},
        tmp_path / "own" / "reader_heads.safetensors",
    )
    with pytest.raises(ModelError, match="lacks weights.*qa_classifier"):
        open_reader(tmp_path / "own")
    (tmp_path / "own" / "reader_heads.safetensors").unlink()
    with pytest.raises(ModelError, match="is not a reader"):
        open_reader(tmp_path / "own")


def test_an_encoder_is_no_reader_and_a_reader_no_encoder(tmp_path, tiny_model, tiny_reader):
    from mundap.reader.checkpoints import is_reader, open_reader
    from mundap.reader.export import export_reader

    folder = make_checkpoint(tmp_path / "hf")
    assert not is_reader(folder)
    with pytest.raises(ModelError, match="is not a reader: BertModel has no heads"):
        open_reader(folder)
    with pytest.raises(ModelError, match="is not a reader"):
        export_reader(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(ModelError, match="no config.json"):
        open_reader(tmp_path)
    with pytest.raises(ModelError, match="is an encoder: give the folder of a reader"):
        Reader(tiny_model)
    with pytest.raises(ModelError, match="is a reader: give the folder of an encoder"):
        Encoder.from_pretrained(tiny_reader)


def test_int8_is_near_and_comes_first(tmp_path):
    from mundap.reader.export import export_reader

    make_own(tmp_path / "own")
    parity = export_reader(tmp_path / "own", tmp_path / "onnx")
    assert parity["fp32"] < 1e-4 < parity["int8"] < 0.1
    whole, small = read(tmp_path / "onnx"), read(tmp_path / "onnx", "int8")
    for left, right in zip(whole, small, strict=True):
        if len(left.starts) > 20:
            assert np.corrcoef(left.starts, right.starts)[0, 1] > 0.95
        assert right.selection == pytest.approx(left.selection, abs=0.3)
    assert read(tmp_path / "onnx", None)[0].starts == pytest.approx(small[0].starts, abs=1e-6)
    graph = onnx.load(str(tmp_path / "onnx" / "reader.int8.onnx")).graph
    rounded = [one.name for one in graph.initializer if one.name.endswith("_quantized")]
    assert rounded and not [name for name in rounded if "selection" in name or "spans" in name]  # heads stay exact


def test_what_else_is_read_does_not_change_a_passage(tmp_path):
    """One row a run: neither padding nor the neighbours of a batch are seen, in int8 either."""
    from mundap.reader.export import export_reader

    make_own(tmp_path / "own")
    export_reader(tmp_path / "own", tmp_path / "onnx", precisions=["int8"])
    reader = Reader(tmp_path / "onnx", threads=2)
    together = reader.read(QUESTION, PASSAGES)
    for passage, row in zip(PASSAGES, together, strict=True):
        (alone,) = reader.read(QUESTION, [passage])
        assert [one.starts.tolist() for one in alone] == [one.starts.tolist() for one in row]
        assert [one.selection for one in alone] == [one.selection for one in row]


def test_what_dprs_layout_cannot_hold_is_said(tmp_path):
    from mundap.reader.checkpoints import open_reader, write_reader

    make_own(tmp_path / "own", "roberta")
    with pytest.raises(ModelError, match="roberta"):
        write_reader(open_reader(tmp_path / "own"), tmp_path / "out", "dpr")
    make_plain_qa(tmp_path / "qa", "bert")
    with pytest.raises(ModelError, match="no head for selection"):
        write_reader(open_reader(tmp_path / "qa"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_trap_capitals_survive_in_a_cased_dpr_reader(tmp_path):
    from mundap.reader.checkpoints import open_reader

    make_dpr_reader(tmp_path / "dpr")
    raw = json.loads((tmp_path / "dpr" / "tokenizer.json").read_text())
    raw["normalizer"]["lowercase"] = False
    (tmp_path / "dpr" / "tokenizer.json").write_text(json.dumps(raw))
    tokenizer = open_reader(tmp_path / "dpr").tokenizer
    assert tokenizer("A")["input_ids"] != tokenizer("a")["input_ids"]
