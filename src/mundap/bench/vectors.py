"""Vectors by the million that are spread like those of real text.

Some thousand real vectors, the bank, give the statistics. A made vector begins at a random one of them, goes a random
part of the way to one of its near neighbours, and is moved by noise of the local covariance: a sum of differences
between neighbours around there. So topics stay as uneven as they are, and what is near a question is as hard to tell
apart as in real text. Noise of equal strength in all directions would make both far too easy.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mundap.errors import UsageError
from mundap.machine import in_threads

BLOCK = 4096
"""Vectors that are made at a time; each block has a generator of its own, so making can go on at any of them."""

NEIGHBOURS = 16
FEWEST = 256

_IN_CACHE = 128  # vectors that are computed together
_STEPS = 4  # differences in a noise vector
_FAR = 1.0  # of the way to the neighbour, at most
# Against the length of a difference between neighbours. With this, probing finds as much in 8,000 vectors made after
# 4,000 or 1,000 real ones as in 8,000 real ones, to 1.2 and 1.7 points on average (benchmarks/README.md).
_NOISE = 0.7


@dataclass(frozen=True, slots=True)
class Bank:
    """Real vectors, and what is near to each.

    Attributes:
        vectors: One row per passage, float32.
        questions: One row per question, float32.
        near: The rows of the nearest neighbours of each passage, nearest first.
    """

    vectors: np.ndarray
    questions: np.ndarray
    near: np.ndarray

    @classmethod
    def of(cls, vectors: np.ndarray, questions: np.ndarray) -> "Bank":
        """Make a bank of real vectors, without duplicates.

        Raises:
            UsageError: They are too few to tell anything from.
        """
        rows = np.unique(np.asarray(vectors, np.float16), axis=0, return_index=True)[1]
        vectors = np.ascontiguousarray(vectors[np.sort(rows)], np.float32)
        if len(vectors) < FEWEST or not len(questions):
            raise UsageError(
                f"{len(vectors):,} different passages: at least {FEWEST} and some thousand at best are needed to tell "
                "how vectors are spread. Give more text."
            )
        return cls(vectors, np.ascontiguousarray(questions, np.float32), _near(vectors))

    def save(self, path: Path) -> None:
        """Write it to a file."""
        with path.open("wb") as file:
            np.savez(file, vectors=self.vectors, questions=self.questions, near=self.near)

    @classmethod
    def load(cls, path: Path) -> "Bank":
        """Read it."""
        with np.load(path, allow_pickle=False) as arrays:
            return cls(arrays["vectors"], arrays["questions"], arrays["near"])


def _near(vectors: np.ndarray) -> np.ndarray:
    """The nearest others of each, by distance: inner products alone would favour long vectors."""
    squares = np.einsum("ij,ij->i", vectors, vectors)
    count = min(NEIGHBOURS, len(vectors) - 1)
    found = np.empty((len(vectors), count), np.int32)
    for start in range(0, len(vectors), 1024):
        scores = 2 * vectors[start : start + 1024] @ vectors.T - squares
        rows = np.arange(len(scores))
        scores[rows, start + rows] = -np.inf
        best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
        found[start : start + 1024] = np.take_along_axis(best, order, axis=1)
    return found


def blocks(bank: Bank, count: int, seed: int = 0, first: int = 0) -> Iterator[np.ndarray]:
    """Make `count` vectors, block by block, beginning at block `first`.

    The same bank and seed give the same vectors, whatever the count and wherever it begins.
    """
    numbers = range(first, -(-count // BLOCK))
    made = in_threads(lambda number: _block(bank, np.random.default_rng([seed, number])), numbers)
    for number, block in zip(numbers, made, strict=True):
        yield block[: count - number * BLOCK]


def _block(bank: Bank, generator: np.random.Generator) -> np.ndarray:
    near = bank.near
    size, width = BLOCK, near.shape[1]
    start = generator.integers(len(near), size=size)
    towards = near[start, generator.integers(width, size=size)]
    share = _FAR * generator.random((size, 1), np.float32)
    strength = _NOISE / np.sqrt(_STEPS, dtype=np.float32)
    steps = []
    for step in range(_STEPS):
        # Around the start, then around its neighbours: a few directions alone would be a flat, easy world.
        around = start
        if step % 2:
            around = near[start, generator.integers(width, size=size)]
        there = near[around, generator.integers(width, size=size)]
        other = near[there, generator.integers(width, size=size)]
        steps.append((strength * generator.standard_normal((size, 1), np.float32), there, other))
    made = np.empty((size, bank.vectors.shape[1]), np.float32)
    for first in range(0, size, _IN_CACHE):
        rows = slice(first, first + _IN_CACHE)
        noise = [(weight[rows], there[rows], other[rows]) for weight, there, other in steps]
        made[rows] = _moved(bank.vectors, start[rows], towards[rows], share[rows], noise)
    return made


def _moved(
    vectors: np.ndarray,
    start: np.ndarray,
    towards: np.ndarray,
    share: np.ndarray,
    steps: list[tuple[np.ndarray, np.ndarray, np.ndarray]],
) -> np.ndarray:
    """Vectors on their way from some of the bank to others, moved by weighted differences, as long as before."""
    begun = vectors[start]
    made = begun * (1 - share) + vectors[towards] * share
    for weight, there, other in steps:
        made += weight * (vectors[there] - vectors[other])
    lengths = np.linalg.norm(begun, axis=1) / np.maximum(np.linalg.norm(made, axis=1), 1e-9)
    return np.asarray(made * lengths[:, None], np.float32)
