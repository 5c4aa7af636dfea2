"""The lists of an approximate index: where their centres are, and which list a vector goes to.

Comparing every vector with every centre would take most of a build: the lists of 21 million vectors are tens of
thousands. So the centres stand in groups, and a vector is compared with the centres of its nearest groups only.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mundap.machine import in_threads

_ONE_GROUP = 1000  # lists, up to which comparing with all of them is quick
_LOOKED_INTO = 10  # groups
_ROUNDS = 10  # of k-means, in each group
_POLISHED = 2  # rounds over all lists after that: a vector near the edge of a group may belong to another
_BLOCK = 16_384


class Lists:
    """The centres of all lists, group by group.

    Attributes:
        centres: One row a list, of length 1.
    """

    def __init__(self, centres: np.ndarray, bounds: np.ndarray) -> None:
        self.centres = centres
        self._bounds = bounds  # where each group begins, and the end
        self._settle()

    @classmethod
    def train(cls, sample: np.ndarray, count: int) -> "Lists":
        """Train `count` centres on a sample of stored vectors, at least as many."""
        groups = 1
        if count > _ONE_GROUP:
            groups = round(math.sqrt(_LOOKED_INTO * count))
        heads = _means(sample, groups, 256)
        members = _members(_by_blocks(lambda vectors: (vectors @ heads.T).argmax(axis=1), sample), groups)
        counts = _shared_out(count, np.array([len(rows) for rows in members]))
        parts = in_threads(
            lambda group: _means(sample[members[group]], int(counts[group]), len(sample)), np.flatnonzero(counts)
        )
        bounds = np.concatenate([[0], np.cumsum(counts[counts > 0])])
        lists = cls(np.concatenate(list(parts)), bounds)
        for _ in range(_POLISHED):
            lists._polish(sample)
        return lists

    def of(self, vectors: np.ndarray) -> np.ndarray:
        """The list of each vector (float32): nearly always the one with the nearest centre."""
        best = np.full(len(vectors), -np.inf, np.float32)
        found = np.zeros(len(vectors), np.int64)
        for group, rows in enumerate(self._candidates(vectors)):
            if not len(rows):
                continue
            first, last = self._bounds[group : group + 2]
            scores = vectors[rows] @ self.centres[first:last].T
            nearest = scores.argmax(axis=1)
            score = scores[np.arange(len(rows)), nearest]
            better = score > best[rows]
            best[rows[better]] = score[better]
            found[rows[better]] = first + nearest[better]
        return found

    def _candidates(self, vectors: np.ndarray) -> list[np.ndarray]:
        """For each group the rows of the vectors that have it among their nearest."""
        groups = len(self._heads)
        if groups <= _LOOKED_INTO:
            return [np.arange(len(vectors))] * groups
        near = np.argpartition(vectors @ -self._heads.T, _LOOKED_INTO - 1, axis=1)[:, :_LOOKED_INTO]
        return [places // _LOOKED_INTO for places in _members(near.ravel(), groups)]

    def _polish(self, sample: np.ndarray) -> None:
        """A round of k-means over all lists; one that nothing is nearest to stays where it is."""
        members = _members(_by_blocks(self.of, sample), len(self.centres))
        for number, rows in enumerate(members):
            if len(rows):
                self.centres[number] = _direction(sample[rows].astype(np.float32).sum(axis=0))
        self._settle()

    def _settle(self) -> None:
        """Put the head of each group in its middle."""
        sums = np.add.reduceat(self.centres, self._bounds[:-1], axis=0)
        self._heads = np.stack([_direction(row) for row in sums])


def _by_blocks(labels: Callable[[np.ndarray], np.ndarray], sample: np.ndarray) -> np.ndarray:
    """What a function says of each vector, which it gets block by block, as float32."""
    starts = range(0, len(sample), _BLOCK)
    return np.concatenate(
        list(in_threads(lambda start: labels(sample[start : start + _BLOCK].astype(np.float32)), starts))
    )


def _direction(vector: np.ndarray) -> Any:
    return vector / max(float(np.linalg.norm(vector)), 1e-9)


def _means(vectors: np.ndarray, count: int, most: int) -> np.ndarray:
    """The centres of that many clusters, of length 1, by k-means on at most so many vectors a cluster."""
    import faiss

    means = faiss.Kmeans(
        vectors.shape[1],
        count,
        niter=_ROUNDS,
        spherical=True,
        max_points_per_centroid=most,
        min_points_per_centroid=1,
    )
    if len(vectors) > count * most:
        vectors = vectors[np.sort(np.random.default_rng(0).choice(len(vectors), count * most, replace=False))]
    means.train(np.ascontiguousarray(vectors, np.float32))
    return np.asarray(means.centroids)


def _members(labels: np.ndarray, count: int) -> list[np.ndarray]:
    """For each label up to `count` the places where it stands."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.searchsorted(labels[order], np.arange(1, count)))


def _shared_out(count: int, members: np.ndarray) -> np.ndarray:
    """How many lists each group gets: by its members, at least one if it has any, never more than it has."""
    exact = members * (count / members.sum())
    shares = np.minimum(np.maximum(exact.astype(int), members > 0), members)
    while (missing := count - shares.sum()) != 0:
        if missing > 0:
            open_to = np.where(shares < members, exact - shares, -np.inf)
        else:
            open_to = np.where(shares > 1, shares - exact, -np.inf)
        chosen = np.argsort(-open_to)[: abs(missing)]
        shares[chosen[np.isfinite(open_to[chosen])]] += np.sign(missing)
    return np.asarray(shares)
