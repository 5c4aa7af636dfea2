"""The reader as a torch module (extra `train`)."""

from typing import Any

from mundap.errors import ExtraMissing
from mundap.models.weights import takes_types

try:
    import torch
except ImportError as error:
    raise ExtraMissing("reading a checkpoint", "train") from error


class ReaderNetwork(torch.nn.Module):
    """An encoder with heads for start, end and, if it has one, passage selection."""

    def __init__(self, network: Any, spans: Any, selection: Any | None) -> None:
        super().__init__()
        self.network = network
        self.spans = spans
        self.selection = selection
        self.takes_types = takes_types(network)

    def forward(self, ids: Any, mask: Any, types: Any | None = None) -> tuple[Any, ...]:
        """Logits: starts and ends for each token, and one for each row. Token types are 0 unless given."""
        inputs = {"input_ids": ids, "attention_mask": mask}
        if self.takes_types:
            if types is None:
                types = torch.zeros_like(ids)
            inputs["token_type_ids"] = types
        states = self.network(**inputs).last_hidden_state
        starts, ends = self.spans(states).unbind(-1)
        if self.selection is None:
            return starts, ends
        return starts, ends, self.selection(states[:, 0]).squeeze(-1)
