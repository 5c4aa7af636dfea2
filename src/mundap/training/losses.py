"""The loss functions of retriever and reader."""

from collections.abc import Sequence
from typing import Any

import torch


def nll(scores: Any, targets: Any, excluded: Any) -> Any:
    """The negative log-likelihood of the positive among the passages that are not excluded, for each question.

    Args:
        scores: Questions x passages.
        targets: The column of each question's positive.
        excluded: True where a passage is not a negative of a question.
    """
    return torch.nn.functional.cross_entropy(scores.masked_fill(excluded, -torch.inf), targets, reduction="none")


def triplet(scores: Any, targets: Any, excluded: Any, margin: float) -> Any:
    """The triplet loss with a margin, averaged over the negatives of each question."""
    rows = torch.arange(len(scores), device=scores.device)
    counts = ~excluded
    counts[rows, targets] = False
    gaps = (margin - scores[rows, targets].unsqueeze(1) + scores).clamp(min=0)
    return (gaps * counts).sum(1) / counts.sum(1).clamp(min=1)


def span_nll(
    starts: Any, ends: Any, spans: Sequence[Sequence[tuple[int, int]]], null: Any, best_only: bool = False
) -> Any:
    """For each row the negative log-likelihood of its answer spans, or of "no span" ([CLS]) where it has none.

    Args:
        starts: Rows x tokens, logits; padding at minus infinity.
        ends: The same.
        spans: Token positions (first, last) of the spans that match the answer.
        null: The weight of each row without an answer span.
        best_only: The best of the spans instead of their sum (HardEM).
    """
    first, last = (torch.log_softmax(part, 1) for part in (starts, ends))
    values = []
    for row, places in enumerate(spans):
        if places:
            begin, stop = (torch.tensor(part, device=starts.device) for part in zip(*places, strict=True))
            right = first[row, begin] + last[row, stop]
            if best_only:
                values.append(-right.max())
            else:
                values.append(-torch.logsumexp(right, 0))
        else:
            values.append(-null[row] * (first[row, 0] + last[row, 0]))
    return torch.stack(values)


def span_mass(starts: Any, ends: Any, longest: int) -> Any:
    """The logarithm of the sum of exp(start + end) over all spans of a text.

    Args:
        starts: The logits of its tokens, at least one.
        ends: The same.
        longest: The most tokens of a span.
    """
    ahead = torch.nn.functional.pad(ends, (0, longest - 1), value=-torch.inf)
    return torch.logsumexp(starts + torch.logsumexp(ahead.unfold(0, longest, 1), 1), 0)


def token_distillation(logits: Any, shares: Any) -> Any:
    """The cross-entropy of each row with a teacher's distribution over its tokens.

    Args:
        logits: Rows x tokens; padding at minus infinity, with a probability of 0.
        shares: The teacher's probabilities, of the same shape.
    """
    logs = torch.log_softmax(logits, 1)
    return -torch.where(shares > 0, shares * logs, 0.0).sum(1)


def selection_distillation(scores: Any, others: Any) -> Any:
    """The cross-entropy of the selection among a group's passages, or none, with the teacher's."""
    ours, theirs = (torch.cat([part, part.new_zeros(1)]) for part in (scores, others))
    return -(torch.softmax(theirs, 0) * torch.log_softmax(ours, 0)).sum()


def selection_nll(scores: Any, target: int | None) -> Any:
    """The negative log-likelihood of one passage of a group, or of none of them, whose score is always 0."""
    with_null = torch.cat([scores, scores.new_zeros(1)])
    if target is None:
        target = len(scores)
    return torch.logsumexp(with_null, 0) - with_null[target]
