"""Reading other people's encoders with torch (extra `train`).

Hugging Face, sentence-transformers, DPR (Hugging Face's and the original's) and ANCE. What comes out is always the
same: a network, a head of further layers, a fast tokenizer, and settings. Weights that a network needs and a file
does not have are an error, never a warning.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mundap.errors import ExtraMissing, ModelError
from mundap.models.folder import EncoderConfig, Similarity, TitleForm, check
from mundap.models.weights import (
    architecture_of,
    load_exactly,
    load_original_dpr,
    load_pretrained,
    load_tokenizer,
    plain_dpr,
    read_weights,
    reading_checkpoint,
    without_prefix,
)

try:
    import torch
    import transformers
except ImportError as error:
    raise ExtraMissing("reading a checkpoint", "train") from error

_DPR = {
    "DPRQuestionEncoder": ("question", "question_encoder"),
    "DPRContextEncoder": ("passage", "ctx_encoder"),
}
_MODULES = {"Transformer", "Pooling", "Normalize", "Dense", "LayerNorm"}  # of sentence-transformers
_POOLING = {"mean_tokens": "mean", "cls_token": "cls", "mean": "mean", "cls": "cls"}
_ANCE_HEAD = ("embeddingHead.weight", "embeddingHead.bias", "norm.weight", "norm.bias")


@dataclass(frozen=True, slots=True)
class _EncoderSettings:
    """How texts become a checkpoint's inputs, and its last layer a vector. Read from the files beside the weights.

    Attributes:
        pooling: `cls` or `mean`.
        similarity: What the vectors are made for. `cosine` normalises them.
        max_length: The most tokens of a text.
        question_prompt: Put before every question.
        passage_prompt: Put before every passage.
        title: `pair` or `prefix`, see `EncoderConfig`.
    """

    pooling: str = "cls"
    similarity: Similarity = "dot"
    max_length: int = 256
    question_prompt: str = ""
    passage_prompt: str = ""
    title: TitleForm = "pair"

    @property
    def normalized(self) -> bool:
        """Whether vectors have length one."""
        return self.similarity == "cosine"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An encoder's checkpoint, opened.

    Attributes:
        network: Token ids to the states of the last layer.
        head: Layers between pooling and the vector; often none.
        tokenizer: A fast one.
        settings: Pooling and the rest.
    """

    network: Any
    head: Any
    tokenizer: Any
    settings: _EncoderSettings

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        size = self.network.config.hidden_size
        for layer in self.head.modules():
            if isinstance(layer, torch.nn.Linear):
                size = layer.out_features
        return int(size)


def is_exported(folder: Path) -> bool:
    """Whether a folder is an encoder as the run time has it."""
    return any(folder.glob("encoder.*.onnx"))


def has_two_towers(folder: Path) -> bool:
    """Whether a folder holds a question and a passage encoder: as two folders, or as two graphs of an exported one."""
    return any(folder.glob("question.*.onnx")) or all(
        (folder / role / "config.json").is_file() for role in ("question", "passage")
    )


def open_checkpoint(folder: Path, role: str = "question", attention: str | None = "eager") -> Checkpoint:
    """Open a checkpoint.

    Args:
        folder: Of one encoder, or of two in `question/` and `passage/`; or one of our exported encoders.
        role: `question` or `passage`: which one is wanted.
        attention: Which of the library's implementations to use; none: the fastest that the network has.

    Raises:
        ModelError: It is missing, incomplete, of another kind, or the wrong one of a pair.
    """
    if has_two_towers(folder) and not is_exported(folder):
        folder = folder / role
    with reading_checkpoint(folder, "checkpoint"):
        if is_exported(folder):
            return _open_exported(folder, role, attention)
        architecture = architecture_of(folder)
        if architecture.startswith("DPR"):
            return _open_dpr(folder, architecture, role, attention)
        if architecture.startswith("RobertaDot_NLL"):
            return _open_ance(folder, attention)
        return _open_plain(folder, attention)


def _open_exported(folder: Path, role: str, attention: str | None) -> Checkpoint:
    """From the most precise of its graphs."""
    from mundap.models.unpack import open_network, open_tokenizer

    config = EncoderConfig.load(folder)
    part = "encoder"
    if role == "question" and has_two_towers(folder):
        part = "question"
    path = next(folder.glob(f"{part}.fp32.onnx"), folder / f"{part}.int8.onnx")
    check(path, config.sha256)
    network, graph = open_network(path, attention)
    if graph.beyond():
        raise ModelError(f"{folder} has layers on top of its network: train from the checkpoint it was exported from")
    settings = _EncoderSettings(
        pooling=config.pooling,
        similarity=config.similarity,
        max_length=config.max_length,
        question_prompt=config.question_prompt,
        passage_prompt=config.passage_prompt,
        title=config.title,
    )
    return Checkpoint(network, torch.nn.Sequential(), open_tokenizer(folder), settings)


def with_settings(loaded: Checkpoint, **changes: Any) -> Checkpoint:
    """The same checkpoint with other settings."""
    return replace(loaded, settings=replace(loaded.settings, **changes))


def _open_plain(folder: Path, attention: str | None) -> Checkpoint:
    """A Hugging Face or sentence-transformers directory."""
    modules = _modules(folder)
    head = [_layer(kind, path) for kind, path in modules if kind in ("Dense", "LayerNorm")]
    network = load_pretrained(transformers.AutoModel, folder, attention)
    return Checkpoint(network, torch.nn.Sequential(*head), load_tokenizer(folder), _settings(folder, modules))


def _open_dpr(folder: Path, architecture: str, role: str, attention: str | None) -> Checkpoint:
    """By its own class: AutoModel would make a question encoder with random weights of a context encoder."""
    if architecture not in _DPR:
        raise ModelError(f"{folder}: {architecture} is not an encoder of questions or passages")
    found, part = _DPR[architecture]
    if found != role:
        raise ModelError(f"{folder} is the {found} encoder of a pair, not the {role} encoder: give the other folder")
    model = load_pretrained(getattr(transformers, architecture), folder, attention)
    inner = getattr(model, part)
    head = torch.nn.Sequential()
    if model.config.projection_dim:
        head.append(inner.encode_proj)
    network, tokenizer = plain_dpr(inner.bert_model, folder, attention)
    return Checkpoint(network, head, tokenizer, _EncoderSettings())


def _open_ance(folder: Path, attention: str | None) -> Checkpoint:
    """RoBERTa's [CLS], a linear layer, a layer norm."""
    config = transformers.RobertaConfig.from_pretrained(folder)
    config._attn_implementation = attention
    weights = read_weights(next(folder.glob("*.safetensors"), folder / "pytorch_model.bin"))
    network = transformers.RobertaModel(config, add_pooling_layer=False)
    load_exactly(network, without_prefix(weights, "roberta."), folder)
    missing = [name for name in _ANCE_HEAD if name not in weights]
    if missing:
        raise ModelError(f"{folder} lacks weights the network needs: {', '.join(missing)}")
    linear = torch.nn.Linear(*reversed(weights["embeddingHead.weight"].shape))
    linear.load_state_dict(without_prefix(weights, "embeddingHead."))
    norm = torch.nn.LayerNorm(len(weights["norm.weight"]))
    norm.load_state_dict(without_prefix(weights, "norm."))
    head = torch.nn.Sequential(linear, norm)
    return Checkpoint(network, head, load_tokenizer(folder), _EncoderSettings(max_length=512))


def open_towers(source: Path, passage: Path | None = None, base: Path | None = None) -> dict[str, Checkpoint]:
    """The encoder of a folder, or both of a pair, by role.

    Args:
        source: A folder of one or two, or an original DPR `.cp` file.
        passage: The folder of the passage encoder, if `source` is the question encoder alone.
        base: For a `.cp` file, the folder of the BERT it was trained from.
    """
    if source.is_file() and base is not None:
        return _read_original_dpr(source, base)
    towers = {"question": open_checkpoint(source, "question")}
    if passage or has_two_towers(source):
        towers["passage"] = open_checkpoint(passage or source, "passage")
    return towers


def _read_original_dpr(path: Path, base: Path) -> dict[str, Checkpoint]:
    """Both encoders of an original DPR `.cp` file. It is a pickle: only tensors and plain containers are accepted."""
    weights = read_weights(path, "model_dict")
    return {
        "question": _original_tower(weights, "question_model.", path, base),
        "passage": _original_tower(weights, "ctx_model.", path, base),
    }


def _original_tower(weights: dict[str, Any], prefix: str, path: Path, base: Path) -> Checkpoint:
    part = without_prefix(weights, prefix)
    if not part:
        raise ModelError(f"{path} has no weights under {prefix}: it is not a DPR retriever")
    head = torch.nn.Sequential()
    if "encode_proj.weight" in part:
        linear = torch.nn.Linear(*reversed(part["encode_proj.weight"].shape))
        linear.load_state_dict({key: part.pop(f"encode_proj.{key}") for key in ("weight", "bias")})
        head.append(linear)
    network = load_original_dpr(part, path, base)
    return Checkpoint(network.eval(), head, load_tokenizer(base), _EncoderSettings())


def _modules(folder: Path) -> list[tuple[str, Path]]:
    """The kinds and folders of sentence-transformers' modules; none if it is a plain checkpoint."""
    modules = []
    for module in _json(folder / "modules.json", []):
        kind = module["type"].rsplit(".", 1)[-1]
        if kind not in _MODULES:
            raise ModelError(f"{folder}: the module {kind} of sentence-transformers is not supported")
        modules.append((kind, folder / module.get("path", "")))
    return modules


def _settings(folder: Path, modules: list[tuple[str, Path]]) -> _EncoderSettings:
    """What sentence-transformers' files say; a plain checkpoint is [CLS] and inner product, as in DPR."""
    if not modules:
        return _EncoderSettings()
    stated = _json(folder / "config_sentence_transformers.json", {})
    prompts = stated.get("prompts") or {}
    return _EncoderSettings(
        pooling=_pooling(folder, modules),
        similarity=_similarity(stated.get("similarity_fn_name"), modules),
        max_length=int(_json(folder / "sentence_bert_config.json", {}).get("max_seq_length") or 256),
        question_prompt=prompts.get("query", ""),
        passage_prompt=prompts.get("passage", prompts.get("document", "")),
        title=stated.get("mundap_title", "pair"),
    )


def _pooling(folder: Path, modules: list[tuple[str, Path]]) -> str:
    facts: dict[str, Any] = {}
    for kind, path in modules:
        if kind == "Pooling":
            facts = _json(path / "config.json", {})
    flag = "pooling_mode_"
    modes = [key.removeprefix(flag) for key, used in facts.items() if key.startswith(flag) and used]
    mode = facts.get("pooling_mode") or " and ".join(modes)
    if mode not in _POOLING:
        raise ModelError(f"{folder}: pooling {mode or 'by nothing'} is not supported: only mean and [CLS]")
    return _POOLING[mode]


def _similarity(stated: str | None, modules: list[tuple[str, Path]]) -> Similarity:
    if stated == "cosine" or modules[-1][0] == "Normalize":
        return "cosine"
    if stated == "euclidean":
        return "l2"
    return "dot"


def _layer(kind: str, path: Path) -> Any:
    """A layer of sentence-transformers after pooling."""
    config = _json(path / "config.json", {})
    file = path / "model.safetensors"
    if not file.is_file():
        file = path / "pytorch_model.bin"
    weights = read_weights(file)
    if kind == "LayerNorm":
        norm = torch.nn.LayerNorm(int(config["dimension"]))
        norm.load_state_dict(without_prefix(weights, "norm."))
        return norm
    activation = str(config.get("activation_function", "")).rsplit(".", 1)[-1]
    if activation not in ("Identity", "Tanh"):
        raise ModelError(f"{path}: the activation {activation} is not supported")
    linear = torch.nn.Linear(int(config["in_features"]), int(config["out_features"]), bool(config.get("bias", True)))
    linear.load_state_dict(without_prefix(weights, "linear."))
    if activation == "Tanh":
        return torch.nn.Sequential(linear, torch.nn.Tanh())
    return linear


def _json(path: Path, default: Any) -> Any:
    if not path.is_file():
        return default
    return json.loads(path.read_text("utf-8"))
