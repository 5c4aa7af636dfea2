"""A reader's checkpoint into our model folder (extra `train`)."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from mundap.disk import checksums
from mundap.models.folder import ReaderConfig, new_folder
from mundap.models.fp32 import PRECISIONS, quiet, write_fp32
from mundap.models.int8 import PROBES, write_int8
from mundap.models.tokenizer import open_tokenizer
from mundap.reader.checkpoints import ReaderCheckpoint, open_reader
from mundap.reader.inputs import Window, Windows
from mundap.reader.runtime import Reader, Scored

_QUESTION = "How long did the work on it take?"


class _Graph(torch.nn.Module):
    """Token ids of one row to logits; there is no padding, so every token counts."""

    def __init__(self, loaded: ReaderCheckpoint) -> None:
        super().__init__()
        self.network = loaded.model.network
        self.model = loaded.model
        self.inputs = ["input_ids"]
        if loaded.layout == "pair" and loaded.model.takes_types:
            self.inputs.append("token_type_ids")
        self.outputs = ["starts", "ends"]
        self.selection: Literal["head", "null"] = "null"
        if loaded.model.selection is not None:
            self.outputs.append("selection")
            self.selection = "head"

    def forward(self, input_ids: Any, token_type_ids: Any | None = None) -> tuple[Any, ...]:
        logits: tuple[Any, ...] = self.model(input_ids, torch.ones_like(input_ids), token_type_ids)
        return logits


def export_reader(
    source: Path,
    out: Path,
    name: str = "",
    precisions: Sequence[str] = PRECISIONS,
    scripts: Any = "",
    license: str = "",
) -> dict[str, float]:
    """Write a model folder and compare it with torch.

    Args:
        source: A checkpoint that `open_reader` reads.
        out: The folder to make; it appears whole or not at all.
        name: What the model is called; the source's name by default.
        precisions: `int8`, `fp32` or both.
        scripts: `latin` for a model of English and its like.
        license: Of the weights, for the record.

    Returns:
        For each precision the largest difference of a probability from torch's over a few texts.
    """
    with new_folder(out) as made:
        loaded = open_reader(source)
        graph = _Graph(loaded).eval()
        config = ReaderConfig(
            name=name or source.name,
            layout=loaded.layout,
            selection=graph.selection,
            max_length=loaded.max_length,
            **loaded.settings,
            scripts=scripts,
            source=source.name,
            license=license,
        )
        loaded.tokenizer.backend_tokenizer.save(str(made / "tokenizer.json"))
        _write_graphs(made, graph, config, precisions)
        replace(config, sha256=checksums(sorted(made.iterdir()))).save(made)
        return {precision: _parity(made, graph, precision) for precision in precisions}


def _write_graphs(folder: Path, graph: _Graph, config: ReaderConfig, precisions: Sequence[str]) -> None:
    fp32 = folder / "reader.fp32.onnx"
    with quiet():
        write_fp32(graph, fp32, graph.inputs, graph.outputs)
        if "int8" in precisions:
            rows = Windows(open_tokenizer(folder / "tokenizer.json"), config).of(_QUESTION, PROBES)
            windows = itertools.chain.from_iterable(rows)
            probes = [_arrays(window, graph.inputs) for window in windows]
            write_int8(fp32, folder / "reader.int8.onnx", probes)
    if "fp32" not in precisions:
        fp32.unlink()


def _arrays(window: Window, names: Sequence[str]) -> dict[str, np.ndarray]:
    arrays = {"input_ids": window.ids, "token_type_ids": window.types}
    return {name: np.array([arrays[name]], np.int64) for name in names}


def _parity(folder: Path, graph: _Graph, precision: Any) -> float:
    """The largest difference over a few texts between our probabilities and torch's."""
    rows = Reader(folder, precision, threads=1).read(_QUESTION, PROBES)
    return max(_difference(graph, scored) for scored in itertools.chain.from_iterable(rows))


def _difference(graph: _Graph, scored: Scored) -> float:
    arrays = _arrays(scored.window, graph.inputs)
    with torch.no_grad():
        theirs = graph(*(torch.from_numpy(array) for array in arrays.values()))
    largest = 0.0
    for ours, other in zip((scored.starts, scored.ends), theirs, strict=False):
        mine = torch.softmax(torch.from_numpy(np.asarray(ours)), 0)
        largest = max(largest, float((mine - torch.softmax(other[0], 0)).abs().max()))
    return largest
