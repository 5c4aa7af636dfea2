"""The network of a model folder back into torch, to train on from what ships (extra `train`).

The rounding stays: weights come back to within half a step of eight bits, which a few hundred steps of training heal.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mundap.errors import ExtraMissing, ModelError

try:
    import onnx
    import torch
    import transformers
except ImportError as error:
    raise ExtraMissing("training on from a model folder", "train") from error

_SIZES = (
    "network.embeddings.word_embeddings.weight",
    "network.embeddings.position_embeddings.weight",
    "network.embeddings.token_type_embeddings.weight",
    "network.encoder.layer.0.intermediate.dense.bias",
)
"""Weights whose shapes tell the size of a BERT."""

_LAYER_NORMS = ("attention.output", "output")


def open_network(path: Path, attention: str | None = "eager") -> tuple[Any, "Graph"]:
    """The BERT of an exported graph as a torch network, and the graph, which may hold more.

    Args:
        path: The ONNX file.
        attention: Which of the library's implementations to use; none: the fastest that the network has.

    Raises:
        ModelError: It is no BERT, or lacks weights.
    """
    graph = Graph(onnx.load(str(path)).graph)
    if not graph.is_bert:
        raise ModelError(f"{path.parent} is no BERT, and no other network can be trained on from a model folder")
    found = {name.removeprefix("network."): torch.from_numpy(value.copy()) for name, value in graph.weights().items()}
    network = _bert(found, graph.heads, attention)
    missing = sorted(set(network.state_dict()) - set(found) - {"embeddings.position_ids"})
    if missing:
        raise ModelError(f"{path} lacks weights the network needs: {', '.join(missing[:5])}")
    network.load_state_dict(found)
    return network.eval(), graph


def open_tokenizer(folder: Path) -> Any:
    """The tokenizer of a model folder, as transformers has it."""
    path = folder / "tokenizer.json"
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(path), **_special_tokens(path))


def _bert(weights: Mapping[str, Any], heads: int, attention: str | None) -> Any:
    """A BERT of the shape that the weights have."""
    words, places, types, inner = (weights[name.removeprefix("network.")] for name in _SIZES)
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


class Graph:
    """The weights of an exported network, by the names that they have in torch.

    Attributes:
        heads: Of its attention.
    """

    def __init__(self, graph: Any) -> None:
        self._nodes = list(graph.node)
        self._values = {one.name: one for one in graph.initializer}
        self.heads = 0
        for node in self.of_kind("Attention", "QAttention"):
            for attribute in node.attribute:
                if attribute.name == "num_heads":
                    self.heads = attribute.i

    @property
    def is_bert(self) -> bool:
        """Whether the names and layers of a BERT are there."""
        known = {name.removesuffix("_quantized") for name in self._values}
        return self.heads > 0 and set(_SIZES) <= known

    def weights(self) -> dict[str, np.ndarray]:
        """Those of the network: tables, layers and biases."""
        return {**self._embeddings(), **self._layers()}

    def beyond(self) -> list[Any]:
        """The nodes with weights that are no part of the network: heads, or layers on top."""
        return [node for node in self.of_kind("MatMul", "Gemm", "MatMulInteger") if "/layer." not in node.name]

    def _embeddings(self) -> dict[str, np.ndarray]:
        found = {}
        for node in self.of_kind("QEmbedLayerNormalization"):  # in the first models that were exported
            scales, zeros = node.input[8:13], node.input[13:18]
            for name, scale, zero in zip(node.input[2:7], scales, zeros, strict=True):
                table = self.array(name).astype(np.float32) - self.array(zero).astype(np.float32)
                found[name.removesuffix("_quantized")] = table * self.array(scale)
        for node in self.of_kind("Gather", "GatherBlockQuantized"):
            if node.input[0].startswith("network."):
                found[node.input[0]] = self._table(node)
        for node in self.of_kind("LayerNormalization"):
            found["network.embeddings.LayerNorm.weight"] = self.array(node.input[1])
            found["network.embeddings.LayerNorm.bias"] = self.array(node.input[2])
        return found

    def _layers(self) -> dict[str, np.ndarray]:
        found = {}
        for node in self.of_kind("MatMul", "MatMulInteger"):
            if node.input[1] in self._values and "/layer." in node.name:
                found[_torch_name(node.name)] = self._layer(node, node.name.removesuffix("_quant")).T
        for number, node in enumerate(self.of_kind("Attention", "QAttention")):
            found.update(self._qkv(node, f"network.encoder.layer.{number}.attention.self"))
        for number, node in enumerate(self.of_kind("BiasGelu")):
            found[f"network.encoder.layer.{number}.intermediate.dense.bias"] = self.array(node.input[1])
        # Two in a layer: behind the attention, and at its end. Equal arrays share a name, so names do not help.
        for number, node in enumerate(self.of_kind("SkipLayerNormalization")):
            name = f"network.encoder.layer.{number // 2}.{_LAYER_NORMS[number % 2]}"
            found[f"{name}.LayerNorm.weight"] = self.array(node.input[2])
            found[f"{name}.LayerNorm.bias"] = self.array(node.input[3])
            found[f"{name}.dense.bias"] = self.array(node.input[4])
        return found

    def of_kind(self, *kinds: str) -> list[Any]:
        """The nodes of a kind, from the lowest layer up."""
        return [node for node in self._nodes if node.op_type in kinds]

    def array(self, name: str) -> np.ndarray:
        """A stored array."""
        return np.asarray(onnx.numpy_helper.to_array(self._values[name]))

    def _table(self, node: Any) -> np.ndarray:
        """Embeddings: a scale for every row, or for every block of one."""
        table = self.array(node.input[0]).astype(np.float32)
        base = node.name.split("/GatherBlockQuantized")[0]
        if node.op_type == "GatherBlockQuantized":
            scales = self.array(f"{base}/scales")
            blocks = table.reshape(len(table), scales.shape[1], -1) * scales[..., None]
            return np.asarray(blocks.reshape(table.shape))
        scale = f"{base}/scale"
        if scale in self._values:
            table = table * self.array(scale)
        return table

    def _layer(self, node: Any, base: str) -> np.ndarray:
        """The weights of one layer, as many rows as inputs, without rounding and smoothing."""
        weight = self.array(node.input[1]).astype(np.float32)
        name = node.input[1].removesuffix("_quantized")
        if f"{name}_scale" in self._values:
            weight = (weight - self.array(f"{name}_zero_point").astype(np.float32)) * self.array(f"{name}_scale")
        smoothing = f"{base}/smoothing"
        if smoothing in self._values:
            weight = weight * self.array(smoothing)[:, None]
        return weight

    def _qkv(self, node: Any, name: str) -> dict[str, np.ndarray]:
        """The three of an attention, which the graph has side by side."""
        weight = self._layer(node, node.name.removesuffix("_quant"))
        found = {}
        columns_of = np.split(weight, 3, 1)
        biases = np.split(self.array(node.input[2]), 3)
        for part, columns, bias in zip(("query", "key", "value"), columns_of, biases, strict=True):
            found[f"{name}.{part}.weight"] = columns.T
            found[f"{name}.{part}.bias"] = bias
        return found


def _torch_name(node: str) -> str:
    """`/model/network/encoder/layer.0/output/dense/MatMul_quant` as `network.encoder.layer.0.output.dense.weight`."""
    parts = node.split("/")
    return ".".join(parts[parts.index("network") : -1]) + ".weight"
