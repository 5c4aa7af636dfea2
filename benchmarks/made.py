"""Are made vectors as hard to search as real ones? Recall by lists probed, and by 1-bit codes, on both.

The bank of `mundap bench scale` is cut: a part of it gives the statistics, as many vectors as the whole bank has are
made after that part, and the same real questions are asked of these and of the whole bank.

    python benchmarks/made.py OUT/bank.npz
"""

import argparse
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from common import report
from mundap.bench.vectors import Bank, blocks

SHARES = (0.01, 0.02, 0.05, 0.1, 0.25)
QUESTIONS = 300
K = 100


def curves(vectors: np.ndarray, questions: np.ndarray) -> dict[str, list[float]]:
    """Recall@100 of IVF-Flat by the share of the lists, and of all 1-bit codes with 1, 2, 4, 8 candidates a hit."""
    truth = [set(row) for row in np.argpartition(-(questions @ vectors.T), K, axis=1)[:, :K].tolist()]

    def recall(rows: np.ndarray) -> float:
        found = [len(set(row) & want) / K for row, want in zip(rows.tolist(), truth, strict=True)]
        return round(float(np.mean(found)), 3)

    lists = int(4 * len(vectors) ** 0.5)
    ivf = faiss.index_factory(vectors.shape[1], f"IVF{lists},Flat", faiss.METRIC_INNER_PRODUCT)
    ivf.train(vectors)
    ivf.add(vectors)
    probing = []
    for share in SHARES:
        ivf.nprobe = max(1, int(share * lists))
        probing.append(recall(ivf.search(questions, K)[1]))
    codes = faiss.IndexRaBitQFastScan(vectors.shape[1], faiss.METRIC_INNER_PRODUCT)
    codes.train(vectors)
    codes.add(vectors)
    best = codes.search(questions, 8 * K)[1]
    return {"probing": probing, "codes": [recall(best[:, : K * factor]) for factor in (1, 2, 4, 8)]}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bank", type=Path)
    arguments = parser.parse_args()
    whole = Bank.load(arguments.bank)
    questions = whole.questions[:QUESTIONS]
    order = np.random.default_rng(0).permutation(len(whole.vectors))
    figures: dict[str, Any] = {"vectors": len(order), "real": curves(whole.vectors, questions)}
    for part in (2, 8):
        bank = Bank.of(whole.vectors[order[: len(order) // part]], questions)
        made = np.concatenate(list(blocks(bank, len(order), seed=1)))
        figures[f"made after 1/{part} of them"] = curves(made, questions)
    report("made", figures)


if __name__ == "__main__":
    main()
