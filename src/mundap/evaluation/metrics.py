"""MRR, nDCG, recall, precision and average precision of one ranking, as trec_eval defines them; all from 0 to 1."""

import math
from collections.abc import Mapping, Sequence


def gains(ranked: Sequence[str], judged: Mapping[str, int]) -> list[int]:
    """The relevance of each ranked document; what is not judged, or judged below 0, is 0."""
    return [max(0, judged.get(name, 0)) for name in ranked]


def ndcg(ranked: Sequence[str], judged: Mapping[str, int], k: int) -> float:
    """Discounted gain of the top k, as a share of the best possible."""
    ideal = _discounted(sorted((grade for grade in judged.values() if grade > 0), reverse=True)[:k])
    return _discounted(gains(ranked[:k], judged)) / ideal if ideal else 0.0


def _discounted(grades: Sequence[int]) -> float:
    return sum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades, 1))


def reciprocal_rank(ranked: Sequence[str], relevant: set[str], k: int) -> float:
    """1 / the rank of the first relevant document, if that is within k."""
    rank = first(ranked[:k], relevant)
    return 1 / rank if rank else 0.0


def recall(ranked: Sequence[str], relevant: set[str], k: int) -> float:
    """The share of the relevant documents that is in the top k."""
    return len(relevant.intersection(ranked[:k])) / len(relevant) if relevant else 0.0


def precision(ranked: Sequence[str], relevant: set[str], k: int) -> float:
    """The share of the top k that is relevant."""
    return len(relevant.intersection(ranked[:k])) / k


def average_precision(ranked: Sequence[str], relevant: set[str]) -> float:
    """Precision at each relevant document, averaged over all that are relevant."""
    found, total = 0, 0.0
    for rank, name in enumerate(ranked, 1):
        if name in relevant:
            found += 1
            total += found / rank
    return total / len(relevant) if relevant else 0.0


def first(ranked: Sequence[str], relevant: set[str]) -> int:
    """The rank of the first relevant document, 0 if there is none."""
    return next((rank for rank, name in enumerate(ranked, 1) if name in relevant), 0)
