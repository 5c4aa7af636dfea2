"""Candidate spans of one passage: the best starts with the best ends, impossible pairs dropped."""

from typing import NamedTuple

import numpy as np

TOP = 10
"""How many starts and how many ends are paired."""

_ALMOST = 0.3  # a part is an answer of its own if it is so likely, compared with the whole


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


def without_bridge(found: list[Span]) -> list[Span]:
    """The spans, best first, without the best one if it runs from the start of one likely answer to the end of another.

    Starts and ends are scored apart. Where a sentence names two candidates ("Sala Baker … the villain Sauron"), the
    start of the first and the end of the second may have the best product, though nobody means all of it.
    """
    if not found:
        return found
    best = found[0]
    likely = [span for span in found[1:] if span.score >= _ALMOST * best.score]
    first_end = min((span.end for span in likely if span.start == best.start), default=best.end)
    last_start = max((span.start for span in likely if span.end == best.end), default=best.start)
    if first_end < last_start:
        return found[1:]
    return found


def _best(probabilities: np.ndarray, first: int, top: int) -> np.ndarray:
    return first + np.argsort(-probabilities[first:], kind="stable")[:top]


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities that sum to one."""
    raised = np.exp(logits.astype(np.float64) - logits.max())
    return np.asarray(raised / raised.sum())
