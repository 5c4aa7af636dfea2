"""What changes take in an index that is there, of any size: add some passages, find them, delete them.

    python benchmarks/changes.py INDEX -n 100

Each round adds a file of new passages, opens the index again and searches until one of them is found, and deletes the
file. So the index has the same passages in the end; deleted ones take room in it until `mundap compact`. Adding
includes encoding, if the index has vectors. Searches are timed before, with the new passages, and after.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from common import report
from zipf import WORDS, passages

ASKED = 20


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds it takes, and what comes of it."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def searching(path: Path, questions: list[str]) -> dict[str, float]:
    """Seconds to open the index, with the first search by each mode, and then the median of a search in ms."""
    from mundap import Index

    figures: dict[str, float] = {}
    seconds, index = timed(lambda: Index(path))
    figures["open_seconds"] = round(seconds, 3)
    for mode in index.modes:
        first = timed(lambda mode=mode: index.search(questions[0], mode=mode))[0]
        rest = [timed(lambda one=one, mode=mode: index.search(one, mode=mode))[0] for one in questions]
        figures[f"{mode}_first_seconds"] = round(first, 3)
        figures[f"{mode}_median_ms"] = round(1000 * statistics.median(rest), 2)
    return figures


def one_round(path: Path, count: int, number: int, questions: list[str]) -> dict[str, Any]:
    """Add, find, delete, and the figures of each."""
    from mundap import Index
    from mundap.index.build import Options, add, delete

    mark = f"zqx{number}{time.time_ns()}"  # a word that nothing else has
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{mark}.txt"
        file.write_text("\n\n".join(f"{mark} {text}." for text in islice(passages(count, number), count)))
        added, made = timed(lambda: add([file], path, Options()))
        opened, hits = timed(lambda: Index(path).search(mark, 1, "bm25"))
        if not hits or mark not in hits[0].passage.text:
            raise SystemExit(f"{mark} was added and is not found")
        between = searching(path, questions)
        deleted, gone = timed(lambda: delete(path, sources=[hits[0].passage.source]))
        if any(mark in hit.passage.text for hit in Index(path).search(mark, 1, "bm25")):
            raise SystemExit(f"{mark} was deleted and is still found")
    return {
        "added_passages": gone.removed,
        "passages": made.passages,
        "add_seconds": round(added, 3),
        "searchable_after_seconds": round(added + opened, 3),
        "delete_seconds": round(deleted, 3),
        "searching_in_between": between,
    }


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("-n", type=int, default=100, help=f"passages of some {WORDS} words to add")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    from mundap import Index

    before = len(Index(arguments.index))
    questions = [" ".join(text.split()[:5]) for text in passages(ASKED, 99)]
    figures: dict[str, Any] = {"passages": before, "searching_before": searching(arguments.index, questions)}
    figures["rounds"] = [one_round(arguments.index, arguments.n, n, questions) for n in range(arguments.rounds)]
    figures["searching_after"] = searching(arguments.index, questions)
    if len(Index(arguments.index)) != before:
        raise SystemExit("the index does not have the passages it had before")
    report("changes", figures)


if __name__ == "__main__":
    main()
