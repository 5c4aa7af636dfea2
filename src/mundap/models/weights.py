"""Checkpoint code shared by encoder and reader (extra `train`): weights, DPR's BERT, tokenizers.

Weights that a network needs and a file does not have are an error, never a warning.
"""

import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mundap.errors import ExtraMissing, ModelError

try:
    import torch
    import transformers
except ImportError as error:
    raise ExtraMissing("reading a checkpoint", "train") from error

transformers.utils.logging.disable_progress_bar()

_NOT_OF_BERT = ("architectures", "model_type", "projection_dim", "transformers_version", "dtype", "_name_or_path")
_NOT_CONFIG = ("architectures", "model_type", "transformers_version", "_name_or_path", "dtype", "torch_dtype")
_UNUSED = ("pooler", "position_ids", "lm_head", "cls.", "vocab_")


def _is_unused(key: str) -> bool:
    """Heads of other tasks, which an encoder does without."""
    return key.startswith("classifier.") or any(part in key for part in _UNUSED)


@contextmanager
def reading_checkpoint(folder: Path, kind: str) -> Iterator[None]:
    """Turn any failure to read a folder into a ModelError that names it.

    Args:
        folder: Of the checkpoint.
        kind: What it is read as, for the message.
    """
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} has no config.json: give the folder of a Hugging Face checkpoint")
    try:
        yield
    except ModelError:
        raise
    except Exception as error:  # each of torch, transformers and safetensors has its own for a broken file
        raise ModelError(f"{folder} cannot be read as a {kind}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    if not lines:
        return type(error).__name__
    if lines[0].startswith("Weights only load failed"):  # torch goes on with how to open it all the same
        return "its weights are broken, or have code in them, which is never run. Save them as safetensors"
    return lines[0][:300]


def architecture_of(folder: Path) -> str:
    """The class that a folder's config names; empty if it names none."""
    facts = json.loads((folder / "config.json").read_text("utf-8"))
    if isinstance(facts, dict) and facts.get("architectures"):
        return str(facts["architectures"][0])
    return ""


def without_prefix(weights: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The weights whose names begin with the prefix, without it."""
    return {key.removeprefix(prefix): value for key, value in weights.items() if key.startswith(prefix)}


def read_weights(path: Path, under: str = "") -> dict[str, Any]:
    """Read tensors by name from safetensors or a torch file, without running any code in it.

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
        raise ModelError(
            f"{path} was not read: it is broken, or has code in it, which is never run ({_first_line(error)})"
        ) from error
    if under and isinstance(found, dict):
        found = found.get(under, found)
    if not isinstance(found, dict) or not all(isinstance(value, torch.Tensor) for value in found.values()):
        raise ModelError(f"{path} does not hold weights by name")
    return found


def load_exactly(network: Any, weights: dict[str, Any], where: Path) -> None:
    """Load weights into a network strictly: none missing, none unexpected, each of the right shape."""
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


def load_pretrained(kind: Any, folder: Path, attention: str | None) -> Any:
    """A model of a class of transformers, none of whose weights are left random.

    Args:
        kind: The class.
        folder: Of the checkpoint.
        attention: Which of the library's implementations to use; none: the fastest that the network has.
    """
    model, report = kind.from_pretrained(
        folder, attn_implementation=attention, output_loading_info=True, local_files_only=True
    )
    missing = sorted(key for key in report["missing_keys"] if not _is_unused(key))
    if missing:
        raise ModelError(f"{folder} lacks weights the network needs: {', '.join(missing[:5])}")
    return model


def load_tokenizer(folder: Path, kind: Any = transformers.AutoTokenizer) -> Any:
    """The tokenizer of a checkpoint; a ModelError if it is not a fast one, which the run time needs."""
    tokenizer = kind.from_pretrained(folder, local_files_only=True)
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(f"{folder} has no fast tokenizer (tokenizer.json), which the run time needs")
    return tokenizer


def load_original_dpr(weights: dict[str, Any], path: Path, base: Path) -> Any:
    """The network of an original DPR `.cp` file.

    Args:
        weights: Those of the network alone.
        path: The file, for messages.
        base: The folder of the BERT that it was trained from.
    """
    config = transformers.AutoConfig.from_pretrained(base, local_files_only=True)
    network = transformers.AutoModel.from_config(config, attn_implementation="eager")
    load_exactly(network, weights, path)
    return network


def plain_dpr(bert: Any, folder: Path, attention: str | None) -> tuple[Any, Any]:
    """The BERT inside of Hugging Face's DPR as a plain one, and a tokenizer.

    What is under DPR's names cannot be saved under any other. DPR's tokenizer classes ignore do_lower_case=False and
    so damage cased models; plain ones obey the files.
    """
    facts = {key: value for key, value in bert.config.to_dict().items() if key not in _NOT_OF_BERT}
    config = transformers.BertConfig(**facts)
    config._attn_implementation = attention
    network = transformers.BertModel(config, add_pooling_layer=False)
    load_exactly(network, bert.state_dict(), folder)
    if (folder / "tokenizer.json").is_file():
        return network, load_tokenizer(folder, transformers.PreTrainedTokenizerFast)
    return network, load_tokenizer(folder, transformers.BertTokenizerFast)


def dpr_config(config: Any, projection: int = 0) -> Any:
    """The config of a BERT as DPR's."""
    facts = {key: value for key, value in config.to_dict().items() if key not in _NOT_CONFIG}
    return transformers.DPRConfig(**facts, projection_dim=projection)


def save_plain_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Save it as a plain tokenizer: DPR's classes cannot keep capitals."""
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer,
        **{key: value for key, value in tokenizer.special_tokens_map.items() if isinstance(value, str)},
    ).save_pretrained(folder)


def takes_types(network: Any) -> bool:
    """Whether a network wants token types (BERT does, MPNet has none)."""
    return "token_type_ids" in inspect.signature(network.forward).parameters


def positions(config: Any) -> int:
    """The most tokens of a text. RoBERTa and its kin count positions from behind the padding token's."""
    size = int(config.max_position_embeddings)
    if config.model_type in ("roberta", "xlm-roberta", "camembert", "mpnet"):
        size -= int(config.pad_token_id) + 1
    return size
