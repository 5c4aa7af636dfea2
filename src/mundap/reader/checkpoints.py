"""Reading and writing readers with torch (extra `train`).

Ours, Hugging Face's DPRReader, the original DPR's, and plain extractive-QA models. Weights that a network needs and
a file does not have are an error, never a warning.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mundap.encoder.checkpoints import open_checkpoint
from mundap.errors import ExtraMissing, ModelError
from mundap.models.folder import replacing_model
from mundap.models.weights import (
    architecture_of,
    dpr_config,
    load_original_dpr,
    load_pretrained,
    load_tokenizer,
    plain_dpr,
    positions,
    read_weights,
    reading_checkpoint,
    save_plain_tokenizer,
    without_prefix,
)
from mundap.reader.network import ReaderNetwork

try:
    import torch
    import transformers
except ImportError as error:
    raise ExtraMissing("reading a checkpoint", "train") from error

_HEADS = "reader_heads.safetensors"
_DPR_LENGTH, _QA_LENGTH = 350, 384  # tokens of a window, in the papers
_PARTS = {"spans": "qa_outputs", "selection": "qa_classifier"}
_LENGTHS = ("max_length", "question_length", "stride", "max_answer_length")


@dataclass(frozen=True, slots=True)
class ReaderCheckpoint:
    """A reader's checkpoint, opened.

    Attributes:
        model: Token ids to logits.
        tokenizer: A fast one.
        layout: How question and passage are joined, see `ReaderConfig`.
        max_length: The most tokens of a window.
        settings: Other fields of `ReaderConfig` that one of our readers was trained with.
    """

    model: ReaderNetwork
    tokenizer: Any
    layout: Literal["dpr", "pair"] = "dpr"
    max_length: int = _DPR_LENGTH
    settings: Mapping[str, Any] = field(default_factory=dict)


def is_reader(source: Path) -> bool:
    """Whether a checkpoint, a folder or an original DPR file, is a reader and not an encoder."""
    if source.is_file():
        return "qa_classifier.weight" in read_weights(source, "model_dict")
    if (source / _HEADS).is_file() or _is_exported(source):
        return True
    try:
        return architecture_of(source).endswith(("ForQuestionAnswering", "DPRReader"))
    except (OSError, ValueError, AttributeError):
        return False


def _is_exported(folder: Path) -> bool:
    """Whether a folder is a reader as the run time has it."""
    return any(folder.glob("reader.*.onnx"))


def open_reader(
    folder: Path, attention: str | None = "eager", fresh: bool = False, base: Path | None = None
) -> ReaderCheckpoint:
    """Open a checkpoint of a reader.

    Args:
        folder: Of a Hugging Face checkpoint, of one of our exported readers, or an original DPR `.cp` file.
        attention: Which of the library's implementations to use; none: the fastest that the network has.
        fresh: Whether an encoder without heads may be given, to be trained: it gets new ones.
        base: For a `.cp` file, the folder of the BERT it was trained from.

    Raises:
        ModelError: It is missing, incomplete or of another kind.
    """
    if folder.is_file() and base is not None:
        return _read_original_dpr(folder, base)
    with reading_checkpoint(folder, "reader"):
        if _is_exported(folder):
            from mundap.reader.unpack import unpack_reader

            return unpack_reader(folder, attention)
        architecture = architecture_of(folder)
        if architecture == "DPRReader":
            return _open_dpr(folder, attention)
        if architecture.endswith("ForQuestionAnswering"):
            loaded = _open_plain_qa(folder, architecture, attention)
            if fresh:
                return _with_selection(loaded)
            return loaded
        if (folder / _HEADS).is_file():
            return _open_ours(folder, attention)
        if not fresh:
            raise ModelError(f"{folder} is not a reader: {architecture or 'it'} has no heads for spans")
        return _with_new_heads(folder, attention)


def _with_new_heads(folder: Path, attention: str | None) -> ReaderCheckpoint:
    """An encoder with untrained heads."""
    loaded = open_checkpoint(folder, attention=attention)
    size = loaded.network.config.hidden_size
    model = ReaderNetwork(loaded.network, torch.nn.Linear(size, 2), torch.nn.Linear(size, 1))
    return ReaderCheckpoint(model, loaded.tokenizer, max_length=_max_length(loaded.network))


def _open_ours(folder: Path, attention: str | None) -> ReaderCheckpoint:
    loaded = _with_new_heads(folder, attention)
    _load_heads(loaded.model, read_weights(folder / _HEADS), folder)
    settings = _trained_with(folder / _HEADS)
    length = min(loaded.max_length, settings.pop("max_length", _DPR_LENGTH))
    return ReaderCheckpoint(loaded.model, loaded.tokenizer, max_length=length, settings=settings)


def _max_length(network: Any, wanted: int = _DPR_LENGTH) -> int:
    """The papers' length, or less where a network has fewer positions."""
    return min(wanted, positions(network.config))


def _trained_with(path: Path) -> dict[str, Any]:
    """The lengths that a reader of ours was trained with, and whether it learnt spans."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        facts = file.metadata() or {}
    if "longest" in facts:  # what max_answer_length was called before
        facts["max_answer_length"] = facts["longest"]
    settings: dict[str, Any] = {name: int(facts[name]) for name in _LENGTHS if name in facts}
    settings["spans"] = facts.get("spans", "1") != "0"
    return settings


def _with_selection(loaded: ReaderCheckpoint) -> ReaderCheckpoint:
    """A plain extractive-QA model to train on: it keeps its span head, gets one for selection, and our layout."""
    size = loaded.model.network.config.hidden_size
    model = ReaderNetwork(loaded.model.network, loaded.model.spans, torch.nn.Linear(size, 1))
    return ReaderCheckpoint(model, loaded.tokenizer, max_length=_max_length(model.network))


def _load_heads(model: ReaderNetwork, weights: dict[str, Any], where: Path) -> None:
    for part, name in _PARTS.items():
        head = without_prefix(weights, f"{name}.")
        if set(head) != {"weight", "bias"}:
            raise ModelError(f"{where} lacks weights the network needs: {name}")
        getattr(model, part).load_state_dict(head)


def _open_dpr(folder: Path, attention: str | None) -> ReaderCheckpoint:
    inner = load_pretrained(transformers.DPRReader, folder, attention).span_predictor
    network, tokenizer = plain_dpr(inner.encoder.bert_model, folder, attention)
    model = ReaderNetwork(network, inner.qa_outputs, inner.qa_classifier)
    return ReaderCheckpoint(model, tokenizer, max_length=_max_length(network))


def _open_plain_qa(folder: Path, architecture: str, attention: str | None) -> ReaderCheckpoint:
    """Extractive QA without a head for selection: the margin of the best span over none takes its place."""
    kind = getattr(transformers, architecture, None)
    if kind is None:
        raise ModelError(f"{folder}: {architecture} is not known to this version of transformers")
    model = load_pretrained(kind, folder, attention)
    network = getattr(model, model.base_model_prefix)
    reader = ReaderNetwork(network, model.qa_outputs, None)
    return ReaderCheckpoint(reader, load_tokenizer(folder), "pair", _max_length(network, _QA_LENGTH))


def _read_original_dpr(path: Path, base: Path) -> ReaderCheckpoint:
    """The reader of an original DPR `.cp` file.

    Args:
        path: The file. It is a pickle: only tensors and plain containers in it are accepted.
        base: The folder of the BERT it was trained from, for its config and its vocabulary.
    """
    weights = read_weights(path, "model_dict")
    body = without_prefix(weights, "encoder.")
    if not body:
        raise ModelError(f"{path} has no weights under encoder.: it is not a DPR reader")
    network = load_original_dpr(body, path, base)
    size = network.config.hidden_size
    model = ReaderNetwork(network, torch.nn.Linear(size, 2), torch.nn.Linear(size, 1))
    _load_heads(model, weights, path)
    return ReaderCheckpoint(model.eval(), load_tokenizer(base), max_length=_max_length(network))


def write_reader(loaded: ReaderCheckpoint, folder: Path, layout: str = "mundap") -> None:
    """Write a reader: as an encoder's folder with its heads beside, or as Hugging Face's DPRReader (`dpr`)."""
    with replacing_model(folder) as made:
        made.mkdir(parents=True)
        model = loaded.model
        if model.selection is None or loaded.layout != "dpr":
            raise ModelError("a plain extractive-QA model stays as it is: it has no head for selection to write")
        heads = {}
        for part, name in _PARTS.items():
            for key, value in getattr(model, part).state_dict().items():
                heads[f"{name}.{key}"] = value.detach().cpu().contiguous()
        if layout == "dpr":
            _write_dpr(loaded, heads, made)
            return
        from safetensors.torch import save_file

        model.network.save_pretrained(made)
        loaded.tokenizer.save_pretrained(made)
        facts = {"max_length": loaded.max_length, **loaded.settings}
        save_file(heads, str(made / _HEADS), {name: str(int(value)) for name, value in facts.items()})


def _write_dpr(loaded: ReaderCheckpoint, heads: dict[str, Any], folder: Path) -> None:
    network = loaded.model.network
    if network.config.model_type != "bert":
        raise ModelError(f"DPR's layout is for BERT, not for {network.config.model_type}")
    model = transformers.DPRReader(dpr_config(network.config))
    inner = model.span_predictor
    inner.encoder.bert_model.load_state_dict(network.state_dict(), strict=False)
    inner.load_state_dict(heads, strict=False)
    model.save_pretrained(folder)
    save_plain_tokenizer(loaded.tokenizer, folder)
