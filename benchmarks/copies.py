"""How many vectors must be read where a coarser copy has ranked the candidates, and how many pages of it are touched.

Where `read_for` and the eight bits of `mundap/index/eightbit.py` come from. Recall@100 if so many of the candidates,
the best by a copy with so many bits a dimension, are re-ranked by their vectors.

    mundap bench scale --passages 1M -o OUT
    python benchmarks/copies.py OUT/1000000 --candidates 1200
"""

import argparse
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from common import report
from mundap.bench.work import corpus_of, entry_of
from mundap.index import dense

READ = (100, 110, 120, 150, 200, 300)
PAGE = 4096
KINDS = {"8 bits": "QT_8bit", "6 bits": "QT_6bit", "4 bits": "QT_4bit"}


def pages(places: np.ndarray, width: int) -> int:
    """On how many pages rows of so many bytes are."""
    return len(np.unique(np.concatenate([places * width // PAGE, (places * width + width - 1) // PAGE])))


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="one size of `mundap bench scale`")
    parser.add_argument("--candidates", type=int, default=1200)
    arguments = parser.parse_args()
    with np.load(arguments.folder.parent / "bank.npz", allow_pickle=False) as bank:
        dimension = bank["vectors"].shape[1]
        truth = np.load(arguments.folder / "exact.npy", allow_pickle=False)
        questions = bank["questions"][: len(truth)]
    corpus = corpus_of(arguments.folder, dimension)
    index = dense.Dense(arguments.folder, corpus, entry_of(arguments.folder, len(corpus)))
    assert index.effort
    found = index.candidates(questions, arguments.candidates)
    stored = [corpus.vectors(row.astype(np.uint64)) for row in found]
    sample = dense._sample(corpus, 65_536).astype(np.float32)

    def recall(scores: list[np.ndarray], read: int) -> float:
        kept = [row[np.argsort(-score)[:read]] for row, score in zip(found, scores, strict=True)]
        return round(float(np.mean([np.isin(want, row).mean() for row, want in zip(kept, truth, strict=True)])), 4)

    exact = [rows @ question for rows, question in zip(stored, questions, strict=True)]
    figures: dict[str, Any] = {"passages": len(corpus), "all candidates": recall(exact, arguments.candidates)}
    for name, kind in KINDS.items():
        quantizer = faiss.ScalarQuantizer(dimension, getattr(faiss.ScalarQuantizer, kind))
        quantizer.train(sample)
        copies = [quantizer.decode(quantizer.compute_codes(rows)) for rows in stored]
        scores = [rows @ question for rows, question in zip(copies, questions, strict=True)]
        figures[name] = {read: recall(scores, read) for read in READ}
    lists: Any = faiss.read_index(str(arguments.folder / "dense.faiss"))
    order = [
        faiss.rev_swig_ptr(lists.invlists.get_ids(at), lists.invlists.list_size(at)).copy()
        for at in range(lists.nlist)
        if lists.invlists.list_size(at)
    ]
    places = np.empty(len(corpus), np.int64)
    places[np.concatenate(order)] = np.arange(len(corpus))
    figures["pages of the copy, by number"] = float(np.mean([pages(row, dimension) for row in found]))
    figures["pages of the copy, by list"] = float(np.mean([pages(places[row], dimension) for row in found]))
    report(f"copies-{len(corpus)}", figures)


if __name__ == "__main__":
    main()
