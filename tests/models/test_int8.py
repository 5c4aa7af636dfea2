"""What is rounded to eight bits, on graphs of one layer: a table of tokens, and a weight that they are multiplied by."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.torch

WIDTH = 64
TOKENS = np.arange(20, dtype=np.int64)[None]


def write(path, table, *weights):
    """A graph that looks tokens up and multiplies them by each of the weights, one after the other."""
    from onnx import TensorProto, helper, numpy_helper

    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["x0"], name="lookup")]
    kept = {"table": table}
    for number, weight in enumerate(weights):
        same = next((name for name, one in kept.items() if one is weight), f"weight{number}")
        kept[same] = weight
        nodes.append(helper.make_node("MatMul", [f"x{number}", same], [f"x{number + 1}"], name=f"layer{number}"))
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "length"])],
        [helper.make_tensor_value_info(f"x{len(weights)}", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in kept.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


def run(path, tokens=TOKENS):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"input_ids": tokens})[0][0]


def both(folder, table, *weights):
    """What the graph gives in fp32 and in int8."""
    from mundap.models.fp32 import quiet
    from mundap.models.int8 import write_int8

    write(folder / "fp32.onnx", table, *weights)
    with quiet():
        write_int8(folder / "fp32.onnx", folder / "int8.onnx", [{"input_ids": TOKENS}])
    assert sorted(path.name for path in folder.iterdir()) == ["fp32.onnx", "int8.onnx"]
    return run(folder / "fp32.onnx"), run(folder / "int8.onnx")


def errors(exact, rounded):
    """How far off each token is, as a share of itself."""
    return np.linalg.norm(rounded - exact, axis=-1) / np.linalg.norm(exact, axis=-1)


@pytest.fixture
def chance():
    return np.random.default_rng(1)


def test_every_token_has_its_own_scale(tmp_path, chance):
    """In the table as in the layer: a token a thousand times as large as another takes nothing from it."""
    table = chance.normal(size=(20, WIDTH)) * np.logspace(-2, 1, 20)[:, None]
    assert errors(*both(tmp_path, table, chance.normal(size=(WIDTH, WIDTH)))).max() < 0.02


def test_a_token_of_zeros_gives_zeros(tmp_path, chance):
    table = chance.normal(size=(20, WIDTH))
    table[3] = 0
    exact, rounded = both(tmp_path, table, chance.normal(size=(WIDTH, WIDTH)))
    assert rounded[3].tolist() == [0] * WIDTH
    assert errors(np.delete(exact, 3, 0), np.delete(rounded, 3, 0)).max() < 0.02


def test_the_largest_products_do_not_overflow(tmp_path):
    """Two signed eight-bit products are more than sixteen bits hold, which processors without VNNI cut off."""
    weight = np.ones((WIDTH, WIDTH))
    weight[:, ::2] = -1
    weight[0] = 0  # or a column would need no steps at all
    assert errors(*both(tmp_path, np.ones((20, WIDTH)), weight)).max() < 0.01


def test_layers_may_share_a_weight(tmp_path, chance):
    table, weight = chance.normal(size=(20, WIDTH)), chance.normal(size=(WIDTH, WIDTH))
    assert errors(*both(tmp_path, table, weight, weight)).max() < 0.03


def test_a_head_of_few_columns_is_not_rounded(tmp_path, chance):
    table, weight = chance.normal(size=(20, WIDTH)), chance.normal(size=(WIDTH, 2))
    both(tmp_path, table, weight)
    kept = {one.name: one.data_type for one in onnx.load(str(tmp_path / "int8.onnx")).graph.initializer}
    assert (kept["weight0"], kept["table"]) == (onnx.TensorProto.FLOAT, onnx.TensorProto.INT8)


def test_a_table_that_came_in_four_bits_stays_so_and_loses_nothing(tmp_path):
    random = np.random.default_rng(3)
    codes = random.integers(-8, 8, (50, 64)).astype(np.float32)
    codes[:, ::32] = -8  # the largest of each block
    scales = random.uniform(0.01, 1.0, (50, 2)).astype(np.float16).astype(np.float32)
    table = codes * np.repeat(scales, 32, axis=1)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Gather", ["table", "input_ids"], ["vector"], name="look")],
        "g",
        [onnx.helper.make_tensor_value_info("input_ids", onnx.TensorProto.INT64, ["batch", "length"])],
        [onnx.helper.make_tensor_value_info("vector", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(table, "table")],
    )
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10), tmp_path / "fp32.onnx")
    ids = np.array([[3, 49, 0]])
    from mundap.models.int8 import write_int8

    write_int8(tmp_path / "fp32.onnx", tmp_path / "int8.onnx", [{"input_ids": ids}])
    session = onnxruntime.InferenceSession(tmp_path / "int8.onnx")
    assert np.array_equal(session.run(None, {"input_ids": ids})[0], table[ids])
    assert (tmp_path / "int8.onnx").stat().st_size < (tmp_path / "fp32.onnx").stat().st_size / 3
