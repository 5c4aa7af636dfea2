"""A checkpoint into our model folder: fused fp32 ONNX, int8 ONNX, tokenizer, config (extra `train`)."""

import contextlib
import io
import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mundap.disk import checksum
from mundap.errors import ExtraMissing, MundapError
from mundap.models import checkpoint
from mundap.models.encoder import Encoder
from mundap.models.folder import EncoderConfig
from mundap.models.int8 import PROBES, write_int8
from mundap.models.session import open_tokenizer

try:
    import onnx
    import torch
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions
except ImportError as error:
    raise ExtraMissing("exporting a model", "train") from error

PRECISIONS = ("int8", "fp32")


def export(
    source: Path,
    out: Path,
    name: str = "",
    precisions: Sequence[str] = PRECISIONS,
    fusion_weight: float = 0.7,
    scripts: Any = "",
    title: Any = "pair",
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
        title: How title and text are joined, see `EncoderConfig`.
        license: Of the weights, for the record.

    Returns:
        For each precision the lowest cosine between our vector and torch's over a few texts.
    """
    refuse_full(out)
    roles = {"encoder": "question"}
    if checkpoint.has_two_towers(source):
        roles = {"encoder": "passage", "question": "question"}
    towers = {part: checkpoint.open_checkpoint(source, role) for part, role in roles.items()}
    networks = {name: checkpoint.TextEncoder(loaded).eval() for name, loaded in towers.items()}
    loaded = towers["encoder"]
    recipe = loaded.recipe
    length = min(recipe.max_length, checkpoint.positions(loaded.network.config))
    with making(out) as made:
        loaded.tokenizer.backend_tokenizer.save(str(made / "tokenizer.json"))
        pairs = open_tokenizer(made / "tokenizer.json").encode_batch(list(PROBES))
        probes = [{"input_ids": np.array([pair.ids[:length]], np.int64)} for pair in pairs]
        with quiet():
            for part, network in networks.items():
                write_fp32(network, made / f"{part}.fp32.onnx")
                if "int8" in precisions:
                    write_int8(made / f"{part}.fp32.onnx", made / f"{part}.int8.onnx", probes)
        for path in made.glob("*.fp32.onnx") if "fp32" not in precisions else ():
            path.unlink()
        EncoderConfig(
            name=name or source.name,
            dimension=loaded.dimension,
            max_length=length,
            pooling=recipe.pooling,
            normalized=recipe.normalized,
            similarity="cosine" if recipe.normalized else "dot",
            question_prompt=recipe.question_prompt,
            passage_prompt=recipe.passage_prompt,
            title=title,
            fusion_weight=fusion_weight,
            scripts=scripts,
            source=source.name,
            license=license,
            sha256={path.name: checksum(path) for path in sorted(made.iterdir())},
        ).save(made)
        return {precision: _parity(made, networks, precision) for precision in precisions}


def refuse_full(out: Path) -> None:
    """Nothing is written over. Said before a checkpoint is read, which takes long."""
    if out.exists() and any(out.iterdir()):
        raise MundapError(f"{out} is not empty. Choose another folder, or remove it first.")


@contextlib.contextmanager
def making(out: Path) -> Iterator[Path]:
    """A folder to write a model into, which is at its place when the block ends well."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".export-") as scratch:
        made = Path(scratch) / "model"
        made.mkdir()
        yield made
        if out.exists():
            out.rmdir()
        shutil.move(made, out)


def write_fp32(
    network: Any, path: Path, inputs: Sequence[str] = ("input_ids",), outputs: Sequence[str] = ("vector",)
) -> None:
    """Trace the network and fuse attention, layer norms and GELU into onnxruntime's own operators.

    Args:
        network: With its encoder as `network`.
        path: The file to write.
        inputs: Names; each is batch x length.
        outputs: Names; `starts` and `ends` are batch x length too.
    """
    config = network.network.config
    example = torch.arange(1, 18).unsqueeze(0)
    traced = path.with_suffix(".traced")
    axes = {name: {0: "batch", 1: "length"} for name in (*inputs, "starts", "ends")}
    torch.onnx.export(
        network,
        (example, *(torch.zeros_like(example) for _ in inputs[1:])),
        str(traced),
        input_names=list(inputs),
        output_names=list(outputs),
        dynamic_axes={name: axes.get(name, {0: "batch"}) for name in (*inputs, *outputs)},
        opset_version=17,
        dynamo=False,
    )
    network.eval()  # the exporter has been known to leave it in training mode
    options = FusionOptions("bert")
    options.enable_embed_layer_norm = False  # int8 has to find the tables
    fused = optimizer.optimize_model(
        str(traced),
        model_type="bert",
        num_heads=config.num_attention_heads,
        hidden_size=config.hidden_size,
        opt_level=0,
        optimization_options=options,
    )
    fused.save_model_to_file(str(path))
    traced.unlink()
    onnx.checker.check_model(onnx.load(str(path), load_external_data=False))


def _parity(folder: Path, networks: dict[str, Any], precision: Any) -> float:
    """The lowest cosine over a few texts between the exported model and torch on the same tokens."""
    encoder = Encoder(folder, precision, threads=1)
    pairs = [(encoder.encode_passages(PROBES), _torch_vectors(encoder, networks["encoder"], PROBES))]
    if "question" in networks:
        asked = [text for _, text in PROBES]
        pairs.append((encoder.encode_questions(asked), _torch_vectors(encoder, networks["question"], asked)))
    return min(float(_cosines(ours, np.concatenate(list(theirs))).min()) for ours, theirs in pairs)


def _cosines(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    return np.asarray((ours * theirs).sum(1) / norms)


def _torch_vectors(encoder: Encoder, network: Any, texts: Iterable[Any]) -> Iterator[np.ndarray]:
    for text in texts:
        if isinstance(text, tuple):
            title, body = text
            text = (title, body) if title and encoder.config.title == "pair" else f"{title}. {body}" if title else body
        ids = encoder._tokenizer.encode_batch([text])[0].ids
        with torch.no_grad():
            yield network(torch.tensor([ids])).numpy()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Exporters print and warn about themselves; only errors matter to a user."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
