"""A network of torch as ONNX in full precision, its layers fused (extra `train`)."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mundap.errors import ExtraMissing

try:
    import onnx
    import torch
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions
except ImportError as error:
    raise ExtraMissing("exporting a model", "train") from error

PRECISIONS = ("int8", "fp32")


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


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the exporters' output and warnings; errors still surface."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
