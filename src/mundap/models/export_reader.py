"""A reader's checkpoint into our model folder (extra `train`)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mundap.disk import checksum
from mundap.models.export import PRECISIONS, making, quiet, refuse_full, write_fp32
from mundap.models.folder import ReaderConfig
from mundap.models.int8 import PROBES, write_int8
from mundap.models.reader import Reader
from mundap.models.reader_checkpoint import ReaderCheckpoint, open_reader
from mundap.models.session import open_tokenizer
from mundap.models.windows import Window, Windows

_ASKED = "How long did the work on it take?"


class _Graph(torch.nn.Module):
    """Token ids of one row to logits; there is no padding, so every token counts."""

    def __init__(self, loaded: ReaderCheckpoint) -> None:
        super().__init__()
        self.network = loaded.model.network
        self.model = loaded.model
        self.typed = loaded.layout == "pair" and loaded.model.typed

    def forward(self, input_ids: Any, token_type_ids: Any | None = None) -> tuple[Any, ...]:
        found: tuple[Any, ...] = self.model(input_ids, torch.ones_like(input_ids), token_type_ids)
        return found


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
    refuse_full(out)
    loaded = open_reader(source)
    graph = _Graph(loaded).eval()
    inputs = ("input_ids", "token_type_ids") if graph.typed else ("input_ids",)
    outputs = ("starts", "ends") if loaded.model.selection is None else ("starts", "ends", "selection")
    config = ReaderConfig(
        name=name or source.name,
        layout="pair" if loaded.layout == "pair" else "dpr",
        selection="null" if loaded.model.selection is None else "head",
        max_length=loaded.max_length,
        **loaded.manner,
        scripts=scripts,
        source=source.name,
        license=license,
        sha256={},
    )
    with making(out) as made:
        loaded.tokenizer.backend_tokenizer.save(str(made / "tokenizer.json"))
        with quiet():
            fp32, int8 = made / "reader.fp32.onnx", made / "reader.int8.onnx"
            write_fp32(graph, fp32, inputs, outputs)
            if "int8" in precisions:
                windows = Windows(open_tokenizer(made / "tokenizer.json"), config).of(_ASKED, PROBES)
                write_int8(fp32, int8, [_inputs(one, inputs) for row in windows for one in row])
        if "fp32" not in precisions:
            fp32.unlink()
        replace(config, sha256={path.name: checksum(path) for path in sorted(made.iterdir())}).save(made)
        return {precision: _parity(made, graph, precision) for precision in precisions}


def _inputs(window: Window, names: Sequence[str]) -> dict[str, np.ndarray]:
    every = {"input_ids": window.ids, "token_type_ids": window.types}
    return {name: np.array([every[name]], np.int64) for name in names}


def _parity(folder: Path, graph: _Graph, precision: Any) -> float:
    """The largest difference over a few texts between our probabilities and torch's."""
    worst = 0.0
    for row in Reader(folder, precision, threads=1).read(_ASKED, PROBES):
        for scored in row:
            types = torch.tensor([scored.window.types]) if graph.typed else None
            with torch.no_grad():
                theirs = graph(torch.tensor([scored.window.ids]), types)
            for ours, other in zip((scored.starts, scored.ends), theirs, strict=False):
                mine = torch.softmax(torch.from_numpy(np.asarray(ours)), 0)
                worst = max(worst, float((mine - torch.softmax(other[0], 0)).abs().max()))
    return worst
