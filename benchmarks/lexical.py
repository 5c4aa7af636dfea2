"""BM25: indexing and searching real 100-word passages, mundap against Lucene (Pyserini) on the same corpus.

Ours is the whole product: reading the file, storing the passages, checksums, commit. Lucene stores the text too
(-storeContents), since an index must be able to show what it finds; it reads a prepared collection of JSON.
Lucene needs an environment of its own: see lucene.py.

    python benchmarks/lexical.py --lucene ~/mundap-runs/pyserini/bin/python
"""

import argparse
import json
import shutil
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

from common import PASSAGES, QUESTIONS, RUNS, report
from mundap import Index
from mundap.index.build import Options, build

K = 100


def ours(rounds: int) -> dict[str, Any]:
    """Medians of indexing and of searching."""
    out = RUNS / "index-lexical"
    wall, cpu = [], []
    for _ in range(rounds):
        shutil.rmtree(out, ignore_errors=True)
        started, used = time.perf_counter(), time.process_time()
        passages = build([PASSAGES], out, Options(model="none")).passages
        wall.append(passages / (time.perf_counter() - started))
        cpu.append(passages / (time.process_time() - used))
    index = Index(out)
    questions = QUESTIONS.read_text("utf-8").splitlines()
    for question in questions[:200]:
        index.search(question, K, "bm25")
    ways = {
        "ids_and_scores": lambda: [index.rank(question, K, "bm25") for question in questions],
        "with_passages": lambda: [index.search(question, K, "bm25") for question in questions],
        "batch_with_passages": lambda: index.search_batch(questions, K, "bm25"),
    }
    figures: dict[str, Any] = {
        "passages": passages,
        "index_per_second_wall": round(statistics.median(wall)),
        "index_per_second_cpu": round(statistics.median(cpu)),
    }
    for name, run in ways.items():
        walls, cpus = [], []
        for _ in range(rounds):
            started, used = time.perf_counter(), time.process_time()
            run()
            walls.append(len(questions) / (time.perf_counter() - started))
            cpus.append(len(questions) / (time.process_time() - used))
        figures[name] = {"wall": round(statistics.median(walls)), "cpu": round(statistics.median(cpus))}
    started = time.perf_counter()
    Index(out)
    figures["open_ms"] = round((time.perf_counter() - started) * 1000, 1)
    figures["lexical_mb"] = round(sum(f.stat().st_size for f in out.glob("lexical-*/*")) / 1e6, 1)
    return figures


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lucene", type=Path, help="python of the environment that has Pyserini")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    figures: dict[str, Any] = {"mundap": ours(arguments.rounds)}
    if arguments.lucene:
        script = Path(__file__).with_name("lucene.py")
        out = RUNS / "lucene.json"
        command = [str(arguments.lucene), str(script), str(PASSAGES), str(QUESTIONS), "--store", "--json", str(out)]
        subprocess.run(command, check=True)
        figures["lucene"] = json.loads(out.read_text())
    report("lexical", figures)


if __name__ == "__main__":
    main()
