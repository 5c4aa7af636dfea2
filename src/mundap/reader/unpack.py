"""A reader's model folder back into a checkpoint, to train on from what ships (extra `train`)."""

from pathlib import Path
from typing import Any

import numpy as np

from mundap.errors import ExtraMissing, ModelError
from mundap.models.folder import ReaderConfig
from mundap.models.unpack import Graph, open_network, open_tokenizer
from mundap.reader.checkpoints import ReaderCheckpoint
from mundap.reader.network import ReaderNetwork

try:
    import torch
except ImportError as error:
    raise ExtraMissing("training on from a reader", "train") from error

_FILES = ("reader.fp32.onnx", "reader.int8.onnx")
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
    network, graph = open_network(found[0], attention)
    size = network.config.hidden_size
    model = ReaderNetwork(network, torch.nn.Linear(size, 2), torch.nn.Linear(size, 1))
    heads = {name: torch.from_numpy(value.copy()) for name, value in _heads(graph).items()}
    missing = sorted({"spans.weight", "spans.bias", "selection.weight", "selection.bias"} - set(heads))
    if missing:
        raise ModelError(f"{found[0]} lacks weights the network needs: {', '.join(missing)}")
    model.load_state_dict(heads, strict=False)
    settings: dict[str, Any] = {name: getattr(config, name) for name in _SETTINGS}
    return ReaderCheckpoint(model.eval(), open_tokenizer(folder), max_length=config.max_length, settings=settings)


def _heads(graph: Graph) -> dict[str, np.ndarray]:
    found = {}
    for node in graph.beyond():
        if node.name.startswith(("/model/spans/", "/model/selection/")):
            part = node.name.split("/")[2]
            weight = graph.array(node.input[1])
            if weight.shape[0] >= weight.shape[1]:  # a MatMul has it transposed, a Gemm has not
                weight = weight.T
            found[f"{part}.weight"] = weight
            found[f"{part}.bias"] = graph.array(f"model.{part}.bias")
    return found
