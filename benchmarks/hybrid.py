"""Hybrid search, and BM25 beside bare tantivy and bm25s, at any size: questions a second by the clock and of CPU time.

Passages are halves of two real ones each (`corpus.py` makes those), so that none is there twice and words are spread as
in text; their vectors are the first ones of `mundap bench scale`. Questions are real words with the vectors of other
questions, known beforehand: what a search does is measured, not the encoder.

    mundap bench scale --passages 1M -o OUT
    python benchmarks/corpus.py -o ~/mundap-runs/bench/passages.tsv --questions ~/mundap-runs/bench/questions.txt
    python benchmarks/hybrid.py OUT/1000000 -n 800000 --build
    python benchmarks/hybrid.py OUT/1000000 -n 800000                 hybrid
    python benchmarks/hybrid.py OUT/1000000 -n 800000 --bm25          BM25, all three in one thread

The top 10 of hybrid is compared with the one where every candidate has its BM25 score computed.
"""

import argparse
import csv
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common import QUESTIONS, RUNS, read_passages, report
from mundap import Index
from mundap.bench.work import corpus_of
from mundap.encoder.runtime import Encoder
from mundap.index import fusion

K, BM25_K = 10, 100
BATCH = 64
COMPARED = 40


class Ready:
    """In the place of an encoder: vectors that are known."""

    def __init__(self, known: dict[str, np.ndarray], config: Any) -> None:
        self.known, self.config = known, config

    def encode_questions(self, questions: Sequence[str]) -> np.ndarray:
        """The vectors of these questions."""
        return np.stack([self.known[question] for question in questions])


def made(folder: Path, count: int) -> Path:
    """Build the index."""
    from mundap.engines.build import build
    from mundap.index.build import Options

    rows, vectors, out = (RUNS / f"hybrid-{count}{end}" for end in (".tsv", ".npy", ""))
    passages = read_passages(220_000)
    chance = random.Random(0)
    with rows.open("w", newline="") as file:
        table = csv.writer(file, delimiter="\t")
        table.writerow(["id", "text", "title"])
        for number in range(count):
            (title, one), (_, two) = chance.choices(passages, k=2)
            table.writerow([number, " ".join([*one.split()[:50], *two.split()[50:]]), title])
    stored = corpus_of(folder, dimension_of(folder))
    np.save(vectors, np.concatenate([segment.vectors for segment in stored.segments])[:count])
    started, used = time.perf_counter(), time.process_time()
    build([rows], str(out), Options(), fresh=True, vectors=vectors)
    wall, cpu = time.perf_counter() - started, time.process_time() - used
    report(f"hybrid-{count}-build", {"seconds": round(wall, 1), "cpu_seconds": round(cpu, 1)})
    rows.unlink()
    vectors.unlink()
    return out


def dimension_of(folder: Path) -> int:
    """Of the made vectors."""
    with np.load(folder.parent / "bank.npz", allow_pickle=False) as bank:
        return int(bank["vectors"].shape[1])


def rate(run: Callable[[str], Any], questions: Sequence[str], rounds: int = 3) -> dict[str, float]:
    """Questions a second, the median of some rounds, after one to warm up."""
    walls, cpus = [], []
    for _ in range(rounds + 1):
        started, used = time.perf_counter(), time.process_time()
        for question in questions:
            run(question)
        walls.append(len(questions) / (time.perf_counter() - started))
        cpus.append(1000 * (time.process_time() - used) / len(questions))
    return {
        "questions_a_second": round(float(np.median(walls[1:])), 1),
        "cpu_ms": round(float(np.median(cpus[1:])), 2),
    }


def hybrid(index: Index, folder: Path, questions: list[str]) -> dict[str, Any]:
    """One at a time, in batches, and whether the top 10 is that of a search that spares nothing."""
    with np.load(folder.parent / "bank.npz", allow_pickle=False) as bank:
        vectors = bank["questions"]
    known = {question: vectors[at % len(vectors)] for at, question in enumerate(questions)}
    index.encoder = Ready(known, Encoder.from_pretrained().config)  # type: ignore[assignment]
    figures: dict[str, Any] = {}
    for mode in ("bm25", "dense", "hybrid"):
        figures[mode] = rate(lambda question, mode=mode: index.search(question, K, mode), questions)
        batches = [questions[at : at + BATCH] for at in range(0, len(questions) - BATCH + 1, BATCH)]
        together = rate(lambda some, mode=mode: index.search_batch(some, K, mode), batches)  # type: ignore[arg-type]
        figures[f"{mode}, batches of {BATCH}"] = {
            "questions_a_second": round(BATCH * together["questions_a_second"], 1),
            "cpu_ms": round(together["cpu_ms"] / BATCH, 2),
        }
    found = [[hit.passage.id for hit in index.search(question, K)] for question in questions[:COMPARED]]
    spared, fusion.complete = fusion.complete, everything
    whole = [[hit.passage.id for hit in index.search(question, K)] for question in questions[:COMPARED]]
    fusion.complete = spared
    figures["same_top_10"] = f"{sum(map(list.__eq__, found, whole))} of {COMPARED}"
    return figures


def everything(join: Any, bm25: np.ndarray, missing: np.ndarray, most: float, k: int, score: Any) -> np.ndarray:
    """In the place of `fusion.complete`: the BM25 score of every candidate is computed."""
    if most > 0 and missing.any():
        bm25[missing] = score(np.flatnonzero(missing))
    return np.asarray(join(bm25))


def lexical(index: Index, questions: list[str]) -> dict[str, Any]:
    """Numbers and scores of the best 100: ours, tantivy by itself on our index, bm25s with our terms."""
    import tantivy

    ours = index._lexical
    searcher, schema = ours._searcher, ours._schema
    terms = {question: index.analyzer.question_terms(question) for question in questions}

    def bare(question: str) -> Any:
        should = [
            (tantivy.Occur.Should, tantivy.Query.term_query(schema, "body", term, "freq")) for term in terms[question]
        ]
        hits = searcher.search(tantivy.Query.boolean_query(should), BM25_K, count=False).hits
        return searcher.fast_field_values("number", [address for _, address in hits])

    figures = {
        "mundap, numbers": rate(lambda question: ours.search(question, BM25_K), questions),
        "mundap, ids": rate(lambda question: index.rank(question, BM25_K, "bm25"), questions),
        "tantivy, numbers, terms given": rate(bare, questions),
    }
    try:
        import bm25s
    except ImportError as error:
        return {**figures, "bm25s": f"not installed ({error})"}
    numbers: dict[str, int] = {}
    ids = []
    for passage in index.passages():
        texts = [(f"{passage.title}\n{passage.text}", passage.metadata.get("language", ""))]
        ids.append([numbers.setdefault(term, len(numbers)) for one in index.analyzer.terms_of(texts) for term in one])
    peer = bm25s.BM25(k1=1.2, b=0.75, backend="numba")
    started = time.process_time()
    peer.index((ids, numbers), show_progress=False)
    figures["bm25s_build_cpu_seconds"] = {"cpu_s": round(time.process_time() - started, 1)}

    def its(question: str) -> Any:
        wanted = [[term for term in terms[question] if term in numbers]]
        return peer.retrieve(wanted, k=BM25_K, show_progress=False, n_threads=1)

    figures["bm25s, rows, terms given"] = rate(its, questions)
    return figures


def main() -> None:
    """Build, or measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="one size of `mundap bench scale`, at least as large")
    parser.add_argument("-n", type=int, default=800_000, help="passages")
    parser.add_argument("--build", action="store_true")
    parser.add_argument("--bm25", action="store_true")
    parser.add_argument("--questions", type=int, default=320)
    arguments = parser.parse_args()
    if arguments.build:
        made(arguments.folder, arguments.n)
        return
    out = RUNS / f"hybrid-{arguments.n}"
    if not out.exists():
        sys.exit(f"{out} is missing: make it with --build")
    index = Index(out)
    questions = list(dict.fromkeys(QUESTIONS.read_text("utf-8").splitlines()))[: arguments.questions]
    figures: dict[str, Any] = {"passages": len(index), "load_at_start": round(os.getloadavg()[0], 1)}
    if arguments.bm25:
        report(f"hybrid-{arguments.n}-bm25", {**figures, **lexical(index, questions)})
        return
    report(f"hybrid-{arguments.n}", {**figures, **hybrid(index, arguments.folder, questions)})


if __name__ == "__main__":
    main()
