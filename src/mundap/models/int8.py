"""Dynamic int8 for an exported graph (extra `train`)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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

_SHARE = 0.65  # of the difficulty that weights take over from inputs: measured, .5 to .8 are much alike
_FLOAT = onnx.TensorProto.FLOAT
_LEAST = 1e-4


def write_int8(
    source: Path,
    path: Path,
    probes: Sequence[Mapping[str, np.ndarray]],
    exact: Callable[[str], bool] = lambda node: False,
) -> None:
    """Inputs in eight bits, one scale a text; weights in seven bits, a scale for every column.

    Eight bits overflow the 16-bit sums of processors without VNNI, and give other vectors there than on those
    that have it; seven never do, so an index can move between machines.

    A few dimensions of what a layer gets are ten times as large as the rest and would take all the steps of its one
    scale. They are divided down before, and the rows of the weights they meet multiplied up: the product is the same.

    Args:
        source: The graph in fp32.
        path: The one to write.
        probes: Inputs of some texts, which show what is large.
        exact: Which nodes, by name, stay as they are.
    """
    model = onnx.load(str(source))
    _smooth(model, probes, exact)
    smoothed = path.with_suffix(".smooth")
    onnx.save(model, str(smoothed))
    quantize_dynamic(
        str(smoothed),
        str(path),
        weight_type=QuantType.QInt8,
        per_channel=True,
        reduce_range=True,
        nodes_to_exclude=[node.name for node in model.graph.node if exact(node.name)],
        extra_options={"DefaultTensorType": _FLOAT},
    )
    smoothed.unlink()


def _smooth(model: Any, probes: Sequence[Mapping[str, np.ndarray]], exact: Callable[[str], bool]) -> None:
    weights = {one.name: one for one in model.graph.initializer}
    uses = Counter(name for node in model.graph.node for name in node.input)
    chosen = {
        node.name
        for node in model.graph.node
        if node.op_type in ("MatMul", "Attention")
        and len(weights[node.input[1]].dims if node.input[1] in weights else ()) == 2
        and uses[node.input[1]] == 1  # layers that share a weight cannot each have it scaled
        and not exact(node.name)
    }
    largest = _largest(model, {node.input[0] for node in model.graph.node if node.name in chosen}, probes)
    nodes = []
    for node in model.graph.node:
        if node.name in chosen:
            weight = onnx.numpy_helper.to_array(weights[node.input[1]])
            inputs = np.maximum(largest[node.input[0]], _LEAST)
            scale = inputs**_SHARE / np.maximum(np.abs(weight).max(1), _LEAST) ** (1 - _SHARE)
            scale = (scale / np.exp(np.log(scale).mean())).astype(np.float32)
            weights[node.input[1]].CopyFrom(onnx.numpy_helper.from_array(weight * scale[:, None], node.input[1]))
            factor, divided = f"{node.name}/smoothing", f"{node.name}/smoothed"
            model.graph.initializer.append(onnx.numpy_helper.from_array(1 / scale, factor))
            nodes.append(onnx.helper.make_node("Mul", [node.input[0], factor], [divided], name=f"{node.name}/smooth"))
            node.input[0] = divided
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _largest(model: Any, names: Iterable[str], probes: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """For values inside of a graph the largest of each dimension, whatever its sign."""
    looked_at = onnx.ModelProto()
    looked_at.CopyFrom(model)
    wanted = sorted(names)
    del looked_at.graph.output[:]
    looked_at.graph.output.extend(onnx.helper.make_tensor_value_info(name, _FLOAT, None) for name in wanted)
    session = onnxruntime.InferenceSession(looked_at.SerializeToString(), providers=["CPUExecutionProvider"])
    rows = [
        [np.abs(value).reshape(-1, value.shape[-1]).max(0) for value in session.run(None, dict(probe))]
        for probe in probes
    ]
    return {name: np.max(column, axis=0) for name, column in zip(wanted, zip(*rows, strict=True), strict=True)}
