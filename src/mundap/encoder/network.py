"""Encoders as torch modules (extra `train`): one tower from tokens to vectors, two of them as a dual encoder."""

from typing import Any

from mundap.encoder.checkpoints import Checkpoint
from mundap.encoder.similarity import as_inner_product
from mundap.errors import ExtraMissing
from mundap.models.weights import takes_types

try:
    import torch
    from torch import nn
except ImportError as error:
    raise ExtraMissing("training", "train") from error

_CHUNK_COST = 200  # of running one more chunk, in tokens: measured with 12 layers on two cores
_LARGEST_CHUNK = 128  # texts
_BATCH = 64


class Tower(nn.Module):
    """Token ids to vectors: the transformer, pooling, the layers of the head, and normalisation for cosine."""

    def __init__(self, loaded: Checkpoint) -> None:
        super().__init__()
        self.loaded = loaded
        self.network = loaded.network
        self.head = loaded.head
        self._takes_types = takes_types(loaded.network)

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        return self.loaded.dimension

    def forward(self, ids: Any, mask: Any | None = None) -> Any:
        """Vectors of a batch. All token types are 0, as in the papers' models.

        Args:
            ids: Texts x tokens.
            mask: 1 for tokens, 0 for padding; None if there is no padding, as in an exported graph.
        """
        inputs = {"input_ids": ids, "attention_mask": mask}
        if mask is None:
            inputs["attention_mask"] = torch.ones_like(ids)
        if self._takes_types:
            inputs["token_type_ids"] = torch.zeros_like(ids)
        states = self.network(**inputs).last_hidden_state
        vectors = self.head(self._pooled(states, mask))
        if self.loaded.settings.normalized:
            return nn.functional.normalize(vectors, dim=-1)
        return vectors

    def _pooled(self, states: Any, mask: Any | None) -> Any:
        if self.loaded.settings.pooling == "cls":
            return states[:, 0]
        if mask is None:
            return states.mean(1)
        weights = mask.unsqueeze(-1).to(states.dtype)
        return (states * weights).sum(1) / weights.sum(1)


class DualEncoder(nn.Module):
    """A question and a passage tower, which may be one and the same, and the similarity of their vectors."""

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

        With `l2` each question's scores lack the same number, |q|², which changes no ranking and no loss.

        Args:
            questions: Vectors.
            chunks: Vectors of passages, or of their chunks.
            owners: The number of each chunk's passage, ascending; of a passage the best chunk counts.
        """
        left = as_inner_product(questions, self.similarity, "question", torch)
        right = as_inner_product(chunks, self.similarity, "passage", torch)
        scores = left @ right.T / self.temperature
        if owners is None or len(owners) == 0 or int(owners[-1]) + 1 == len(owners):
            return scores
        best = scores.new_full((len(scores), int(owners[-1]) + 1), -torch.inf)
        return best.scatter_reduce(1, owners.expand(len(scores), -1), scores, "amax")


def encode(tower: Tower, texts: list[list[int]], pad: int, batch_size: int = _BATCH) -> Any:
    """The vectors of texts, in float32 on the tower's device, without gradients.

    Args:
        tower: The encoder.
        texts: Token ids, from `EncoderInputs`.
        pad: The id of the padding token.
        batch_size: The most texts at a time.
    """
    device = next(tower.parameters()).device
    vectors = torch.zeros((len(texts), tower.dimension), device=device)
    for group in chunks([len(text) for text in texts], batch_size):
        ids, mask = padded([texts[position] for position in group], pad, device)
        with torch.no_grad():
            vectors[torch.tensor(group, device=device)] = tower(ids, mask).float()
    return vectors


def chunks(lengths: list[int], most: int = 0) -> list[list[int]]:
    """Group texts of similar length, longest first, to minimise padding plus a fixed cost per group.

    Args:
        lengths: Of the texts, in tokens.
        most: The largest group; 0 for any size.
    """
    order = sorted(range(len(lengths)), key=lambda position: -lengths[position])
    largest = min(most or _LARGEST_CHUNK, _LARGEST_CHUNK)
    costs, begins = [0], [0]  # of the cheapest grouping of the first so many texts, and where its last group begins
    for end in range(1, len(order) + 1):
        choices = []
        for begin in range(max(0, end - largest), end):
            cost = costs[begin] + lengths[order[begin]] * (end - begin) + _CHUNK_COST
            choices.append((cost, -begin))  # of equal costs the smallest last group
        cost, negative_begin = min(choices)
        costs.append(cost)
        begins.append(-negative_begin)
    groups: list[list[int]] = []
    end = len(order)
    while end:
        groups.insert(0, order[begins[end] : end])
        end = begins[end]
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
