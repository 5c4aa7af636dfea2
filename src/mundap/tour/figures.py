"""The figures of the tour."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mundap.encoder.runtime import Encoder
from mundap.index.index import Index
from mundap.index.sparse import SparseLexical
from mundap.reader.spans import Span, candidates

DOCUMENTS = ("나는 떡볶이를 좋아한다", "나는 가을을 가장 좋아한다", "나는 야구 관람을 가장 좋아한다")
MEANINGS = ("I like tteokbokki", "I like autumn best", "I like watching baseball best")

PAIRS = (
    ("Who is the bad guy in Lord of the Rings?", "en/the-lord-of-the-rings-films.md"),
    ("Who bought Tesla's patents on alternating current?", "en/nikola-tesla.md"),
    ("Which female mountaineer was the earliest to stand on the roof of the world?", "en/mount-everest.md"),
    ("How tall is the Eiffel Tower?", "en/eiffel-tower.md"),
)
"""Questions of the example encyclopaedia with the documents that answer them."""

STARTS = {7: 0.97, 3: 0.95, 15: 0.88, 23: 0.78, 18: 0.72, 6: 0.71, 1: 0.70, 30: 0.52, 26: 0.50, 11: 0.48}
ENDS = {8: 0.92, 12: 0.85, 40: 0.81, 37: 0.79, 21: 0.76, 31: 0.60, 15: 0.57, 11: 0.51, 27: 0.47, 22: 0.45}
"""The seminar's table: tokens where an answer may start and end, with their probabilities."""


TEMPERATURE = 0.05
"""What the recipe of the shipped retriever divides cosines by."""


class _Batch(NamedTuple):
    """Questions and their passages, and how alike each question is to each passage: the diagonal is right."""

    questions: tuple[str, ...]
    titles: tuple[str, ...]
    similarity: np.ndarray


def tfidf() -> dict[str, float]:
    """The TF-IDF weight of every term of the three documents: its count x ln(documents / those with it)."""
    matrix = SparseLexical.build(DOCUMENTS, str.split, "tfidf")
    return {term: float(matrix.matrix[:, column].max()) for term, column in matrix.terms.items()}


def batch(index: Index, pairs: Sequence[tuple[str, str]] = PAIRS) -> _Batch:
    """Pairs encoded as for training, S = Q P^T; pairs whose document is not in the index are left out."""
    encoder = index.encoder or Encoder.from_pretrained()
    questions: list[str] = []
    passages: list[tuple[str, str]] = []
    for question, name in pairs:
        passage = index.passage(name) or index.passage(f"{name}#1")
        if passage is not None:
            questions.append(question)
            passages.append((passage.title, passage.text))
    similarity = encoder.encode_questions(questions) @ encoder.encode_passages(passages).T
    return _Batch(tuple(questions), tuple(title for title, _ in passages), similarity)


def losses(similarity: np.ndarray, temperature: float = TEMPERATURE) -> np.ndarray:
    """For each question the negative log-likelihood of its own passage: -ln(e^(s+ / T) / sum of e^(s / T))."""
    raised = np.exp(similarity.astype(np.float64) / temperature)
    return np.asarray(-np.log(np.diagonal(raised) / raised.sum(axis=1)))


def seminar() -> list[Span]:
    """The spans of the seminar's table, best first, impossible ones dropped."""
    starts, ends = np.zeros(41), np.zeros(41)
    for token, chance in STARTS.items():
        starts[token] = chance
    for token, chance in ENDS.items():
        ends[token] = chance
    return candidates(starts, ends)
