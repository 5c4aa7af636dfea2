"""Readers as torch sees them (extra `train`).

Ours, Hugging Face's DPRReader, the original DPR's, and plain extractive-QA models. Weights that a network needs and
a file does not have are an error, never a warning.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mundap.errors import ExtraMissing, ModelError
from mundap.models import checkpoint

try:
    import torch
    import transformers
except ImportError as error:
    raise ExtraMissing("reading a checkpoint", "train") from error

HEADS = "reader_heads.safetensors"
_LENGTH = 350
_PARTS = {"spans": "qa_outputs", "selection": "qa_classifier"}


class ReaderNetwork(torch.nn.Module):
    """An encoder with heads for start, end and, if it has one, passage selection."""

    def __init__(self, network: Any, spans: Any, selection: Any | None) -> None:
        super().__init__()
        self.network = network
        self.spans = spans
        self.selection = selection
        self.typed = checkpoint.takes_types(network)

    def forward(self, ids: Any, mask: Any, types: Any | None = None) -> tuple[Any, ...]:
        """Logits: starts and ends for each token, and one for each row. Token types are 0 unless given."""
        more = {"token_type_ids": torch.zeros_like(ids) if types is None else types} if self.typed else {}
        states = self.network(input_ids=ids, attention_mask=mask, **more).last_hidden_state
        starts, ends = self.spans(states).unbind(-1)
        if self.selection is None:
            return starts, ends
        return starts, ends, self.selection(states[:, 0]).squeeze(-1)


@dataclass(frozen=True, slots=True)
class ReaderCheckpoint:
    """A reader, read.

    Attributes:
        model: Token ids to logits.
        tokenizer: A fast one.
        layout: How question and passage are joined, see `ReaderConfig`.
        max_length: The most tokens of a window.
        manner: What else a reader of ours was trained with and is to be read with: the names and values of fields of
            `ReaderConfig`.
    """

    model: ReaderNetwork
    tokenizer: Any
    layout: str = "dpr"
    max_length: int = _LENGTH
    manner: Mapping[str, Any] = field(default_factory=dict)


def is_reader(folder: Path) -> bool:
    """Whether a checkpoint, a folder or an original DPR file, is a reader and not an encoder."""
    if folder.is_file():
        return "qa_classifier.weight" in checkpoint.read_weights(folder, "model_dict")
    return (folder / HEADS).is_file() or _architecture(folder).endswith(("ForQuestionAnswering", "DPRReader"))


def open_reader(
    folder: Path, attention: str | None = "eager", fresh: bool = False, base: Path | None = None
) -> ReaderCheckpoint:
    """Read a checkpoint of a reader.

    Args:
        folder: Of a Hugging Face checkpoint, or an original DPR `.cp` file.
        attention: Which of the library's implementations to use; none: the fastest that the network has.
        fresh: Whether an encoder without heads may be given, to be trained: it gets new ones.
        base: For a `.cp` file, the folder of the BERT it was trained from.

    Raises:
        ModelError: It is missing, incomplete or of another kind.
    """
    if folder.is_file() and base is not None:
        return _read_original_dpr(folder, base)
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} has no config.json: give the folder of a Hugging Face checkpoint")
    try:
        architecture = _architecture(folder)
        if architecture == "DPRReader":
            return _open_dpr(folder, attention)
        if architecture.endswith("ForQuestionAnswering"):
            loaded_qa = _open_plain_qa(folder, architecture, attention)
            return _with_selection(loaded_qa) if fresh else loaded_qa
        if not fresh and not (folder / HEADS).is_file():
            raise ModelError(f"{folder} is no reader: {architecture or 'it'} has no heads for spans")
        loaded = checkpoint.open_checkpoint(folder, attention=attention)
        size = loaded.network.config.hidden_size
        model = ReaderNetwork(loaded.network, torch.nn.Linear(size, 2), torch.nn.Linear(size, 1))
        longest = _longest(loaded.network)
        if (folder / HEADS).is_file():
            _load_heads(model, checkpoint.read_weights(folder / HEADS), folder)
            manner = _trained_with(folder / HEADS)
            longest = min(longest, manner.pop("max_length", _LENGTH))
            return ReaderCheckpoint(model, loaded.tokenizer, "dpr", longest, manner)
        return ReaderCheckpoint(model, loaded.tokenizer, "dpr", longest)
    except ModelError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
        raise ModelError(f"{folder} cannot be read as a reader: {reason}") from error


def _longest(network: Any) -> int:
    """The papers' 350 tokens, or fewer where a network has fewer positions."""
    return min(_LENGTH, checkpoint.positions(network.config))


def _trained_with(path: Path) -> dict[str, Any]:
    """The lengths that a reader of ours was trained with, and whether it learnt spans."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        facts = file.metadata() or {}
    numbers = ("max_length", "question_length", "stride", "longest")
    found: dict[str, Any] = {name: int(facts[name]) for name in numbers if name in facts}
    return {**found, "spans": facts.get("spans", "1") != "0"}


def _with_selection(loaded: ReaderCheckpoint) -> ReaderCheckpoint:
    """A plain extractive-QA model to train on: it keeps its span head, gets one for selection, and our layout."""
    size = loaded.model.network.config.hidden_size
    model = ReaderNetwork(loaded.model.network, loaded.model.spans, torch.nn.Linear(size, 1))
    return ReaderCheckpoint(model, loaded.tokenizer, "dpr", _longest(model.network))


def _architecture(folder: Path) -> str:
    try:
        return str((json.loads((folder / "config.json").read_text("utf-8")).get("architectures") or [""])[0])
    except (OSError, ValueError, AttributeError):
        return ""


def _load_heads(model: ReaderNetwork, weights: dict[str, Any], where: Path) -> None:
    for part, name in _PARTS.items():
        own = {key.removeprefix(f"{name}."): value for key, value in weights.items() if key.startswith(f"{name}.")}
        if set(own) != {"weight", "bias"}:
            raise ModelError(f"{where} lacks weights the network needs: {name}")
        getattr(model, part).load_state_dict(own)


def _open_dpr(folder: Path, attention: str | None) -> ReaderCheckpoint:
    model, report = transformers.DPRReader.from_pretrained(
        folder, attn_implementation=attention, output_loading_info=True, local_files_only=True
    )
    checkpoint.refuse_missing(folder, report["missing_keys"])
    inner = model.span_predictor
    network = checkpoint.plain_bert(model.config, inner.encoder.bert_model.state_dict(), folder, attention)
    tokenizer = checkpoint.dpr_tokenizer(folder)
    model = ReaderNetwork(network, inner.qa_outputs, inner.qa_classifier)
    return ReaderCheckpoint(model, tokenizer, max_length=_longest(network))


def _open_plain_qa(folder: Path, architecture: str, attention: str | None) -> ReaderCheckpoint:
    """Extractive QA without a head for selection: how much better the best span is than none says it."""
    kind = getattr(transformers, architecture, None)
    if kind is None:
        raise ModelError(f"{folder}: {architecture} is not known to this version of transformers")
    model, report = kind.from_pretrained(
        folder, attn_implementation=attention, output_loading_info=True, local_files_only=True
    )
    checkpoint.refuse_missing(folder, report["missing_keys"])
    network = getattr(model, model.base_model_prefix)
    tokenizer = checkpoint.fast(transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True), folder)
    longest = min(384, checkpoint.positions(network.config))
    return ReaderCheckpoint(ReaderNetwork(network, model.qa_outputs, None), tokenizer, "pair", longest)


def _read_original_dpr(path: Path, base: Path) -> ReaderCheckpoint:
    """The reader of an original DPR `.cp` file.

    Args:
        path: The file. It is a pickle: only tensors and plain containers in it are accepted.
        base: The folder of the BERT it was trained from, for its config and its vocabulary.
    """
    weights = checkpoint.read_weights(path, "model_dict")
    body = {key.removeprefix("encoder."): value for key, value in weights.items() if key.startswith("encoder.")}
    if not body:
        raise ModelError(f"{path} has no weights under encoder.: it is not a DPR reader")
    config = transformers.AutoConfig.from_pretrained(base, local_files_only=True)
    network = transformers.AutoModel.from_config(config, attn_implementation="eager")
    checkpoint.load_exactly(network, body, path)
    size = config.hidden_size
    model = ReaderNetwork(network, torch.nn.Linear(size, 2), torch.nn.Linear(size, 1))
    _load_heads(model, weights, path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(base, local_files_only=True)
    return ReaderCheckpoint(model.eval(), checkpoint.fast(tokenizer, base), max_length=_longest(network))


def write_reader(loaded: ReaderCheckpoint, folder: Path, layout: str = "mundap") -> None:
    """Write a reader: as an encoder's folder with its heads beside, or as Hugging Face's DPRReader (`dpr`)."""
    from mundap.models.layouts import replacing_model

    with replacing_model(folder) as made:
        made.mkdir(parents=True)
        model = loaded.model
        if model.selection is None or loaded.layout != "dpr":
            raise ModelError("a plain extractive-QA model stays as it is: it has no head for selection to write")
        heads = {
            f"{name}.{key}": value.detach().cpu().contiguous()
            for part, name in _PARTS.items()
            for key, value in getattr(model, part).state_dict().items()
        }
        if layout == "dpr":
            _write_dpr(loaded, heads, made)
            return
        from safetensors.torch import save_file

        model.network.save_pretrained(made)
        loaded.tokenizer.save_pretrained(made)
        facts = {"max_length": loaded.max_length, **loaded.manner}
        save_file(heads, str(made / HEADS), {name: str(int(value)) for name, value in facts.items()})


def _write_dpr(loaded: ReaderCheckpoint, heads: dict[str, Any], folder: Path) -> None:
    from mundap.models.layouts import dpr_config, save_plain_tokenizer

    network = loaded.model.network
    if network.config.model_type != "bert":
        raise ModelError(f"DPR's layout is for BERT, not for {network.config.model_type}")
    model = transformers.DPRReader(dpr_config(network.config))
    inner = model.span_predictor
    inner.encoder.bert_model.load_state_dict(network.state_dict(), strict=False)
    inner.load_state_dict(heads, strict=False)
    model.save_pretrained(folder)
    save_plain_tokenizer(loaded.tokenizer, folder)
