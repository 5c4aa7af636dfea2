"""A trained dual encoder as sentence-transformers directories, one for each tower."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from mundap.disk import disk_errors
from mundap.errors import MundapError
from mundap.training.recipe import Recipe
from mundap.training.towers import DualEncoder, Tower

_ST = "sentence_transformers.models"


def save_model(model: DualEncoder, tokenizer: Any, recipe: Recipe, folder: Path) -> None:
    """Write the model: into the folder itself if the towers are one, else into `question/` and `passage/`."""
    with disk_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".model-") as scratch:
            made = Path(scratch) / "model"
            if model.shared:
                _save_tower(model.question, tokenizer, recipe, made, recipe.passage_length)
            else:
                _save_tower(model.question, tokenizer, recipe, made / "question", recipe.question_length)
                _save_tower(model.passage, tokenizer, recipe, made / "passage", recipe.passage_length)
            if folder.exists():
                shutil.rmtree(folder)
            made.rename(folder)


def _save_tower(tower: Tower, tokenizer: Any, recipe: Recipe, folder: Path, length: int) -> None:
    if recipe.similarity == "l2":
        raise MundapError("a model trained for L2 cannot be saved yet: its scores are no inner products")
    folder.mkdir(parents=True)
    tower.network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    (folder / "1_Pooling").mkdir()
    _write(
        folder / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": tower.network.config.hidden_size,
            "pooling_mode_cls_token": tower.pooling == "cls",
            "pooling_mode_mean_tokens": tower.pooling == "mean",
        },
    )
    if tower.projection is not None:
        modules.append(("2_Dense", "Dense"))
        _save_dense(tower, folder / "2_Dense")
    if recipe.similarity == "cosine":
        modules.append((f"{len(modules)}_Normalize", "Normalize"))
        (folder / modules[-1][0]).mkdir()
    rows = [
        {"idx": number, "name": str(number), "path": path, "type": f"{_ST}.{kind}"}
        for number, (path, kind) in enumerate(modules)
    ]
    _write(folder / "modules.json", rows)
    _write(folder / "sentence_bert_config.json", {"max_seq_length": length, "do_lower_case": False})
    _write(
        folder / "config_sentence_transformers.json",
        {"similarity_fn_name": "cosine" if recipe.similarity == "cosine" else "dot", "prompts": {}},
    )


def _save_dense(tower: Tower, folder: Path) -> None:
    from safetensors.torch import save_file

    folder.mkdir()
    layer = tower.projection
    assert layer is not None
    _write(
        folder / "config.json",
        {
            "in_features": layer.in_features,
            "out_features": layer.out_features,
            "bias": True,
            "activation_function": "torch.nn.modules.linear.Identity",
        },
    )
    save_file(
        {"linear.weight": layer.weight.detach().cpu().contiguous(), "linear.bias": layer.bias.detach().cpu()},
        str(folder / "model.safetensors"),
    )


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", "utf-8")
