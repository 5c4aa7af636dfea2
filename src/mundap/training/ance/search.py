"""The nearest passages of many questions, out of vectors in shards on disk."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mundap.index.sizes import TRAINED_ON, Effort, codes_for, effort_for, lists_for

EXACT_UP_TO = 300_000
"""Up to here every question is compared with every passage: training questions come in thousands, which a matrix
product serves together."""

_BLOCK = 8192
_QUESTIONS = 2048
_CHUNKS = 4  # of a document, at most, among the nearest


@dataclass(frozen=True, slots=True)
class ShardVectors:
    """The vectors of a shard, on disk.

    Attributes:
        path: float32 rows, as numpy writes them.
        owners: The passage number of each row, or that of its document's first passage; ascending.
    """

    path: Path
    owners: np.ndarray

    def open(self) -> np.ndarray:
        """The rows, memory-mapped."""
        return np.asarray(np.load(self.path, mmap_mode="r"))


def nearest(
    questions: np.ndarray, shards: Sequence[ShardVectors], depth: int, kind: str, device: Any, similarity: str = "dot"
) -> tuple[np.ndarray, np.ndarray]:
    """(owners, scores) of the best `depth` for each question, best first; where there are fewer, -1 and -inf.

    Args:
        questions: float32 rows.
        shards: What to search.
        depth: How many.
        kind: `exact`, `ivf`, or `auto` by size.
        device: Where exact search computes.
        similarity: What the inner product of the vectors stands for (`as_inner_product`).
    """
    rows = sum(len(shard.owners) for shard in shards)
    if kind == "ivf" or (kind == "auto" and rows > EXACT_UP_TO):
        return _approximate(questions, shards, depth, rows, similarity == "l2")
    return exact([(shard.open(), shard.owners) for shard in shards], questions, depth, device)


def exact(
    parts: Sequence[tuple[np.ndarray, np.ndarray]], questions: np.ndarray, depth: int, device: Any
) -> tuple[np.ndarray, np.ndarray]:
    """(owners, scores) of the best `depth` for each question, by comparing it with every vector.

    Args:
        parts: Vectors, and the owner of each: ascending, and no owner in two parts. An owner's best vector counts.
        questions: float32 rows.
        depth: How many.
        device: Where to compute.
    """
    owners = np.full((len(questions), depth), -1, np.int64)
    scores = np.full((len(questions), depth), -np.inf, np.float32)
    for start in range(0, len(questions), _QUESTIONS):
        some = slice(start, start + _QUESTIONS)
        owners[some], scores[some] = _exact(parts, questions[some], depth, device)
    return owners, scores


def _exact(
    parts: Sequence[tuple[np.ndarray, np.ndarray]], questions: np.ndarray, depth: int, device: Any
) -> tuple[np.ndarray, np.ndarray]:
    asked = torch.from_numpy(questions).to(device)
    best = torch.full((len(asked), depth), -torch.inf, device=device)
    whose = torch.full((len(asked), depth), -1, dtype=torch.long, device=device)
    for vectors, vector_owners in parts:
        for start, stop in _blocks(vector_owners):
            scores = asked @ torch.from_numpy(np.array(vectors[start:stop])).to(device).T
            names, places = np.unique(vector_owners[start:stop], return_inverse=True)
            if len(names) < stop - start:  # the best chunk of each document counts
                one = scores.new_full((len(asked), len(names)), -torch.inf)
                places = torch.from_numpy(places).to(device).expand(len(asked), -1)
                scores = one.scatter_reduce(1, places, scores, "amax")
            owners = torch.from_numpy(names).to(device).expand(len(asked), -1)
            every, who = torch.cat([best, scores], 1), torch.cat([whose, owners], 1)
            best, chosen = every.topk(depth, dim=1)
            whose = who.gather(1, chosen)
    return whose.cpu().numpy(), best.cpu().numpy()


def _blocks(owners: np.ndarray) -> list[tuple[int, int]]:
    """Rows in blocks that part no document."""
    blocks, start = [], 0
    while start < len(owners):
        stop = min(start + _BLOCK, len(owners))
        stop = int(np.searchsorted(owners, owners[stop - 1], "right"))
        blocks.append((start, stop))
        start = stop
    return blocks


def _approximate(
    questions: np.ndarray, shards: Sequence[ShardVectors], depth: int, rows: int, l2: bool
) -> tuple[np.ndarray, np.ndarray]:
    """By codes in memory; the scores are then those of the vectors on disk."""
    import faiss

    maps = [shard.open() for shard in shards]
    # A code cannot hold the squared length that makes an inner product of L2: the codes are of what is before it.
    size, metric, asked = questions.shape[1], faiss.METRIC_INNER_PRODUCT, questions
    if l2:
        size, metric, asked = size - 1, faiss.METRIC_L2, questions[:, :-1] / 2
    index, effort = _coded(maps, rows, size, metric)
    fetch = effort.fetch(depth)
    if _shares(shards):
        fetch *= _CHUNKS
    fetch = min(rows, fetch)
    owners = np.full((len(questions), depth), -1, np.int64)
    scores = np.full((len(questions), depth), -np.inf, np.float32)
    for row, question in enumerate(questions):
        _, found = index.search(np.ascontiguousarray(asked[row : row + 1]), fetch)
        best = _rescored(question, np.sort(found[0][found[0] >= 0]), shards, maps)
        ranked = sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))[:depth]
        owners[row, : len(ranked)] = [owner for owner, _ in ranked]
        scores[row, : len(ranked)] = [score for _, score in ranked]
    return owners, scores


def _coded(maps: Sequence[np.ndarray], rows: int, size: int, metric: int) -> tuple[Any, Effort]:
    """The codes of the first `size` dimensions, by the table for all indexes, and how much of them to search."""
    import faiss

    lists = max(1, min(lists_for(rows), rows // TRAINED_ON))
    index: Any = faiss.index_factory(size, f"IVF{lists},{codes_for(size)}", metric)
    share = min(1.0, TRAINED_ON * lists / rows)
    index.train(np.concatenate([one[:: max(1, int(1 / share)), :size] for one in maps]))
    for one in maps:
        for start in range(0, len(one), _BLOCK):
            index.add(np.ascontiguousarray(one[start : start + _BLOCK, :size]))
    effort = effort_for(rows, lists, isinstance(index, faiss.IndexIVFRaBitQFastScan))
    index.nprobe = effort.probes
    return index, effort


def _rescored(
    question: np.ndarray, places: np.ndarray, shards: Sequence[ShardVectors], maps: Sequence[np.ndarray]
) -> dict[int, float]:
    """The exact score of each owner of these rows, counted through all shards: that of its best row."""
    firsts = np.cumsum([0, *map(len, maps)])
    which = np.searchsorted(firsts, places, "right") - 1
    best: dict[int, float] = {}
    for number in np.unique(which).tolist():
        own = places[which == number] - firsts[number]
        for owner, score in zip(shards[number].owners[own].tolist(), maps[number][own] @ question, strict=True):
            best[owner] = max(float(score), best.get(owner, -math.inf))
    return best


def _shares(shards: Sequence[ShardVectors]) -> bool:
    """Whether some document has several vectors."""
    return any(len(np.unique(shard.owners)) < len(shard.owners) for shard in shards)
