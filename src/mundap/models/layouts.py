"""Writing checkpoints for others: sentence-transformers directories and Hugging Face's DPR encoders."""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file

from mundap.disk import disk_errors
from mundap.errors import ModelError, MundapError
from mundap.models.checkpoint import Checkpoint

_ST = "sentence_transformers.models"
LAYOUTS = ("sentence-transformers", "dpr")


def write(towers: Mapping[str, Checkpoint], folder: Path, layout: str = "sentence-transformers") -> None:
    """Write one encoder into a folder, or a pair into `question/` and `passage/`; all of it or nothing.

    Args:
        towers: By role: `question` and `passage`, or only `question` if one serves both.
        folder: What is there is replaced, if it is a model.
        layout: One of `LAYOUTS`. DPR's has a pair, [CLS] pooling, and no normalisation.
    """
    if layout == "dpr" and "passage" not in towers:
        towers = {"question": towers["question"], "passage": towers["question"]}
    with replacing_model(folder) as made:
        for role, tower in towers.items():
            part = made / role if len(towers) > 1 else made
            part.mkdir(parents=True)
            if layout == "dpr":
                _write_dpr(tower, role, part)
            else:
                _write_st(tower, part)


@contextmanager
def replacing_model(folder: Path) -> Iterator[Path]:
    """A place to write a model to, which then takes the place of the folder; only a model is replaced."""
    if folder.exists() and any(folder.iterdir()) and not (folder / "config.json").exists() and not (
        folder / "question"
    ).exists():  # fmt: skip
        raise MundapError(f"{folder} is not empty, and no model. Choose another folder.")
    with disk_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".model-") as scratch:
            made = Path(scratch) / "model"
            yield made
            if folder.exists():
                shutil.rmtree(folder)
            made.rename(folder)


def _write_st(tower: Checkpoint, folder: Path) -> None:
    tower.network.save_pretrained(folder)
    tower.tokenizer.save_pretrained(folder)
    recipe = tower.recipe
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    size = tower.network.config.hidden_size
    _write(
        folder / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": size,
            "pooling_mode_cls_token": recipe.pooling == "cls",
            "pooling_mode_mean_tokens": recipe.pooling == "mean",
        },
    )
    for layer in tower.head:
        kind = "LayerNorm" if isinstance(layer, torch.nn.LayerNorm) else "Dense"
        modules.append((f"{len(modules)}_{kind}", kind))
        _write_layer(layer, folder / modules[-1][0])
    if recipe.normalized:
        modules.append((f"{len(modules)}_Normalize", "Normalize"))
        (folder / modules[-1][0]).mkdir()
    rows = [
        {"idx": number, "name": str(number), "path": path, "type": f"{_ST}.{kind}"}
        for number, (path, kind) in enumerate(modules)
    ]
    _write(folder / "modules.json", rows)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": recipe.max_length, "do_lower_case": False})
    prompts = {"query": recipe.question_prompt, "passage": recipe.passage_prompt}
    _write(
        folder / "config_sentence_transformers.json",
        {
            "similarity_fn_name": "cosine" if recipe.normalized else "dot",
            "prompts": {name: prompt for name, prompt in prompts.items() if prompt},
        },
    )


def _write_layer(layer: Any, folder: Path) -> None:
    activation = "torch.nn.modules.linear.Identity"
    if isinstance(layer, torch.nn.Sequential):
        layer, activation = layer[0], "torch.nn.modules.activation.Tanh"
    weights = {key: value.detach().cpu().contiguous() for key, value in layer.state_dict().items()}
    if isinstance(layer, torch.nn.LayerNorm):
        _write(folder / "config.json", {"dimension": layer.normalized_shape[0]})
        save_file({f"norm.{key}": value for key, value in weights.items()}, str(folder / "model.safetensors"))
        return
    _write(
        folder / "config.json",
        {
            "in_features": layer.in_features,
            "out_features": layer.out_features,
            "bias": layer.bias is not None,
            "activation_function": activation,
        },
    )
    save_file({f"linear.{key}": value for key, value in weights.items()}, str(folder / "model.safetensors"))


def _write_dpr(tower: Checkpoint, role: str, folder: Path) -> None:
    if tower.network.config.model_type != "bert":
        raise ModelError(f"DPR's layout is for BERT, not for {tower.network.config.model_type}")
    if tower.recipe.pooling != "cls" or tower.recipe.normalized:
        raise ModelError("DPR's layout has [CLS] pooling and no normalisation: this model would give other vectors")
    if len(tower.head) > 1 or any(not isinstance(layer, torch.nn.Linear) for layer in tower.head):
        raise ModelError("DPR's layout has at most one linear layer on top")
    config = dpr_config(tower.network.config, tower.head[0].out_features if len(tower.head) else 0)
    name, part = (
        ("DPRQuestionEncoder", "question_encoder") if role == "question" else ("DPRContextEncoder", "ctx_encoder")
    )
    model = getattr(transformers, name)(config)
    inner = getattr(model, part)
    inner.bert_model.load_state_dict(tower.network.state_dict(), strict=False)
    if len(tower.head):
        inner.encode_proj.load_state_dict(tower.head[0].state_dict())
    model.save_pretrained(folder)
    save_plain_tokenizer(tower.tokenizer, folder)


def dpr_config(config: Any, projection: int = 0) -> Any:
    """The config of a BERT as DPR's."""
    facts = {key: value for key, value in config.to_dict().items() if key not in _NOT_CONFIG}
    return transformers.DPRConfig(**facts, projection_dim=projection)


def save_plain_tokenizer(tokenizer: Any, folder: Path) -> None:
    """As no class of DPR's: those cannot be told to keep capitals."""
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer,
        **{key: value for key, value in tokenizer.special_tokens_map.items() if isinstance(value, str)},
    ).save_pretrained(folder)


_NOT_CONFIG = ("architectures", "model_type", "transformers_version", "_name_or_path", "dtype", "torch_dtype")


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n", "utf-8")
