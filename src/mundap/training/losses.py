"""The losses: negative log-likelihood of the positive, and the triplet margin."""

from typing import Any

import torch


def nll(scores: Any, targets: Any, left_out: Any) -> Any:
    """-log of the positive's share among all passages that are not left out, a value a question.

    Args:
        scores: Questions x passages.
        targets: The column of each question's positive.
        left_out: True where a passage is no negative of a question.
    """
    return torch.nn.functional.cross_entropy(scores.masked_fill(left_out, -torch.inf), targets, reduction="none")


def triplet(scores: Any, targets: Any, left_out: Any, margin: float) -> Any:
    """How far each negative is from being `margin` below the positive, on average, a value a question."""
    rows = torch.arange(len(scores), device=scores.device)
    counts = ~left_out
    counts[rows, targets] = False
    gaps = (margin - scores[rows, targets].unsqueeze(1) + scores).clamp(min=0)
    return (gaps * counts).sum(1) / counts.sum(1).clamp(min=1)
