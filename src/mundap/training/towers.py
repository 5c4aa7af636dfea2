"""The dual encoder that a recipe describes, and how it is saved."""

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from mundap.encoder import checkpoints, layouts
from mundap.encoder.inputs import EncoderInputs
from mundap.encoder.network import DualEncoder, Tower
from mundap.errors import ExtraMissing, ModelError
from mundap.models.folder import Similarity, installed
from mundap.models.weights import positions
from mundap.training.learner import Tell
from mundap.training.recipe import RetrieverRecipe, TrainingRecipe

try:
    import torch
    from torch import nn
except ImportError as error:
    raise ExtraMissing("training", "train") from error

R = TypeVar("R", bound=RetrieverRecipe)

_TEMPERATURES: dict[Similarity, float] = {"cosine": 0.05, "dot": 1.0, "l2": 1.0}
_QUERIES = ("query", "q", "q_lin", "q_proj", "Wqkv")  # an attention module has one of these


def with_similarity(recipe: R, tell: Tell = lambda line: None) -> R:
    """The recipe with the similarity and the temperature that the checkpoint suggests, where it leaves them open.

    A checkpoint that normalises its vectors was trained for cosine; others for the inner product. Cosines lie between
    -1 and 1, so that a softmax over them needs a low temperature to tell passages apart.

    Args:
        recipe: The settings.
        tell: Called with a line that says what was taken.
    """
    if recipe.similarity != "auto" and recipe.temperature:
        return recipe
    similarity = recipe.similarity
    if similarity == "auto":
        similarity = checkpoints.open_checkpoint(base_folder(recipe.base_model), "question").settings.similarity
    temperature = recipe.temperature or _TEMPERATURES[similarity]
    tell(f"similarity = {similarity}, temperature = {temperature:g}, as {recipe.base_model} suggests")
    return replace(recipe, similarity=similarity, temperature=temperature)


def base_folder(name: str) -> Path:
    """The folder of a base model: a path, or else the name of an installed model, which recipes make a path of."""
    path = Path(name)
    if path.exists():
        return path
    return installed().get(path.name, path)


def build(recipe: RetrieverRecipe) -> tuple[DualEncoder, EncoderInputs]:
    """The model to train, and how texts become its tokens.

    Raises:
        ModelError: The checkpoint is missing, incomplete or of another kind.
    """
    recipe = with_similarity(recipe)
    torch.manual_seed(recipe.seed)  # a projection is initialised at random
    base = base_folder(recipe.base_model)
    question = _tower(base, "question", recipe)
    tokenizer = question.loaded.tokenizer
    passage = question
    if recipe.towers == "two":
        other = base_folder(recipe.passage_base_model or recipe.base_model)
        passage = _tower(other, "passage", recipe)
        if passage.loaded.tokenizer.get_vocab() != tokenizer.get_vocab():
            raise ModelError(f"{base} and {other} have different vocabularies: they cannot be trained together")
        if passage.dimension != question.dimension:
            raise ModelError(f"{base} and {other} give vectors of different lengths")
    longest = positions(question.network.config)
    if max(recipe.passage_length, recipe.question_length) > longest:
        raise ModelError(f"{base} takes at most {longest} tokens: lower passage_length and question_length")
    model = DualEncoder(question, passage, recipe.similarity, recipe.temperature)
    if recipe.freeze_tower:
        getattr(model, recipe.freeze_tower).requires_grad_(False)
    lengths = recipe.question_length, recipe.passage_length
    return model, EncoderInputs.from_checkpoints(question.loaded, passage.loaded, *lengths)


def _tower(folder: Path, role: str, recipe: RetrieverRecipe) -> Tower:
    loaded = checkpoints.open_checkpoint(folder, role, attention=attention_for(recipe.precision))
    prepare_network(loaded.network, recipe)
    length = recipe.question_length
    if recipe.towers == "shared" or role == "passage":
        length = recipe.passage_length
    changes: dict[str, Any] = {"similarity": recipe.similarity, "max_length": length}
    if recipe.pooling != "auto":
        changes["pooling"] = recipe.pooling
    loaded = checkpoints.with_settings(loaded, **changes)
    if recipe.projection_dim:
        loaded.head.append(nn.Linear(loaded.dimension, recipe.projection_dim))
    return Tower(loaded)


def prepare_network(network: Any, recipe: TrainingRecipe) -> None:
    """Set up a network of transformers for training: dropout, frozen layers, gradient checkpointing."""
    _set_dropout(network, recipe.dropout, recipe.attention_dropout)
    _freeze_bottom(network, recipe.freeze_layers)
    if recipe.gradient_checkpointing:
        network.gradient_checkpointing_enable()


def _set_dropout(network: Any, share: float, in_attention: float) -> None:
    """Replace the checkpoint's dropout; negative keeps it. A negative `in_attention` means: as elsewhere."""
    if in_attention < 0:
        in_attention = share
    if share >= 0:
        for module in network.modules():
            if isinstance(module, nn.Dropout):
                module.p = share
    if in_attention >= 0:
        for module in network.modules():
            if any(hasattr(module, name) for name in _QUERIES):
                _set_attention_dropout(module, in_attention)


def _set_attention_dropout(attention: Any, share: float) -> None:
    for part in attention.children():
        if isinstance(part, nn.Dropout):
            part.p = share
    # The attention of newer transformers keeps its own number and asks no module.
    for name in ("attention_dropout", "dropout_prob"):
        if isinstance(getattr(attention, name, None), float):
            setattr(attention, name, share)


def attention_for(precision: str) -> str | None:
    """The attention implementation to train with; None leaves the choice to the library.

    On a CPU, torch's fused kernel runs bf16 at a quarter of the speed of the plain ("eager") implementation.
    """
    if precision == "bf16" and not torch.cuda.is_available():
        return "eager"
    return None


def _freeze_bottom(network: Any, layers: int) -> None:
    """Freeze the embeddings and the first `layers` layers of a BERT-like network; 0 freezes nothing."""
    if not layers:
        return
    stack = getattr(getattr(network, "encoder", None), "layer", None)
    if stack is None:
        raise ModelError(f"freeze_layers = {layers}: the network is not built like BERT, so its layers are not known")
    if not 0 < layers < len(stack):
        raise ModelError(f"freeze_layers = {layers}: the network has {len(stack)} layers, and at least one must learn")
    for part in (network.embeddings, *stack[:layers]):
        part.requires_grad_(False)


def save(model: DualEncoder, folder: Path) -> None:
    """Write the trained encoder as sentence-transformers would, or the pair of them."""
    towers = {"question": model.question.loaded}
    if not model.shared:
        towers["passage"] = model.passage.loaded
    layouts.write(towers, folder)
