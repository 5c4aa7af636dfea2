"""An index of any size in minutes: real passages over and over, under new ids, with a toy encoder.

What is measured is everything but the encoder: memory while indexing, memory and time of a search. Vectors are
averages of random word vectors, of MiniLM's dimension: they say nothing of recall. For that, and for the growth of the
vector index alone, there is `mundap bench scale`.

    python benchmarks/scale.py -n 1000000
"""

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from common import RUNS, read_passages, report


def model(folder: Path) -> Path:
    """The toy encoder, in our own folder format."""
    if not (folder / "config.json").exists():
        sys.path.insert(0, str(Path(__file__).parent.parent))
        from tests.conftest import make_model

        make_model(folder, dimension=384)
    return folder


def main() -> None:
    """Build in a process of its own, so that its peak memory is known, then search."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=1_000_000, help="passages")
    arguments = parser.parse_args()
    rows = RUNS / f"scale-{arguments.n}.tsv"
    if not rows.exists():
        passages = read_passages(220_000)
        with rows.open("w", newline="") as file:
            table = csv.writer(file, delimiter="\t")
            table.writerow(["id", "text", "title"])
            for number in range(arguments.n):
                title, text = passages[number % len(passages)]
                table.writerow([number, text, title])
    out = RUNS / f"index-scale-{arguments.n}"
    program = str(Path(sys.executable).with_name("mundap"))
    started = time.perf_counter()
    done = subprocess.run(
        [program, "index", str(rows), "-o", str(out), "--model", str(model(RUNS / "toy-model")), "--json"],
        check=True,
        capture_output=True,
    )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    figures = {
        "build": json.loads(done.stdout),
        "seconds": round(time.perf_counter() - started, 1),
        "peak_resident_mb_while_indexing": round(peak / 1024),
    }
    report(f"scale-{arguments.n}", figures)


if __name__ == "__main__":
    main()
