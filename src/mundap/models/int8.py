"""Dynamic int8 for an exported graph (extra `train`)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mundap.errors import ExtraMissing

try:
    import onnx
    import onnxruntime
    from onnxruntime.quantization import QuantType, quantize_dynamic
except ImportError as error:
    raise ExtraMissing("exporting a model", "train") from error

PROBES = (
    ("Question answering", "The retriever selects passages, and the reader extracts the answer span."),
    ("서울", "서울은 대한민국의 수도이자 최대 도시이다. 한강이 도시를 가로질러 흐른다."),
    ("", "Short."),
    ("A longer passage", "Rivers carry water from the mountains to the sea, and silt with it. " * 12),
    (
        "The bridge at Halden",
        "Work on the bridge began in March 1897 and took nearly four years, at a cost of $2.3 million. Its architect, "
        "Maria Lindqvist, had studied in Vienna; she never saw it finished. On 14 May 1901 the first train crossed, "
        'with 212 passengers, two brass bands and, according to the Morning Herald, "an uncommonly nervous mayor".',
    ),
    (
        "Photosynthesis",
        "Plants, algae and some bacteria turn light into chemical energy. In the first stage, water is split and "
        "oxygen set free; in the second, carbon dioxide is bound into sugars. The rate depends on light, temperature "
        "(most plants do best between 15 and 30 °C) and the CO2 in the air, which was 421 ppm in 2022.",
    ),
    ("", "def area(r): return 3.14159 * r ** 2  # see https://example.org/circle?id=42; e-mail: help@example.org"),
    (
        "Der Fluss",
        "Der Fluss entspringt im Gebirge, fließt an drei größeren Städten vorbei und mündet nach 412 km ins Meer. "
        "L'été, ses rives sont très fréquentées; en invierno, casi nadie las visita.",
    ),
    (
        "The golden key",
        '"Who are you?" asked the old king, "and why have you come so far?" The girl said nothing. She put the '
        "golden key on the table, bowed, and walked back into the snow, where her brother was waiting with the horses.",
    ),
)
"""Titles and texts of many kinds: they show which inputs of a network are huge, and how near an export comes."""

_SHARE = 0.5  # of the difficulty that weights take over from inputs: measured with the default reader
_KINDS = ("MatMul", "Attention")
_HEAD = 16  # columns; a layer with fewer is the answer itself, and costs next to nothing in fp32
_FLOAT = onnx.TensorProto.FLOAT
_LEAST = 1e-4
_MICROSOFT = "com.microsoft"
_BLOCK = 32  # weights that share a scale, where a table came in 4 bits


def write_int8(source: Path, path: Path, probes: Sequence[Mapping[str, np.ndarray]]) -> None:
    """Quantise a graph to int8: weights with a scale per column, activations with a scale per token.

    Weights are unsigned: signed ones overflow the 16-bit sums of processors without VNNI, and would give other
    vectors there than on those that have it. So an index can move between machines.

    A few dimensions of what a layer gets are ten times as large as the rest, and so are a few tokens; they would take
    all the steps of a scale that is shared. Dimensions are divided down before, and the rows of the weights they meet
    multiplied up. Tokens are divided by their largest number, and the product is multiplied by it. Embeddings have a
    scale for every row of their table. Nothing but the rounding changes.

    Args:
        source: The graph in fp32.
        path: The one to write.
        probes: Inputs of some texts, which show what is large.
    """
    model = onnx.load(str(source))
    layers = _prepare(model, probes)
    if any(node.domain == _MICROSOFT for node in model.graph.node):
        model.ir_version = max(model.ir_version, 10)  # the first that knows 4 bits
        if all(one.domain != _MICROSOFT for one in model.opset_import):
            model.opset_import.append(onnx.helper.make_opsetid(_MICROSOFT, 1))
    prepared = path.with_suffix(".prepared")
    onnx.save(model, str(prepared))
    quantize_dynamic(
        str(prepared),
        str(path),
        op_types_to_quantize=list(_KINDS),
        nodes_to_quantize=layers,  # a Gemm becomes a MatMul of another name on the way, so excluding is not enough
        nodes_to_exclude=[node.name for node in model.graph.node if node.name not in layers],  # where there are none
        weight_type=QuantType.QUInt8,
        per_channel=True,
        extra_options={"DefaultTensorType": _FLOAT},
    )
    prepared.unlink()


def _prepare(model: Any, probes: Sequence[Mapping[str, np.ndarray]]) -> list[str]:
    """Insert the scales that make rounding harmless; returns the nodes to round."""
    graph = model.graph
    weights = _matrices(graph)
    layers = [node for node in graph.node if _is_layer(node, weights)]
    names = [node.name for node in layers]
    largest = _largest(model, {node.input[0] for node in layers}, probes)
    parts = _Parts(graph)
    unshared = _used_once(graph, weights)
    for node in list(graph.node):
        if node.name in names:
            if node.input[1] in unshared:
                _smooth(parts, node, weights[node.input[1]], largest[node.input[0]])
            _add_layer(parts, node)
        elif node.op_type == "Gather" and node.input[0] in unshared:
            _scale_rows(parts, node, weights[node.input[0]])
        else:
            parts.nodes.append(node)
    parts.write()
    return names


def _matrices(graph: Any) -> dict[str, Any]:
    """The weights of a graph that are matrices, by name."""
    return {one.name: one for one in graph.initializer if one.data_type == _FLOAT and len(one.dims) == 2}


def _used_once(graph: Any, weights: Mapping[str, Any]) -> set[str]:
    """The weights of one node alone: nodes that share a weight cannot each have it scaled."""
    uses: Counter[str] = Counter()
    for node in graph.node:
        uses.update(node.input)
    return {name for name in weights if uses[name] == 1}


def _add_layer(parts: "_Parts", node: Any) -> None:
    if node.op_type == "MatMul":
        _scale_tokens(parts, node)
    else:  # an Attention adds its bias inside, so its product cannot be scaled
        parts.nodes.append(node)


def _is_layer(node: Any, weights: Mapping[str, Any]) -> bool:
    """Whether a node multiplies by weights that are to be rounded; small heads stay exact."""
    if node.op_type not in _KINDS or node.input[1] not in weights:
        return False
    return bool(weights[node.input[1]].dims[1] >= _HEAD)


class _Parts:
    """The nodes of a graph as it is rebuilt."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.nodes: list[Any] = []

    def add(self, owner: Any, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """A node that belongs to another one; gives the name of what it puts out."""
        name = f"{owner.name}/{kind}{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(kind, inputs, [output or name], name=name, **attributes))
        return output or name

    def constant(self, owner: Any, name: str, value: np.ndarray) -> str:
        """A number, or many."""
        self.graph.initializer.append(onnx.numpy_helper.from_array(value, f"{owner.name}/{name}"))
        return f"{owner.name}/{name}"

    def write(self) -> None:
        """Write it into the graph."""
        del self.graph.node[:]
        self.graph.node.extend(self.nodes)


def _smooth(parts: _Parts, node: Any, weight: Any, largest: np.ndarray) -> None:
    columns = onnx.numpy_helper.to_array(weight)
    scale = np.maximum(largest, _LEAST) ** _SHARE / np.maximum(np.abs(columns).max(1), _LEAST) ** (1 - _SHARE)
    scale = (scale / np.exp(np.log(scale).mean())).astype(np.float32)
    weight.CopyFrom(onnx.numpy_helper.from_array(columns * scale[:, None], weight.name))
    node.input[0] = parts.add(node, "Mul", node.input[0], parts.constant(node, "smoothing", 1 / scale))


def _scale_tokens(parts: _Parts, node: Any) -> None:
    size = parts.add(node, "Abs", node.input[0])
    size = parts.add(node, "ReduceMax", size, axes=[-1], keepdims=1)
    size = parts.add(node, "Max", size, parts.constant(node, "least", np.array(1e-9, np.float32)))
    output, node.output[0] = node.output[0], f"{node.name}/product"
    node.input[0] = parts.add(node, "Div", node.input[0], size)
    parts.nodes.append(node)
    parts.add(node, "Mul", node.output[0], size, output=output)


def _scale_rows(parts: _Parts, node: Any, weight: Any) -> None:
    table = onnx.numpy_helper.to_array(weight)
    blocks = _four_bits(table)
    if blocks is not None:
        _keep_blocks(parts, node, weight, *blocks)
        return
    scale = np.maximum(np.abs(table).max(1, keepdims=True), _LEAST).astype(np.float32) / 127
    weight.CopyFrom(onnx.numpy_helper.from_array(np.round(table / scale).astype(np.int8), weight.name))
    size = parts.add(node, "Gather", parts.constant(node, "scale", scale), node.input[1])
    output, node.output[0] = node.output[0], f"{node.name}/row"
    parts.nodes.append(node)
    parts.add(node, "Mul", parts.add(node, "Cast", node.output[0], to=_FLOAT), size, output=output)


def _four_bits(table: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """A table that came in blocks of 4 bits, as numbers from -8 to 7 and a scale for every block; else None.

    Eight bits would double its size and bring nothing back.
    """
    if table.shape[1] % _BLOCK:
        return None
    blocks = table.reshape(len(table), -1, _BLOCK)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(2)[..., None], 2)
    scales = (largest / -8).astype(np.float32)
    codes = np.round(np.divide(blocks, scales, out=np.zeros_like(blocks), where=scales != 0))
    if codes.max() > 7 or np.abs(codes * scales - blocks).max() > 1e-6 * np.abs(table).max():
        return None
    return codes.astype(np.int8).reshape(table.shape), scales[..., 0]


def _keep_blocks(parts: _Parts, node: Any, weight: Any, codes: np.ndarray, scales: np.ndarray) -> None:
    halves = (codes & 15).astype(np.uint8)
    packed = halves[:, 0::2] | (halves[:, 1::2] << 4)
    weight.CopyFrom(
        onnx.helper.make_tensor(weight.name, onnx.TensorProto.INT4, codes.shape, packed.tobytes(), raw=True)
    )
    inputs = (weight.name, node.input[1], parts.constant(node, "scales", scales))
    parts.add(
        node,
        "GatherBlockQuantized",
        *inputs,
        output=node.output[0],
        domain=_MICROSOFT,
        block_size=_BLOCK,
        gather_axis=0,
        quantize_axis=1,
    )


def _largest(model: Any, names: Iterable[str], probes: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """For values inside of a graph the largest of each dimension, whatever its sign."""
    looked_at = onnx.ModelProto()
    looked_at.CopyFrom(model)
    wanted = sorted(names)
    if not wanted:
        return {}
    del looked_at.graph.output[:]
    looked_at.graph.output.extend(onnx.helper.make_tensor_value_info(name, _FLOAT, None) for name in wanted)
    session = onnxruntime.InferenceSession(looked_at.SerializeToString(), providers=["CPUExecutionProvider"])
    largest: dict[str, np.ndarray] = {}
    for probe in probes:
        for name, value in zip(wanted, session.run(None, dict(probe)), strict=True):
            found = np.abs(value).reshape(-1, value.shape[-1]).max(0)
            largest[name] = np.maximum(largest.get(name, found), found)
    return largest
