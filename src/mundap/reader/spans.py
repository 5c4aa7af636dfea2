"""Candidate spans of one passage: the best starts with the best ends, impossible pairs dropped."""

from typing import NamedTuple

import numpy as np

TOP = 10
"""How many starts and how many ends are paired."""


class Span(NamedTuple):
    """Tokens from `start` to `end`, both included."""

    start: int
    end: int
    score: float


def candidates(
    starts: np.ndarray, ends: np.ndarray, first: int = 0, max_length: int = 30, top: int = TOP
) -> list[Span]:
    """Spans with the product of their probabilities, best first.

    Args:
        starts: For each token the probability that the answer starts there.
        ends: That it ends there.
        first: The first token of the text: before it are question and title, where no answer is.
        max_length: The most tokens of an answer.
        top: How many starts and ends are paired.
    """
    if first >= len(starts):
        return []
    begins, stops = (_best(part, first, top) for part in (starts, ends))
    pairs = np.stack(np.meshgrid(begins, stops, indexing="ij"), -1).reshape(-1, 2)
    lengths = pairs[:, 1] - pairs[:, 0] + 1
    pairs = pairs[(lengths >= 1) & (lengths <= max_length)]
    if not len(pairs):  # the best ends are all before the best starts, or far behind
        reach = ends[begins[0] : begins[0] + max_length]
        pairs = np.array([[begins[0], begins[0] + int(np.argmax(reach))]])
    scores = starts[pairs[:, 0]] * ends[pairs[:, 1]]
    order = np.argsort(-scores, kind="stable")
    return [Span(int(pairs[n, 0]), int(pairs[n, 1]), float(scores[n])) for n in order]


def _best(probabilities: np.ndarray, first: int, top: int) -> np.ndarray:
    return first + np.argsort(-probabilities[first:], kind="stable")[:top]


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities that sum to one."""
    raised = np.exp(logits.astype(np.float64) - logits.max())
    return np.asarray(raised / raised.sum())
