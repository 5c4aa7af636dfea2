"""Writing encoders for others (extra `train`): sentence-transformers directories and Hugging Face's DPR encoders."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file

from mundap.encoder.checkpoints import Checkpoint
from mundap.errors import ModelError
from mundap.models.folder import replacing_model
from mundap.models.weights import dpr_config, save_plain_tokenizer

_ST = "sentence_transformers.models"
_SIMILARITY = {"dot": "dot", "cosine": "cosine", "l2": "euclidean"}  # as sentence-transformers calls them
_DPR = {
    "question": ("DPRQuestionEncoder", "question_encoder"),
    "passage": ("DPRContextEncoder", "ctx_encoder"),
}


def write(towers: Mapping[str, Checkpoint], folder: Path, layout: str = "sentence-transformers") -> None:
    """Write one encoder into a folder, or a pair into `question/` and `passage/`; all of it or nothing.

    Args:
        towers: By role: `question` and `passage`, or only `question` if one serves both.
        folder: What is there is replaced, if it is a model.
        layout: One of `mundap.encoder.LAYOUTS`. DPR's has a pair, [CLS] pooling, and the inner product.
    """
    if layout == "dpr" and "passage" not in towers:
        towers = {"question": towers["question"], "passage": towers["question"]}
    with replacing_model(folder) as made:
        for role, tower in towers.items():
            part = made
            if len(towers) > 1:
                part = made / role
            part.mkdir(parents=True)
            if layout == "dpr":
                _write_dpr(tower, role, part)
            else:
                _write_st(tower, part)


def _write_st(tower: Checkpoint, folder: Path) -> None:
    tower.network.save_pretrained(folder)
    tower.tokenizer.save_pretrained(folder)
    settings = tower.settings
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    size = tower.network.config.hidden_size
    _write(
        folder / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": size,
            "pooling_mode_cls_token": settings.pooling == "cls",
            "pooling_mode_mean_tokens": settings.pooling == "mean",
        },
    )
    for layer in tower.head:
        kind = "Dense"
        if isinstance(layer, torch.nn.LayerNorm):
            kind = "LayerNorm"
        modules.append((f"{len(modules)}_{kind}", kind))
        _write_layer(layer, folder / modules[-1][0])
    if settings.normalized:
        modules.append((f"{len(modules)}_Normalize", "Normalize"))
        (folder / modules[-1][0]).mkdir()
    rows = [
        {"idx": number, "name": str(number), "path": path, "type": f"{_ST}.{kind}"}
        for number, (path, kind) in enumerate(modules)
    ]
    _write(folder / "modules.json", rows)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": settings.max_length, "do_lower_case": False})
    prompts = {"query": settings.question_prompt, "passage": settings.passage_prompt}
    stated: dict[str, Any] = {
        "similarity_fn_name": _SIMILARITY[settings.similarity],
        "prompts": {name: prompt for name, prompt in prompts.items() if prompt},
    }
    if settings.title != "pair":
        stated["mundap_title"] = settings.title
    _write(folder / "config_sentence_transformers.json", stated)


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
    if tower.settings.pooling != "cls" or tower.settings.similarity != "dot":
        raise ModelError("DPR's layout has [CLS] pooling and the inner product: this model would give other scores")
    if len(tower.head) > 1 or any(not isinstance(layer, torch.nn.Linear) for layer in tower.head):
        raise ModelError("DPR's layout has at most one linear layer on top")
    projection = 0
    if len(tower.head):
        projection = tower.head[0].out_features
    config = dpr_config(tower.network.config, projection)
    name, part = _DPR[role]
    model = getattr(transformers, name)(config)
    inner = getattr(model, part)
    inner.bert_model.load_state_dict(tower.network.state_dict(), strict=False)
    if len(tower.head):
        inner.encode_proj.load_state_dict(tower.head[0].state_dict())
    model.save_pretrained(folder)
    save_plain_tokenizer(tower.tokenizer, folder)


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, indent=2) + "\n", "utf-8")
