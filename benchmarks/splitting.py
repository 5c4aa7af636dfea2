"""How documents should be cut: answers right, passages and bytes of an index, for several sizes and overlaps.

    python benchmarks/splitting.py --set NAME DOCUMENTS QUESTIONS [--set ...]

DOCUMENTS is what `mundap index` takes, QUESTIONS a file with answers, as `mundap evaluate answers` reads it. Each way
of cutting is indexed, and the questions are asked through the product with the shipped models.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import report

WAYS: dict[str, list[str]] = {
    "words 100": ["--split", "words", "--words", "100"],
    "sentences 60": ["--words", "60"],
    "sentences 100": ["--words", "100"],
    "sentences 100, overlap 20": ["--words", "100", "--overlap", "20"],
    "sentences 150": ["--words", "150"],
    "sentences 200": ["--words", "200"],
}


def main() -> None:
    """Measure every way of cutting on every set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", nargs=3, action="append", required=True, metavar=("NAME", "DOCUMENTS", "QUESTIONS"))
    parser.add_argument("--questions", type=int, default=150, help="of each set")
    parser.add_argument("--ways", nargs="*", default=list(WAYS))
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for name, documents, questions in options.set:
        for way in options.ways:
            results.setdefault(name, {})[way] = measure(documents, questions, options.questions, WAYS[way])
            sys.stderr.write(f"{name}, {way}: {results[name][way]}\n")
    report("splitting", results)


def measure(documents: str, questions: str, count: int, way: list[str]) -> dict[str, Any]:
    """Index the documents one way and ask the questions."""
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        built = _mundap("index", documents, "-o", str(index), "--json", *way)
        some = Path(folder) / f"some{Path(questions).suffix}"
        _first(Path(questions), some, count)
        told = _mundap("evaluate", "answers", "-i", str(index), "-q", str(some), "--json")
        size = sum(path.stat().st_size for path in index.rglob("*") if path.is_file())
        return {
            "passages": built["passages"],
            "megabytes": round(size / 1e6, 1),
            "seconds_to_index": built["seconds"],
            **{key: told[key] for key in ("exact_match", "f1", "questions") if key in told},
        }


def _mundap(*words: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-m", "mundap", *words], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(f"mundap {' '.join(words)}\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _first(source: Path, target: Path, count: int) -> None:
    """The first rows of a file of rows; any other file as it is."""
    if source.suffix == ".json":
        shutil.copy(source, target)
        return
    with source.open() as lines, target.open("w") as out:
        for _, line in zip(range(count), lines, strict=False):
            out.write(line)


if __name__ == "__main__":
    main()
