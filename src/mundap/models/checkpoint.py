"""Reading other people's checkpoints with torch (extra `train`): Hugging Face and sentence-transformers."""

import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mundap.errors import ExtraMissing, ModelError

try:
    import torch
    import transformers
except ImportError as error:
    raise ExtraMissing("exporting a model", "train") from error


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a checkpoint's last layer becomes a vector, read from the files beside it."""

    pooling: str = "cls"
    normalized: bool = False
    max_length: int = 256
    question_prompt: str = ""
    passage_prompt: str = ""


class TextEncoder(torch.nn.Module):
    """Token ids to vectors: the network, pooling and normalisation in one module.

    Texts come without padding, so every token counts and all token types are 0.
    """

    def __init__(self, network: Any, recipe: Recipe) -> None:
        super().__init__()
        self.network = network
        self.recipe = recipe
        self._typed = takes_types(network)

    def forward(self, input_ids: Any) -> Any:
        """Vectors for a batch of texts of the same length."""
        states = self.network(
            input_ids=input_ids,
            attention_mask=torch.ones_like(input_ids),
            **({"token_type_ids": torch.zeros_like(input_ids)} if self._typed else {}),
        ).last_hidden_state
        vector = states.mean(1) if self.recipe.pooling == "mean" else states[:, 0]
        return torch.nn.functional.normalize(vector, dim=-1) if self.recipe.normalized else vector


def load(folder: Path, role: str = "question") -> tuple[TextEncoder, Any, Recipe]:
    """The encoder, its fast tokenizer and its recipe, ready to encode."""
    network, tokenizer, recipe = open_network(folder, role, "eager")
    encoder = TextEncoder(network, recipe)
    encoder.eval()
    return encoder, tokenizer, recipe


def open_network(folder: Path, role: str, attention: str) -> tuple[Any, Any, Recipe]:
    """A checkpoint's network, its fast tokenizer and its recipe; no missing weights are accepted.

    Args:
        folder: A Hugging Face, sentence-transformers or DPR directory.
        role: `question` or `passage`: which tower of a pair is wanted.
        attention: Which of the library's implementations to use.
    """
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} has no config.json: give the folder of a Hugging Face checkpoint")
    recipe = read_recipe(folder)
    architecture = (json.loads((folder / "config.json").read_text("utf-8")).get("architectures") or [""])[0]
    if architecture.startswith("DPR"):
        raise ModelError(
            f"{folder}: {architecture} cannot be exported yet, only plain and sentence-transformers models"
        )
    network, report = transformers.AutoModel.from_pretrained(
        folder, attn_implementation=attention, output_loading_info=True, local_files_only=True
    )
    missing = [key for key in report["missing_keys"] if "pooler" not in key and "position_ids" not in key]
    if missing:
        raise ModelError(f"{folder} lacks weights the network needs: {', '.join(sorted(missing)[:5])}")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if not tokenizer.is_fast:
        raise ModelError(f"{folder} has no fast tokenizer (tokenizer.json), which the run time needs")
    return network, tokenizer, recipe


def takes_types(network: Any) -> bool:
    """Whether a network wants token types (BERT does, MPNet has none)."""
    return "token_type_ids" in inspect.signature(network.forward).parameters


def read_recipe(folder: Path) -> Recipe:
    """What sentence-transformers' files say; a plain checkpoint is [CLS], as in DPR."""
    modules = _json(folder / "modules.json", [])
    if not modules:
        return Recipe()
    kinds = {module["type"].rsplit(".", 1)[-1]: folder / module.get("path", "") for module in modules}
    unknown = set(kinds) - {"Transformer", "Pooling", "Normalize"}
    if unknown:
        raise ModelError(f"{folder}: the module {unknown.pop()} of sentence-transformers is not supported yet")
    pooling = _json(kinds["Pooling"] / "config.json", {}) if "Pooling" in kinds else {}
    modes = [mode for mode, used in pooling.items() if mode.startswith("pooling_mode_") and used]
    mode = pooling.get("pooling_mode") or (modes[0].removeprefix("pooling_mode_") if len(modes) == 1 else "")
    known = {"mean_tokens": "mean", "cls_token": "cls", "mean": "mean", "cls": "cls"}
    if mode not in known:
        raise ModelError(f"{folder}: pooling {mode or modes} is not supported: only mean and [CLS]")
    prompts = _json(folder / "config_sentence_transformers.json", {}).get("prompts") or {}
    return Recipe(
        pooling=known[mode],
        normalized="Normalize" in kinds,
        max_length=int(_json(folder / "sentence_bert_config.json", {}).get("max_seq_length") or 256),
        question_prompt=prompts.get("query", ""),
        passage_prompt=prompts.get("passage", prompts.get("document", "")),
    )


def positions(config: Any) -> int:
    """The longest text in tokens. RoBERTa and its kin count positions from behind the padding token's."""
    shifted = config.model_type in ("roberta", "xlm-roberta", "camembert", "mpnet")
    return int(config.max_position_embeddings) - (int(config.pad_token_id) + 1 if shifted else 0)


def _json(path: Path, default: Any) -> Any:
    return json.loads(path.read_text("utf-8")) if path.is_file() else default
