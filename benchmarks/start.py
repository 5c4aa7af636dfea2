"""Cold start and memory: from typing `mundap search` to the first result, on an index of any size.

python benchmarks/start.py INDEX
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from common import report

QUESTION = "How are packages installed?"
_MEMORY = """
import sys
from mundap import Index
index = Index(sys.argv[1])
for mode in ("bm25", "dense", "hybrid"):
    index.search("How are packages installed?", 10, mode)
index.search("What is a kernel module?", 10)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("RssAnon")))
"""
_IMPORTS = """
import time; started = time.perf_counter()
import click, numpy, onnxruntime, tokenizers, tantivy, mundap.cli.search, mundap.index.index
print(time.perf_counter() - started)
"""


def timed(arguments: list[str], rounds: int) -> float:
    """Median seconds of a whole process."""
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        subprocess.run(arguments, check=True, capture_output=True)
        seconds.append(time.perf_counter() - started)
    return round(statistics.median(seconds), 3)


def printed(code: str, *arguments: str, rounds: int = 5) -> float:
    """Median of the number that a fresh process prints."""
    command = [sys.executable, "-c", code, *arguments]
    outputs = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(rounds)]
    return statistics.median(map(float, outputs))


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("index")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    program = str(Path(sys.executable).with_name("mundap"))
    search = [program, "search", "-i", arguments.index, "--json", QUESTION]
    subprocess.run(search, check=True, capture_output=True)  # the files into the page cache
    modes = {mode: timed([*search, "--mode", mode], arguments.rounds) for mode in ("bm25", "dense", "hybrid")}
    from mundap import Index

    report(
        "start",
        {
            "passages": len(Index(arguments.index)),
            "dense": Index(arguments.index).info()["dense"],
            "seconds_to_result": modes,
            "imports_seconds": round(printed(_IMPORTS), 3),
            "python_alone_seconds": timed([sys.executable, "-c", "pass"], arguments.rounds),
            "anonymous_memory_mb": round(printed(_MEMORY, arguments.index, rounds=1) / 1024),
        },
    )


if __name__ == "__main__":
    main()
