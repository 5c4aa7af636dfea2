"""Kinds of codes for IVF, lists, probes and candidates: where the table in `mundap/index/sizes.py` comes from.

One thread, CPU time of FAISS alone for a question, one at a time and in batches of 64. Recall is the share of the true
best 100 among the candidates, which re-ranking by the full vectors then puts first.

    mundap bench scale --passages 1M -o OUT
    python benchmarks/codes.py OUT/1000000 --lists 4 8 16
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import faiss
import numpy as np

from common import report
from mundap.bench.work import corpus_of
from mundap.index import dense

K = 100
KINDS = ("RaBitQfs", "RaBitQfs2", "PQ192x4fs", "PQ96x4fs", "Flat")
PROBES = (32, 64, 128, 256, 512)
CANDIDATES = (1, 2, 3, 4, 6, 8, 16, 32)
BATCH = 64


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="one size of `mundap bench scale`, of 384 dimensions")
    parser.add_argument("--kinds", nargs="*", default=KINDS)
    parser.add_argument("--lists", nargs="*", type=float, default=(4.0,), help="times the square root of the passages")
    parser.add_argument("--probes", nargs="*", type=int, default=PROBES)
    parser.add_argument("--built", action="store_true", help="measure the index that `mundap bench scale` built")
    arguments = parser.parse_args()
    faiss.cvar.distance_compute_blas_threshold = 20
    with np.load(arguments.folder.parent / "bank.npz", allow_pickle=False) as bank:
        questions, dimension = bank["questions"], bank["vectors"].shape[1]
    truth = [set(row) for row in np.load(arguments.folder / "exact.npy", allow_pickle=False).tolist()]
    corpus = corpus_of(arguments.folder, dimension)
    figures: dict[str, Any] = {"passages": len(corpus)}
    if arguments.built:
        index = faiss.read_index(str(arguments.folder / "dense.faiss"))
        found = {probes: measure(index, probes, questions[: len(truth)], truth) for probes in arguments.probes}
        report(f"codes-{len(corpus)}", {**figures, f"{index.nlist} lists, as built": found})
        return
    for factor in arguments.lists:
        for kind in arguments.kinds:
            index, seconds = built(corpus, int(factor * len(corpus) ** 0.5), kind)
            found = {probes: measure(index, probes, questions[: len(truth)], truth) for probes in arguments.probes}
            figures[f"{index.nlist} lists, {kind}"] = {"build_cpu_seconds": round(seconds, 1), **found}
            report(f"codes-{len(corpus)}", figures)


def built(corpus: Any, lists: int, kind: str) -> tuple[Any, float]:
    """An index that the product made, but for its parameters, and the CPU seconds it took."""
    dense.lists_for = lambda _: lists
    dense.codes_for = lambda _: kind
    with tempfile.TemporaryDirectory(dir=corpus.segments[0].folder.parent.parent) as scratch:
        started = time.process_time()
        dense.build(corpus, "ivf", Path(scratch) / "index")
        seconds = time.process_time() - started
        return faiss.read_index(str(Path(scratch) / "index")), seconds


def measure(index: Any, probes: int, questions: np.ndarray, truth: list[set[int]]) -> dict[str, float]:
    """Recall by candidates a hit, and CPU milliseconds with 4 of them."""
    faiss.omp_set_num_threads(1)
    index.nprobe = probes
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
    alone = time.process_time() - started
    started = time.process_time()
    for start in range(0, len(questions), BATCH):
        index.search(questions[start : start + BATCH], 4 * K)
    together = time.process_time() - started
    return {
        **result,
        "one_cpu_ms": round(1000 * alone / len(questions), 2),
        "batch_cpu_ms": round(1000 * together / len(questions), 2),
    }


if __name__ == "__main__":
    main()
