"""A reader's model folder back into a checkpoint, to train on from what ships (extra `train`).

The rounding stays: weights come back to within half a step of eight bits, which a few hundred steps of training heal.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mundap.errors import ExtraMissing, ModelError
from mundap.models.folder import ReaderConfig
from mundap.reader.checkpoints import ReaderCheckpoint
from mundap.reader.network import ReaderNetwork

try:
    import onnx
    import torch
    import transformers
except ImportError as error:
    raise ExtraMissing("training on from a reader", "train") from error

_FILES = ("reader.fp32.onnx", "reader.int8.onnx")
_SIZES = (
    "network.embeddings.word_embeddings.weight",
    "network.embeddings.position_embeddings.weight",
    "network.embeddings.token_type_embeddings.weight",
    "network.encoder.layer.0.intermediate.dense.bias",
)
"""Weights whose shapes tell the size of a BERT."""

_LAYER_NORMS = ("attention.output", "output")
_SETTINGS = ("question_length", "stride", "max_answer_length", "spans")


def unpack_reader(folder: Path, attention: str | None = "eager") -> ReaderCheckpoint:
    """One of our readers as a torch network, from the most precise of its files.

    Raises:
        ModelError: The folder holds no reader, or one that is no BERT.
    """
    config = ReaderConfig.load(folder)
    found = [folder / name for name in _FILES if (folder / name).is_file()]
    if not found:
        raise ModelError(f"{folder} has none of {', '.join(_FILES)}")
    if config.layout != "dpr":
        raise ModelError(f"{folder} was exported from a plain extractive-QA model: train from that checkpoint instead")
    graph = _Graph(onnx.load(str(found[0])).graph)
    if not graph.is_bert:
        raise ModelError(f"{folder} is no BERT, and no other network can be trained on from a model folder")
    weights = {name: torch.from_numpy(value.copy()) for name, value in graph.weights().items()}
    network = _bert(weights, graph.heads, attention)
    size = network.config.hidden_size
    model = ReaderNetwork(network, torch.nn.Linear(size, 2), torch.nn.Linear(size, 1))
    missing = sorted(set(model.state_dict()) - set(weights) - {"network.embeddings.position_ids"})
    if missing:
        raise ModelError(f"{found[0]} lacks weights the network needs: {', '.join(missing[:5])}")
    model.load_state_dict(weights)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), **_special_tokens(folder / "tokenizer.json")
    )
    settings = {name: getattr(config, name) for name in _SETTINGS}
    return ReaderCheckpoint(model.eval(), tokenizer, max_length=config.max_length, settings=settings)


def _bert(weights: Mapping[str, Any], heads: int, attention: str | None) -> Any:
    """A BERT of the shape that the weights have."""
    words, places, types, inner = (weights[name] for name in _SIZES)
    config = transformers.BertConfig(
        vocab_size=len(words),
        hidden_size=words.shape[1],
        num_hidden_layers=sum(name.endswith("intermediate.dense.bias") for name in weights),
        num_attention_heads=heads,
        intermediate_size=len(inner),
        max_position_embeddings=len(places),
        type_vocab_size=len(types),
    )
    config._attn_implementation = attention
    return transformers.BertModel(config, add_pooling_layer=False)


def _special_tokens(path: Path) -> dict[str, str]:
    """The special tokens of BERT's vocabulary, or of the multilingual one."""
    from tokenizers import Tokenizer

    known = Tokenizer.from_file(str(path)).get_vocab()
    kinds = {
        "cls_token": ("[CLS]", "<s>"),
        "sep_token": ("[SEP]", "</s>"),
        "pad_token": ("[PAD]", "<pad>"),
        "unk_token": ("[UNK]", "<unk>"),
    }
    found: dict[str, str] = {}
    for kind, tokens in kinds.items():
        for token in tokens:
            if token in known:
                found.setdefault(kind, token)
    return found


class _Graph:
    """The weights of an exported reader, by the names that they have in torch."""

    def __init__(self, graph: Any) -> None:
        self._nodes = list(graph.node)
        self._values = {one.name: one for one in graph.initializer}
        self.heads = 0
        for node in self._of_kind("Attention", "QAttention"):
            for attribute in node.attribute:
                if attribute.name == "num_heads":
                    self.heads = attribute.i

    @property
    def is_bert(self) -> bool:
        """Whether the names and layers of a BERT are there."""
        return self.heads > 0 and set(_SIZES) <= set(self._values)

    def weights(self) -> dict[str, np.ndarray]:
        """All of them: tables, layers, biases and heads."""
        return {**self._embeddings(), **self._layers(), **self._heads()}

    def _embeddings(self) -> dict[str, np.ndarray]:
        found = {}
        for node in self._of_kind("Gather", "GatherBlockQuantized"):
            if node.input[0].startswith("network."):
                found[node.input[0]] = self._table(node)
        for node in self._of_kind("LayerNormalization"):
            found["network.embeddings.LayerNorm.weight"] = self._array(node.input[1])
            found["network.embeddings.LayerNorm.bias"] = self._array(node.input[2])
        return found

    def _layers(self) -> dict[str, np.ndarray]:
        found = {}
        for node in self._of_kind("MatMul", "MatMulInteger"):
            if node.input[1] in self._values and "/layer." in node.name:
                found[_torch_name(node.name)] = self._layer(node, node.name.removesuffix("_quant")).T
        for number, node in enumerate(self._of_kind("Attention", "QAttention")):
            found.update(self._qkv(node, f"network.encoder.layer.{number}.attention.self"))
        for number, node in enumerate(self._of_kind("BiasGelu")):
            found[f"network.encoder.layer.{number}.intermediate.dense.bias"] = self._array(node.input[1])
        # Two in a layer: behind the attention, and at its end. Equal arrays share a name, so names do not help.
        for number, node in enumerate(self._of_kind("SkipLayerNormalization")):
            name = f"network.encoder.layer.{number // 2}.{_LAYER_NORMS[number % 2]}"
            found[f"{name}.LayerNorm.weight"] = self._array(node.input[2])
            found[f"{name}.LayerNorm.bias"] = self._array(node.input[3])
            found[f"{name}.dense.bias"] = self._array(node.input[4])
        return found

    def _of_kind(self, *kinds: str) -> list[Any]:
        """The nodes of a kind, from the lowest layer up."""
        return [node for node in self._nodes if node.op_type in kinds]

    def _array(self, name: str) -> np.ndarray:
        return np.asarray(onnx.numpy_helper.to_array(self._values[name]))

    def _table(self, node: Any) -> np.ndarray:
        """Embeddings: a scale for every row, or for every block of one."""
        table = self._array(node.input[0]).astype(np.float32)
        base = node.name.split("/GatherBlockQuantized")[0]
        if node.op_type == "GatherBlockQuantized":
            scales = self._array(f"{base}/scales")
            blocks = table.reshape(len(table), scales.shape[1], -1) * scales[..., None]
            return np.asarray(blocks.reshape(table.shape))
        scale = f"{base}/scale"
        if scale in self._values:
            table = table * self._array(scale)
        return table

    def _layer(self, node: Any, base: str) -> np.ndarray:
        """The weights of one layer, as many rows as inputs, without rounding and smoothing."""
        weight = self._array(node.input[1]).astype(np.float32)
        name = node.input[1].removesuffix("_quantized")
        if f"{name}_scale" in self._values:
            weight = (weight - self._array(f"{name}_zero_point").astype(np.float32)) * self._array(f"{name}_scale")
        smoothing = f"{base}/smoothing"
        if smoothing in self._values:
            weight = weight * self._array(smoothing)[:, None]
        return weight

    def _qkv(self, node: Any, name: str) -> dict[str, np.ndarray]:
        """The three of an attention, which the graph has side by side."""
        weight = self._layer(node, node.name.removesuffix("_quant"))
        found = {}
        columns_of = np.split(weight, 3, 1)
        biases = np.split(self._array(node.input[2]), 3)
        for part, columns, bias in zip(("query", "key", "value"), columns_of, biases, strict=True):
            found[f"{name}.{part}.weight"] = columns.T
            found[f"{name}.{part}.bias"] = bias
        return found

    def _heads(self) -> dict[str, np.ndarray]:
        found = {}
        for node in self._nodes:
            if node.op_type in ("MatMul", "Gemm") and node.name.startswith(("/model/spans/", "/model/selection/")):
                part = node.name.split("/")[2]
                weight = self._array(node.input[1])
                if weight.shape[0] >= weight.shape[1]:  # a MatMul has it transposed, a Gemm has not
                    weight = weight.T
                found[f"{part}.weight"] = weight
                found[f"{part}.bias"] = self._array(f"model.{part}.bias")
        return found


def _torch_name(node: str) -> str:
    """`/model/network/encoder/layer.0/output/dense/MatMul_quant` as `network.encoder.layer.0.output.dense.weight`."""
    return ".".join(node.split("/")[2:-1]) + ".weight"
