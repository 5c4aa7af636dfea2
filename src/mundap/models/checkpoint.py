"""Reading other people's checkpoints with torch (extra `train`).

Hugging Face, sentence-transformers, DPR (Hugging Face's and the original's) and ANCE. What comes out is always the
same: a network, a head of further layers, a fast tokenizer, and a recipe. Weights that a network needs and a file
does not have are an error, never a warning.
"""

import inspect
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mundap.errors import ExtraMissing, ModelError

try:
    import torch
    import transformers
except ImportError as error:
    raise ExtraMissing("reading a checkpoint", "train") from error

transformers.utils.logging.disable_progress_bar()

_DPR = {
    "DPRQuestionEncoder": ("question", "question_encoder"),
    "DPRContextEncoder": ("passage", "ctx_encoder"),
}
_NOT_OF_BERT = ("architectures", "model_type", "projection_dim", "transformers_version", "dtype", "_name_or_path")
_UNUSED = ("pooler", "position_ids", "lm_head", "cls.", "vocab_")


def _is_unused(key: str) -> bool:
    """Heads of other tasks, which an encoder does without."""
    return key.startswith("classifier.") or any(part in key for part in _UNUSED)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a checkpoint's last layer becomes a vector, read from the files beside it."""

    pooling: str = "cls"
    normalized: bool = False
    max_length: int = 256
    question_prompt: str = ""
    passage_prompt: str = ""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint, read.

    Attributes:
        network: Token ids to the states of the last layer.
        head: Layers between pooling and the vector; often none.
        tokenizer: A fast one.
        recipe: Pooling and the rest.
    """

    network: Any
    head: Any
    tokenizer: Any
    recipe: Recipe

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        sizes = [layer.out_features for layer in self.head if isinstance(layer, torch.nn.Linear)]
        return int(sizes[-1] if sizes else self.network.config.hidden_size)


class TextEncoder(torch.nn.Module):
    """Token ids to vectors: the network, pooling, head and normalisation in one module.

    Texts come without padding, so every token counts and all token types are 0.
    """

    def __init__(self, loaded: Checkpoint) -> None:
        super().__init__()
        self.network = loaded.network
        self.head = loaded.head
        self.recipe = loaded.recipe
        self._typed = takes_types(loaded.network)

    def forward(self, input_ids: Any) -> Any:
        """Vectors for a batch of texts of the same length."""
        states = self.network(
            input_ids=input_ids,
            attention_mask=torch.ones_like(input_ids),
            **({"token_type_ids": torch.zeros_like(input_ids)} if self._typed else {}),
        ).last_hidden_state
        vector = self.head(states.mean(1) if self.recipe.pooling == "mean" else states[:, 0])
        return torch.nn.functional.normalize(vector, dim=-1) if self.recipe.normalized else vector


def has_two_towers(folder: Path) -> bool:
    """Whether a folder holds a question and a passage encoder, as two folders."""
    return all((folder / role / "config.json").is_file() for role in ("question", "passage"))


def open_checkpoint(folder: Path, role: str = "question", attention: str | None = "eager") -> Checkpoint:
    """Read a checkpoint.

    Args:
        folder: Of one encoder, or of two in `question/` and `passage/`.
        role: `question` or `passage`: which one is wanted.
        attention: Which of the library's implementations to use; none: the fastest that the network has.

    Raises:
        ModelError: It is missing, incomplete, of another kind, or the wrong one of a pair.
    """
    if has_two_towers(folder):
        folder = folder / role
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} has no config.json: give the folder of a Hugging Face checkpoint")
    try:
        architecture = (json.loads((folder / "config.json").read_text("utf-8")).get("architectures") or [""])[0]
        if architecture.startswith("DPR"):
            return _open_dpr(folder, architecture, role, attention)
        if architecture.startswith("RobertaDot_NLL"):
            return _open_ance(folder, attention)
        return _open_plain(folder, attention)
    except ModelError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
        raise ModelError(f"{folder} cannot be read as a checkpoint: {reason}") from error


def _open_plain(folder: Path, attention: str | None) -> Checkpoint:
    recipe, heads = _read_modules(folder)
    network, report = transformers.AutoModel.from_pretrained(
        folder, attn_implementation=attention, output_loading_info=True, local_files_only=True
    )
    refuse_missing(folder, report["missing_keys"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return Checkpoint(network, torch.nn.Sequential(*map(_layer, heads)), fast(tokenizer, folder), recipe)


def _open_dpr(folder: Path, architecture: str, role: str, attention: str | None) -> Checkpoint:
    """By its own class: AutoModel would make a question encoder with random weights of a context encoder."""
    if architecture not in _DPR:
        raise ModelError(f"{folder}: {architecture} is no encoder of questions or passages")
    wanted, part = _DPR[architecture]
    if wanted != role:
        raise ModelError(f"{folder} is the {wanted} encoder of a pair, not the {role} encoder: give the other folder")
    model, report = getattr(transformers, architecture).from_pretrained(
        folder, attn_implementation=attention, output_loading_info=True, local_files_only=True
    )
    refuse_missing(folder, report["missing_keys"])
    inner = getattr(model, part)
    heads = [inner.encode_proj] if model.config.projection_dim else []
    network = plain_bert(model.config, inner.bert_model.state_dict(), folder, attention)
    return Checkpoint(network, torch.nn.Sequential(*heads), dpr_tokenizer(folder), Recipe())


def dpr_tokenizer(folder: Path) -> Any:
    """A tokenizer that obeys its files: DPR's own classes ignore do_lower_case=False and so damage cased models."""
    if (folder / "tokenizer.json").is_file():
        tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    else:
        tokenizer = transformers.BertTokenizerFast.from_pretrained(folder, local_files_only=True)
    return fast(tokenizer, folder)


def plain_bert(config: Any, weights: dict[str, Any], folder: Path, attention: str | None) -> Any:
    """A plain BERT with the weights of DPR's: what is under DPR's names cannot be saved under any other."""
    facts = {key: value for key, value in config.to_dict().items() if key not in _NOT_OF_BERT}
    plain = transformers.BertConfig(**facts)
    plain._attn_implementation = attention
    network = transformers.BertModel(plain, add_pooling_layer=False)
    load_exactly(network, weights, folder)
    return network


def _open_ance(folder: Path, attention: str | None) -> Checkpoint:
    """RoBERTa's [CLS], a linear layer, a layer norm."""
    config = transformers.RobertaConfig.from_pretrained(folder)
    config._attn_implementation = attention
    weights = read_weights(next((p for p in folder.glob("*.safetensors")), folder / "pytorch_model.bin"))
    network = transformers.RobertaModel(config, add_pooling_layer=False)
    body = {key.removeprefix("roberta."): value for key, value in weights.items() if key.startswith("roberta.")}
    load_exactly(network, body, folder)
    try:
        linear = torch.nn.Linear(*reversed(weights["embeddingHead.weight"].shape))
        norm = torch.nn.LayerNorm(len(weights["norm.weight"]))
        parts = {"0.weight": "embeddingHead.weight", "0.bias": "embeddingHead.bias", "1.weight": "norm.weight"}
        head = torch.nn.Sequential(linear, norm)
        head.load_state_dict({**{key: weights[name] for key, name in parts.items()}, "1.bias": weights["norm.bias"]})
    except KeyError as error:
        raise ModelError(f"{folder} lacks weights the network needs: {error}") from error
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return Checkpoint(network, head, fast(tokenizer, folder), Recipe(max_length=512))


def open_towers(source: Path, passage: Path | None = None, base: Path | None = None) -> dict[str, Checkpoint]:
    """The encoder of a folder, or both of a pair, by role.

    Args:
        source: A folder of one or two, or an original DPR `.cp` file.
        passage: The folder of the passage encoder, if `source` is the question encoder alone.
        base: For a `.cp` file, the folder of the BERT it was trained from.
    """
    if source.is_file() and base is not None:
        return dict(zip(("question", "passage"), read_original_dpr(source, base), strict=True))
    towers = {"question": open_checkpoint(source, "question")}
    if passage or has_two_towers(source):
        towers["passage"] = open_checkpoint(passage or source, "passage")
    return towers


def read_original_dpr(path: Path, base: Path) -> tuple[Checkpoint, Checkpoint]:
    """The question and the passage encoder of an original DPR `.cp` file.

    Args:
        path: The file. It is a pickle: only tensors and plain containers in it are accepted.
        base: The folder of the BERT it was trained from, for its config and its vocabulary.
    """
    weights = read_weights(path, "model_dict")
    towers = []
    for prefix in ("question_model.", "ctx_model."):
        part = {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}
        if not part:
            raise ModelError(f"{path} has no weights under {prefix}: it is not a DPR retriever")
        config = transformers.AutoConfig.from_pretrained(base, local_files_only=True)
        network = transformers.AutoModel.from_config(config, attn_implementation="eager")
        head = []
        if "encode_proj.weight" in part:
            linear = torch.nn.Linear(*reversed(part["encode_proj.weight"].shape))
            linear.load_state_dict({key: part.pop(f"encode_proj.{key}") for key in ("weight", "bias")})
            head = [linear]
        load_exactly(network, part, path)
        tokenizer = transformers.AutoTokenizer.from_pretrained(base, local_files_only=True)
        towers.append(Checkpoint(network.eval(), torch.nn.Sequential(*head), fast(tokenizer, base), Recipe()))
    return towers[0], towers[1]


def read_weights(path: Path, under: str = "") -> dict[str, Any]:
    """Tensors by name out of safetensors or a torch file, never running anything that is in it.

    Raises:
        ModelError: The file is missing, broken, or holds more than tensors and plain containers.
    """
    if not path.is_file():
        raise ModelError(f"{path}: no such file")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(path))
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch and pickle have no common class for a bad file
        reason = str(error).strip().splitlines()[0][:200]
        raise ModelError(
            f"{path} was not read: it is broken, or has code in it, which is never run ({reason})"
        ) from error
    found = found.get(under, found) if under and isinstance(found, dict) else found
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise ModelError(f"{path} does not hold weights by name")
    return found


def load_exactly(network: Any, weights: dict[str, Any], where: Path) -> None:
    """Put weights into a network: all it needs, none too many, each of the right shape."""
    useful = {key: value for key, value in weights.items() if not _is_unused(key)}
    needed = {key: value for key, value in network.state_dict().items() if not _is_unused(key)}
    missing, odd = sorted(set(needed) - set(useful)), sorted(set(useful) - set(needed))
    if missing:
        raise ModelError(f"{where} lacks weights the network needs: {', '.join(missing[:5])}")
    if odd:
        raise ModelError(f"{where} is of another architecture: {', '.join(odd[:5])}")
    for key, value in useful.items():
        if value.shape != needed[key].shape:
            shapes = f"{tuple(value.shape)} and not {tuple(needed[key].shape)}"
            raise ModelError(f"{where} is of another architecture: {key} is {shapes}")
    network.load_state_dict(useful, strict=False)


def refuse_missing(folder: Path, keys: Any) -> None:
    """Stop if a network would keep random weights."""
    missing = sorted(key for key in keys if not _is_unused(key))
    if missing:
        raise ModelError(f"{folder} lacks weights the network needs: {', '.join(missing[:5])}")


def fast(tokenizer: Any, folder: Path) -> Any:
    """The tokenizer, if the run time can use it."""
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(f"{folder} has no fast tokenizer (tokenizer.json), which the run time needs")
    return tokenizer


def takes_types(network: Any) -> bool:
    """Whether a network wants token types (BERT does, MPNet has none)."""
    return "token_type_ids" in inspect.signature(network.forward).parameters


def _read_modules(folder: Path) -> tuple[Recipe, list[tuple[str, Path]]]:
    """What sentence-transformers' files say; a plain checkpoint is [CLS], as in DPR."""
    modules = _json(folder / "modules.json", [])
    if not modules:
        return Recipe(), []
    kinds = [(module["type"].rsplit(".", 1)[-1], folder / module.get("path", "")) for module in modules]
    unknown = {kind for kind, _ in kinds} - {"Transformer", "Pooling", "Normalize", "Dense", "LayerNorm"}
    if unknown:
        raise ModelError(f"{folder}: the module {unknown.pop()} of sentence-transformers is not supported")
    pooling: dict[str, Any] = next((_json(path / "config.json", {}) for kind, path in kinds if kind == "Pooling"), {})
    modes = [mode for mode, used in pooling.items() if mode.startswith("pooling_mode_") and used]
    mode = pooling.get("pooling_mode") or (modes[0].removeprefix("pooling_mode_") if len(modes) == 1 else "")
    known = {"mean_tokens": "mean", "cls_token": "cls", "mean": "mean", "cls": "cls"}
    if mode not in known:
        raise ModelError(f"{folder}: pooling {mode or modes} is not supported: only mean and [CLS]")
    prompts = _json(folder / "config_sentence_transformers.json", {}).get("prompts") or {}
    recipe = Recipe(
        pooling=known[mode],
        normalized=kinds[-1][0] == "Normalize",
        max_length=int(_json(folder / "sentence_bert_config.json", {}).get("max_seq_length") or 256),
        question_prompt=prompts.get("query", ""),
        passage_prompt=prompts.get("passage", prompts.get("document", "")),
    )
    return recipe, [(kind, path) for kind, path in kinds if kind in ("Dense", "LayerNorm")]


def _layer(kind_and_path: tuple[str, Path]) -> Any:
    """A layer of sentence-transformers after pooling."""
    kind, path = kind_and_path
    config = _json(path / "config.json", {})
    file = path / "model.safetensors"
    weights = read_weights(file if file.is_file() else path / "pytorch_model.bin")
    if kind == "LayerNorm":
        layer: Any = torch.nn.LayerNorm(int(config["dimension"]))
        layer.load_state_dict({key.removeprefix("norm."): value for key, value in weights.items()})
        return layer
    activation = str(config.get("activation_function", "")).rsplit(".", 1)[-1]
    if activation not in ("Identity", "Tanh"):
        raise ModelError(f"{path}: the activation {activation} is not supported")
    linear = torch.nn.Linear(int(config["in_features"]), int(config["out_features"]), bool(config.get("bias", True)))
    linear.load_state_dict({key.removeprefix("linear."): value for key, value in weights.items()})
    return torch.nn.Sequential(linear, torch.nn.Tanh()) if activation == "Tanh" else linear


def positions(config: Any) -> int:
    """The longest text in tokens. RoBERTa and its kin count positions from behind the padding token's."""
    shifted = config.model_type in ("roberta", "xlm-roberta", "camembert", "mpnet")
    return int(config.max_position_embeddings) - (int(config.pad_token_id) + 1 if shifted else 0)


def with_recipe(loaded: Checkpoint, **changes: Any) -> Checkpoint:
    """The same checkpoint, used otherwise."""
    return replace(loaded, recipe=replace(loaded.recipe, **changes))


def _json(path: Path, default: Any) -> Any:
    return json.loads(path.read_text("utf-8")) if path.is_file() else default
