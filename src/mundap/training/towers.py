"""The dual encoder as torch sees it: one or two towers from texts to vectors, and their similarity."""

from pathlib import Path
from typing import Any

from mundap.errors import ExtraMissing, ModelError
from mundap.models import checkpoint, layouts
from mundap.training.recipe import Recipe

try:
    import torch
    from torch import nn
except ImportError as error:
    raise ExtraMissing("training", "train") from error

_QUERIES = ("query", "q", "q_lin", "q_proj", "Wqkv")  # by one of these an attention is known
_WASTE = 0.15  # of the tokens of a chunk may be padding
_LEAST = 8  # texts in a chunk, whatever their lengths


class Tower(nn.Module):
    """A network with pooling and, on top, the layers of its head."""

    def __init__(self, loaded: checkpoint.Checkpoint) -> None:
        super().__init__()
        self.loaded = loaded
        self.network = loaded.network
        self.head = loaded.head
        self.pooling = loaded.recipe.pooling
        self._typed = checkpoint.takes_types(loaded.network)

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return self.loaded.dimension

    def forward(self, ids: Any, mask: Any) -> Any:
        """Vectors of a padded batch; all token types are 0, as in the papers' models."""
        types = {"token_type_ids": torch.zeros_like(ids)} if self._typed else {}
        states = self.network(input_ids=ids, attention_mask=mask, **types).last_hidden_state
        if self.pooling == "mean":
            weights = mask.unsqueeze(-1).to(states.dtype)
            vectors = (states * weights).sum(1) / weights.sum(1)
        else:
            vectors = states[:, 0]
        return self.head(vectors)


class DualEncoder(nn.Module):
    """Question and passage tower, which may be one and the same, and how their vectors are compared."""

    def __init__(self, question: Tower, passage: Tower, similarity: str = "dot", temperature: float = 1.0) -> None:
        super().__init__()
        self.question = question
        self.passage = passage
        self.similarity = similarity
        self.temperature = temperature

    @property
    def shared(self) -> bool:
        """Whether one network serves both."""
        return self.question is self.passage

    def scores(self, questions: Any, chunks: Any, owners: Any | None = None) -> Any:
        """The similarity of every question with every passage, over the temperature.

        Args:
            questions: Vectors.
            chunks: Vectors of passages, or of their chunks.
            owners: The number of each chunk's passage, ascending; of a passage the best chunk counts.
        """
        scores = self._similarities(questions, chunks) / self.temperature
        if owners is None or len(owners) == 0 or int(owners[-1]) + 1 == len(owners):
            return scores
        best = scores.new_full((len(scores), int(owners[-1]) + 1), -torch.inf)
        return best.scatter_reduce(1, owners.expand(len(scores), -1), scores, "amax")

    def _similarities(self, questions: Any, passages: Any) -> Any:
        if self.similarity == "cosine":
            questions, passages = (nn.functional.normalize(part, dim=-1) for part in (questions, passages))
        scores = questions @ passages.T
        if self.similarity == "l2":
            lengths = (questions**2).sum(1, keepdim=True) + (passages**2).sum(1)
            scores = 2 * scores - lengths
        return scores


def build(recipe: Recipe) -> tuple[DualEncoder, Any]:
    """The model to train and its tokenizer.

    Raises:
        ModelError: The checkpoint is missing, incomplete or of another kind.
    """
    torch.manual_seed(recipe.seed)  # a projection starts from chance
    start = Path(recipe.start)
    question = _tower(start, "question", recipe)
    tokenizer = question.loaded.tokenizer
    passage = question
    if recipe.towers == "two":
        other = Path(recipe.passage_start) if recipe.passage_start else start
        passage = _tower(other, "passage", recipe)
        if passage.loaded.tokenizer.get_vocab() != tokenizer.get_vocab():
            raise ModelError(f"{start} and {other} have different vocabularies: they cannot be trained together")
        if passage.dimension != question.dimension:
            raise ModelError(f"{start} and {other} give vectors of different lengths")
    longest = checkpoint.positions(question.network.config)
    if max(recipe.passage_length, recipe.question_length) > longest:
        raise ModelError(f"{start} takes at most {longest} tokens: lower passage_length and question_length")
    model = DualEncoder(question, passage, recipe.similarity, recipe.temperature)
    if recipe.freeze:
        getattr(model, recipe.freeze).requires_grad_(False)
    return model, tokenizer


def _tower(folder: Path, role: str, recipe: Recipe) -> Tower:
    loaded = checkpoint.open_checkpoint(folder, role, attention=None)
    network = loaded.network
    set_dropout(network, recipe.dropout, recipe.attention_dropout)
    if recipe.recompute:
        network.gradient_checkpointing_enable()
    length = recipe.passage_length if recipe.towers == "shared" or role == "passage" else recipe.question_length
    changes: dict[str, Any] = {"normalized": recipe.similarity == "cosine", "max_length": length}
    if recipe.pooling != "auto":
        changes["pooling"] = recipe.pooling
    loaded = checkpoint.with_recipe(loaded, **changes)
    if recipe.projection:
        loaded.head.append(nn.Linear(loaded.dimension, recipe.projection))
    return Tower(loaded)


def set_dropout(network: Any, share: float, in_attention: float) -> None:
    """Another dropout than the checkpoint's own. Inside of the attention a negative one is as that outside."""
    in_attention = share if in_attention < 0 else in_attention
    attention = [module for module in network.modules() if any(hasattr(module, name) for name in _QUERIES)]
    own = {id(part) for module in attention for part in module.children() if isinstance(part, nn.Dropout)}
    for module in network.modules():
        if isinstance(module, nn.Dropout):
            wanted = in_attention if id(module) in own else share
            module.p = module.p if wanted < 0 else wanted
    for module in attention:
        # The attention of newer transformers keeps its own number and asks no module.
        for name in ("attention_dropout", "dropout_prob"):
            if isinstance(getattr(module, name, None), float) and in_attention >= 0:
                setattr(module, name, in_attention)


def save(model: DualEncoder, folder: Path) -> None:
    """Write the trained encoder as sentence-transformers would, or the pair of them."""
    if model.similarity == "l2":
        raise ModelError("a model trained for L2 cannot be saved: its scores are no inner products. Train with dot.")
    towers = {"question": model.question.loaded}
    if not model.shared:
        towers["passage"] = model.passage.loaded
    layouts.write(towers, folder)


def chunks(lengths: list[int], most: int = 0) -> list[list[int]]:
    """Positions of texts, longest first, in groups that waste little on padding.

    Args:
        lengths: Of the texts, in tokens.
        most: The largest group; 0 for any size.
    """
    order = sorted(range(len(lengths)), key=lambda position: -lengths[position])
    groups: list[list[int]] = []
    used = 0
    for position in order:
        group = groups[-1] if groups else None
        if group:
            used += lengths[position]
            full = lengths[group[0]] * (len(group) + 1)
            waste = 1 - used / full
            if (not most or len(group) < most) and (waste <= _WASTE or len(group) < _LEAST):
                group.append(position)
                continue
        groups.append([position])
        used = lengths[position]
    return groups


def padded(texts: list[list[int]], pad: int, device: Any) -> tuple[Any, Any]:
    """Token ids and mask of texts as two rectangles."""
    width = max(map(len, texts))
    ids = torch.full((len(texts), width), pad, dtype=torch.long)
    mask = torch.zeros((len(texts), width), dtype=torch.long)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor(text)
        mask[row, : len(text)] = 1
    return ids.to(device), mask.to(device)
