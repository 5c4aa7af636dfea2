"""A checkpoint into our model folder: fused fp32 ONNX, int8 ONNX, tokenizer, config (extra `train`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mundap.disk import checksums
from mundap.encoder.checkpoints import Checkpoint, open_towers, with_settings
from mundap.encoder.inputs import EncoderInputs
from mundap.encoder.network import Tower, encode
from mundap.encoder.runtime import Encoder
from mundap.models.folder import EncoderConfig, new_folder
from mundap.models.fp32 import PRECISIONS, quiet, write_fp32
from mundap.models.int8 import PROBES, write_int8
from mundap.models.weights import positions

_QUESTIONS = tuple(text for _, text in PROBES)


def export(
    source: Path,
    out: Path,
    name: str = "",
    precisions: Sequence[str] = PRECISIONS,
    fusion_weight: float = 0.7,
    scripts: Any = "",
    title: Any = None,
    license: str = "",
) -> dict[str, float]:
    """Write a model folder and compare it with torch.

    Args:
        source: A checkpoint that `open_checkpoint` reads, or two in `question/` and `passage/`.
        out: The folder to make; it appears whole or not at all.
        name: What the model is called; the source's name by default.
        precisions: `int8`, `fp32` or both.
        fusion_weight: The dense share in hybrid ranking, see `mundap.index.fusion`.
        scripts: `latin` for a model of English and its like, see `EncoderConfig`.
        title: How title and text are joined, see `EncoderConfig`; by default as the checkpoint was trained.
        license: Of the weights, for the record.

    Returns:
        For each precision the lowest cosine between our vector and torch's over a few texts.
    """
    with new_folder(out) as made:
        question, passage = _open(source, title)
        towers = {"encoder": Tower(passage).eval()}
        if question is not passage:
            towers["question"] = Tower(question).eval()
        length = min(passage.settings.max_length, positions(passage.network.config))
        inputs = EncoderInputs.from_checkpoints(question, passage, length, length)
        passage.tokenizer.backend_tokenizer.save(str(made / "tokenizer.json"))
        _write_graphs(made, towers, inputs, precisions)
        settings = passage.settings
        EncoderConfig(
            name=name or source.name,
            dimension=passage.dimension + (settings.similarity == "l2"),
            max_length=length,
            pooling=settings.pooling,
            normalized=settings.normalized,
            similarity=settings.similarity,
            question_prompt=question.settings.question_prompt,
            passage_prompt=settings.passage_prompt,
            title=settings.title,
            fusion_weight=fusion_weight,
            scripts=scripts,
            source=source.name,
            license=license,
            sha256=checksums(sorted(made.iterdir())),
        ).save(made)
        return {precision: _parity(made, towers, inputs, precision) for precision in precisions}


def _open(source: Path, title: str | None) -> tuple[Checkpoint, Checkpoint]:
    """The question and the passage encoder, which may be one and the same."""
    towers = open_towers(source)
    question = towers["question"]
    passage = towers.get("passage", question)
    if title is not None:
        passage = with_settings(passage, title=title)
    if "passage" not in towers:
        question = passage
    return question, passage


def _write_graphs(folder: Path, towers: Mapping[str, Tower], inputs: EncoderInputs, precisions: Sequence[str]) -> None:
    probes = [{"input_ids": np.array([ids], np.int64)} for ids in inputs.passages(PROBES)]
    with quiet():
        for part, tower in towers.items():
            fp32 = folder / f"{part}.fp32.onnx"
            write_fp32(tower, fp32)
            if "int8" in precisions:
                write_int8(fp32, folder / f"{part}.int8.onnx", probes)
            if "fp32" not in precisions:
                fp32.unlink()


def _parity(folder: Path, towers: Mapping[str, Tower], inputs: EncoderInputs, precision: Any) -> float:
    """The lowest cosine over a few texts between the exported model and torch, from text to vector."""
    encoder = Encoder(folder, precision, threads=1)
    question_tower = towers.get("question", towers["encoder"])
    passages = _cosines(encoder.encode_passages(PROBES), towers["encoder"], inputs.passages(PROBES))
    questions = _cosines(encoder.encode_questions(_QUESTIONS), question_tower, inputs.questions(_QUESTIONS))
    return float(min(passages.min(), questions.min()))


def _cosines(ours: np.ndarray, tower: Tower, ids: list[list[int]]) -> np.ndarray:
    # One text at a time, as at run time: without padding the two can be the same to the last digits.
    theirs = encode(tower, ids, pad=0, batch_size=1).numpy()
    ours = ours[:, : theirs.shape[1]]  # without the dimension that L2 adds: it is computed from the others
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    return np.asarray((ours * theirs).sum(1) / norms)
