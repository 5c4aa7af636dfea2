"""The losses: negative log-likelihood of the positive, and the triplet margin."""

from collections.abc import Sequence
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


def reading(
    starts: Any, ends: Any, spans: Sequence[Sequence[tuple[int, int]]], null: Any, best_only: bool = False
) -> Any:
    """For each row the negative log-likelihood of its right spans, or of no span ([CLS] to [CLS]) where it has none.

    Args:
        starts: Rows x tokens, logits; padding at minus infinity.
        ends: The same.
        spans: Token positions (first, last) of the spans that match the answer.
        null: Weight of each row without a span.
        best_only: The best of the spans instead of their sum (HardEM).
    """
    first, last = (torch.log_softmax(part, 1) for part in (starts, ends))
    values = []
    for row, places in enumerate(spans):
        if places:
            begin, stop = (torch.tensor(part, device=starts.device) for part in zip(*places, strict=True))
            right = first[row, begin] + last[row, stop]
            values.append(-(right.max() if best_only else torch.logsumexp(right, 0)))
        else:
            values.append(-null[row] * (first[row, 0] + last[row, 0]))
    return torch.stack(values)


def imitating(logits: Any, shares: Any) -> Any:
    """For each row the cross-entropy with given shares.

    Args:
        logits: Rows x tokens; padding at minus infinity, with a share of 0.
        shares: The same shape; each row adds up to 1.
    """
    logs = torch.log_softmax(logits, 1)
    return -torch.where(shares > 0, shares * logs, 0.0).sum(1)


def agreeing(scores: Any, others: Any) -> Any:
    """The cross-entropy of a choice among passages, or of none of them, with another's choice."""
    ours, theirs = (torch.cat([part, part.new_zeros(1)]) for part in (scores, others))
    return -(torch.softmax(theirs, 0) * torch.log_softmax(ours, 0)).sum()


def selecting(scores: Any, target: int | None) -> Any:
    """The negative log-likelihood of one passage of a group, or of none of them, whose score is always 0."""
    with_null = torch.cat([scores, scores.new_zeros(1)])
    place = len(scores) if target is None else target
    return torch.logsumexp(with_null, 0) - with_null[place]
