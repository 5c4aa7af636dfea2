"""Which vector index for how many passages, and how much of it is searched: the one table, by measurement.

`benchmarks/README.md` has the figures behind it. `tuning.py` finds the parameters of one index on its own passages.
"""

import math
from typing import NamedTuple

import numpy as np

EXACT_UP_TO = 100_000
"""Up to here a scan takes under 7 ms on one core and misses nothing, where IVF would miss one hit in twenty."""


EIGHT_BIT_FROM = 2_000_000
"""From here on there is an eight-bit copy of the vectors: the vectors that are re-ranked may not fit into memory."""

BATCH = 64
"""Questions that are searched together."""


class _Size(NamedTuple):
    """A row of the table.

    Attributes:
        passages: How many it was measured at.
        probes: How many of the lists a question looks into.
        candidates: How many are re-ranked by their full vectors for each hit that is wanted.
    """

    passages: int
    probes: int
    candidates: int


# Chosen for a recall@100 of .96 at the least CPU time, with room for text that is harder to search. About the same
# number of lists does at any size. Codes tell neighbours apart the worse the more of them there are: at 21 million 64
# lists find .852 with 4 candidates a hit, .939 with 8, .970 with 16.
SIZES = (
    _Size(100_000, 126, 4),
    _Size(400_000, 126, 4),
    _Size(1_000_000, 96, 4),
    _Size(21_000_000, 64, 12),
)

# Times the square root of the passages. At a million .965 of the hits take .19 ms in a batch and .60 ms alone with 2
# (32 lists probed), .970 take .27 and 1.05 with 4 (64), .972 take .34 and 2.16 with 8 (128): the more lists there are,
# the longer it takes to find the nearest.
LISTS = 2.0
MOST_LISTS = 65_536
TRAINED_ON = 40  # vectors a list
MOST_TRAINED_ON = 1_000_000  # in all: .8 GB

_ONE_BIT = 16  # candidates
_LARGE_K = 500  # beyond this half the candidates do: the tail of a long list decides nothing


def codes_for(dimension: int) -> str:
    """FAISS's name of the codes of an approximate index.

    Four bits for every two dimensions, scanned in registers. At 400,000 passages and 5 % of the lists they find .964 of
    the hits with 4 candidates a hit in .73 ms; one bit a dimension (RaBitQ) needs 16 candidates for .963 and 1.9 ms,
    two bits find .963 with 4 in 1.5 ms, four bits took the longest.
    """
    if dimension % 2 == 0:
        return f"PQ{dimension // 2}x4fs"
    return "RaBitQfs"


class Effort(NamedTuple):
    """How much of an index is searched.

    Attributes:
        probes: Lists looked into.
        candidates: Re-ranked for each hit wanted.
    """

    probes: int
    candidates: int

    def fetch(self, k: int) -> int:
        """How many candidates a search for the best k takes."""
        return k * (self.candidates if k <= _LARGE_K else max(1, self.candidates // 2))


def read_for(k: int) -> int:
    """How many vectors are read as they are stored where the eight-bit copy has ranked the candidates.

    At a million 110 have all of the best 100 that the candidates have; the copy alone would lose .9 points.
    """
    return k + max(16, k // 8)


def lists_for(passages: int) -> int:
    """How many lists an index of this size has."""
    return int(max(1, min(LISTS * math.sqrt(passages), MOST_LISTS)))


def effort_for(passages: int, lists: int, one_bit: bool = False) -> Effort:
    """What the table says for this size; between its rows on a straight line over the logarithm of the passages.

    Args:
        passages: How many the index has.
        lists: How many lists.
        one_bit: Its codes have one bit a dimension, and need more candidates for the same recall.
    """
    sizes = np.log([row.passages for row in SIZES])
    at = math.log(max(passages, 1))
    probes = round(float(np.interp(at, sizes, [row.probes for row in SIZES])))
    candidates = math.ceil(float(np.interp(at, sizes, [row.candidates for row in SIZES])))
    if one_bit:
        candidates = max(candidates, _ONE_BIT)
    return Effort(min(lists, probes), candidates)
