"""Exact, IVF and HNSW over the real vectors of an index: recall, questions per second, size.

Recall is against exact search with the stored vectors; questions are real sentences encoded by the index's own
model. `codes.py` compares kinds of codes, `vectors.py` other people's indexes, both on made vectors of any number.

    python benchmarks/dense.py INDEX [--probed 0.05 0.1 0.25] [--candidates 4]
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
from mundap.index.sizes import lists_for

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
    parser.add_argument("--probed", type=float, nargs="*", default=[0.05, 0.1, 0.25])
    parser.add_argument("--candidates", type=int, default=4, help="re-ranked for each hit wanted")
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
            file, lists = FileEntry(kind, path.stat().st_size, ""), lists_for(len(index))
            for probed in arguments.probed if kind == "ivf" else [0.0]:
                effort = max(1, round(lists * probed)), arguments.candidates
                entry = DenseEntry(file, kind, index.manifest.next_number, len(index), *effort)
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
