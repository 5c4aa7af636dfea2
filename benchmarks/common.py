"""What the benchmarks share: timing, the machine, and where results go."""

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RUNS = Path(os.environ.get("MUNDAP_RUNS", Path.home() / "mundap-runs")) / "bench"
PASSAGES = RUNS / "passages.tsv"
QUESTIONS = RUNS / "questions.txt"


def side_by_side(contenders: dict[str, Callable[[], Any]], rounds: int = 3) -> dict[str, float]:
    """Median seconds of each, run in turn so that a slow minute of the machine hits all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            started = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in seconds.items()}


def read_passages(limit: int) -> list[tuple[str, str]]:
    """(title, text) of the first passages of the benchmark corpus."""
    from mundap.documents import find, read
    from mundap.records import Document

    if not PASSAGES.exists():
        sys.exit(
            f"{PASSAGES} is missing. Make it with: python benchmarks/corpus.py -o {PASSAGES} --questions {QUESTIONS}"
        )
    found = []
    for file in find([PASSAGES], RUNS):
        for document in read(file):  # type: ignore[arg-type]
            if isinstance(document, Document):
                found.append((document.title, document.text))
            if len(found) == limit:
                return found
    return found


def report(name: str, figures: dict[str, Any]) -> None:
    """Print the figures and keep them in a file."""
    facts = {"benchmark": name, "cores": os.cpu_count(), "python": platform.python_version(), **figures}
    text = json.dumps(facts, indent=2, ensure_ascii=False)
    RUNS.mkdir(parents=True, exist_ok=True)
    (RUNS / f"{name}.json").write_text(text + "\n")
    sys.stdout.write(text + "\n")
