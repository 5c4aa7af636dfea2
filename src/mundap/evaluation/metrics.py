"""MRR, nDCG, recall, precision and average precision of one ranking, as trec_eval defines them; all from 0 to 1."""

import math
from collections.abc import Mapping, Sequence


def ranking_metrics(ranked: list[str], qrels: Mapping[str, int], level: int, cuts: Sequence[int]) -> dict[str, float]:
    """Every metric of one ranking, by name.

    Args:
        ranked: Documents, best first.
        qrels: The grade of each judged document.
        level: The lowest grade that counts as relevant; nDCG uses the grades themselves.
        cuts: The k of nDCG@k and the others.
    """
    relevant = {document for document, grade in qrels.items() if grade >= level}
    values: dict[str, float] = {}
    for k in cuts:
        values[f"ndcg@{k}"] = _ndcg(ranked[:k], qrels, k)
        values[f"mrr@{k}"] = _reciprocal_rank(ranked[:k], relevant)
        values[f"recall@{k}"] = _recall(ranked[:k], relevant)
        values[f"precision@{k}"] = len(relevant.intersection(ranked[:k])) / k
    values["map"] = _average_precision(ranked, relevant)
    return values


def first_rank(ranked: Sequence[str], relevant: set[str]) -> int:
    """The rank of the first relevant document, 0 if there is none."""
    for rank, name in enumerate(ranked, 1):
        if name in relevant:
            return rank
    return 0


def _ndcg(ranked: Sequence[str], qrels: Mapping[str, int], k: int) -> float:
    """Discounted gain of a ranking, as a share of the best possible; a grade below 0 counts as 0."""
    ideal = _discounted(sorted((grade for grade in qrels.values() if grade > 0), reverse=True)[:k])
    if not ideal:
        return 0.0
    return _discounted([max(0, qrels.get(name, 0)) for name in ranked]) / ideal


def _discounted(grades: Sequence[int]) -> float:
    return sum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades, 1))


def _reciprocal_rank(ranked: Sequence[str], relevant: set[str]) -> float:
    rank = first_rank(ranked, relevant)
    if not rank:
        return 0.0
    return 1 / rank


def _recall(ranked: Sequence[str], relevant: set[str]) -> float:
    """The share of the relevant documents that was found."""
    if not relevant:
        return 0.0
    return len(relevant.intersection(ranked)) / len(relevant)


def _average_precision(ranked: Sequence[str], relevant: set[str]) -> float:
    """Precision at each relevant document, averaged over all that are relevant."""
    if not relevant:
        return 0.0
    found, total = 0, 0.0
    for rank, name in enumerate(ranked, 1):
        if name in relevant:
            found += 1
            total += found / rank
    return total / len(relevant)
