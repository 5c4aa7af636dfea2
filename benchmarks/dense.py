"""Exact, IVF-RaBitQ and HNSW over the real vectors of an index: recall, questions per second, size.

Recall is against exact search with the stored vectors; questions are real sentences encoded by the index's own
model. This is where the table of sizes in `mundap/index/dense.py` comes from.

    python benchmarks/dense.py INDEX [--probed 0.1 0.25 0.4]
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from common import QUESTIONS, report
from mundap import Index
from mundap.index import dense
from mundap.index.manifest import DenseEntry, FileEntry

K = 100


def measure(search: dense.Dense, vectors: np.ndarray, truth: list[set[int]]) -> dict[str, Any]:
    """Recall@100 and questions per second, one at a time."""
    search.search(vectors[:5], K)
    started = time.perf_counter()
    found = [search.search(vector[None], K)[0][0] for vector in vectors]
    seconds = time.perf_counter() - started
    recall = np.mean([len(set(row.tolist()) & want) / len(want) for row, want in zip(found, truth, strict=True)])
    return {"recall@100": round(float(recall), 4), "questions_per_second": round(len(vectors) / seconds, 1)}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("index")
    parser.add_argument("--probed", type=float, nargs="*", default=[0.1, 0.25, 0.4])
    parser.add_argument("--kinds", nargs="*", default=["ivf", "hnsw"])
    arguments = parser.parse_args()
    index = Index(arguments.index)
    assert index.encoder is not None
    questions = QUESTIONS.read_text("utf-8").splitlines()[:200]
    vectors = index.encoder.encode_questions(questions)
    corpus = index._corpus
    exact = dense.Dense(index.path, corpus, None)
    truth = [set(numbers.tolist()) for numbers, _ in exact.search(vectors, K)]
    figures: dict[str, Any] = {"passages": len(index), "exact": measure(exact, vectors, truth)}
    with TemporaryDirectory() as scratch:
        for kind in arguments.kinds:
            path = Path(scratch) / kind
            started = time.perf_counter()
            dense.build(corpus, kind, path)
            built = round(time.perf_counter() - started, 1)
            entry = DenseEntry(FileEntry(kind, path.stat().st_size, ""), kind, index.manifest.next_number, len(index))
            for probed in arguments.probed if kind == "ivf" else [0.0]:
                dense._PROBED = probed
                name = f"{kind} {probed:.0%} of the lists" if kind == "ivf" else kind
                search = dense.Dense(Path(scratch), corpus, entry)
                figures[name] = {
                    **measure(search, vectors, truth),
                    "build_seconds": built,
                    "bytes_per_vector": round(path.stat().st_size / len(index), 1),
                }
    report("dense", figures)


if __name__ == "__main__":
    main()
