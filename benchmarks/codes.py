"""Kinds of codes for IVF, lists probed and candidates: where the table in `mundap/index/sizes.py` comes from.

One thread, CPU time of FAISS alone for one question at a time. Recall is the share of the true best 100 among the
candidates, which re-ranking by the full vectors then puts first. All kinds share one set of lists.

    mundap bench scale --passages 400k -o OUT
    python benchmarks/codes.py OUT/400000
"""

import argparse
import time
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from common import report
from mundap.bench.work import corpus_of
from mundap.index.sizes import TRAINED_ON, lists_for

K = 100
KINDS = ("RaBitQfs", "RaBitQfs2", "RaBitQfs4", "PQ192x4fs", "PQ96x4fs", "Flat")
SHARES = (0.01, 0.02, 0.05, 0.1, 0.25)
CANDIDATES = (1, 2, 3, 4, 8, 16)


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="one size of `mundap bench scale`, of 384 dimensions")
    parser.add_argument("--kinds", nargs="*", default=KINDS)
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(1)
    with np.load(arguments.folder.parent / "bank.npz", allow_pickle=False) as bank:
        questions, dimension = bank["questions"], bank["vectors"].shape[1]
    truth = [set(row) for row in np.load(arguments.folder / "exact.npy", allow_pickle=False).tolist()]
    questions = questions[: len(truth)]
    corpus = corpus_of(arguments.folder, dimension)
    lists = lists_for(len(corpus))
    numbers = np.sort(np.random.default_rng(0).choice(len(corpus), min(len(corpus), TRAINED_ON * lists), replace=False))
    sample = corpus.vectors(numbers.astype(np.uint64))
    means = faiss.Kmeans(dimension, lists, niter=10, spherical=True, max_points_per_centroid=TRAINED_ON)
    means.train(sample)
    figures: dict[str, Any] = {"passages": len(corpus), "lists": lists}
    for kind in arguments.kinds:
        centres = faiss.IndexFlatIP(dimension)
        centres.add(means.centroids)
        index = faiss.index_factory(dimension, f"IVF{lists},{kind}", faiss.METRIC_INNER_PRODUCT)
        index.quantizer, index.own_fields, index.quantizer_trains_alone = centres, False, 0
        index.train(sample[:20_000])
        for segment in corpus.segments:
            for start in range(0, len(segment), 16_384):
                index.add(np.asarray(segment.vectors[start : start + 16_384], np.float32))
        figures[kind] = {f"{share:.0%}": measure(index, share, questions, truth) for share in SHARES}
    report(f"codes-{len(corpus)}", figures)


def measure(index: Any, share: float, questions: np.ndarray, truth: list[set[int]]) -> dict[str, float]:
    """Recall by candidates a hit, and CPU milliseconds with 4 of them."""
    index.nprobe = max(1, int(index.nlist * share))
    most = index.search(questions, K * CANDIDATES[-1])[1].tolist()
    result = {
        f"x{factor}": round(
            float(np.mean([len(set(row[: K * factor]) & want) / K for row, want in zip(most, truth, strict=True)])), 3
        )
        for factor in CANDIDATES
    }
    started = time.process_time()
    for question in questions:
        index.search(question[None], 4 * K)
    return {**result, "cpu_ms": round(1000 * (time.process_time() - started) / len(questions), 2)}


if __name__ == "__main__":
    main()
