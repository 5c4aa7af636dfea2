"""The steps of a measurement that run in a process of their own, so that its memory and threads can be measured.

    python -m mundap.bench.work build|exact|search FOLDER

Each prints its figures as JSON. FOLDER is one size of `mundap bench scale`.
"""

import itertools
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mundap.bench.vectors import Bank
from mundap.disk import checksum
from mundap.index import dense
from mundap.index.corpus import Corpus
from mundap.index.manifest import DenseEntry, FileEntry, LexicalEntry, Manifest, SegmentEntry, Settings
from mundap.index.sizes import BATCH, Effort
from mundap.index.tuning import QUESTIONS, K

CODES, COPY, EXACT = "dense.faiss", "dense.bytes", "exact.npy"
_BY_THE_TABLE = Effort(0, 0)
_LEAST_SECONDS = 3.0
_SMALL = 1 << 16  # bytes of a file from which on opening does not look at its checksum


def corpus_of(folder: Path, dimension: int) -> Corpus:
    """The made vectors as an index has them: segments, memory-mapped."""
    entries: list[SegmentEntry] = []
    first = 0
    for path in sorted((folder / "segments").glob("*/vectors.bin")):
        size = path.stat().st_size
        digest = ""
        if size <= _SMALL:
            digest = checksum(path)
        rows = size // (2 * dimension)
        file = FileEntry(path.relative_to(folder).as_posix(), size, digest)
        entries.append(SegmentEntry(path.parent.name, first, first + rows - 1, rows, rows, (file,)))
        first += rows
    manifest = Manifest(
        Settings(dimension=dimension), LexicalEntry("lexical-000000"), next_number=first, segments=tuple(entries)
    )
    return Corpus(folder, manifest)


def _opened(folder: Path) -> tuple[Bank, Corpus]:
    bank = Bank.load(folder.parent / "bank.npz")
    return bank, corpus_of(folder, bank.vectors.shape[1])


def _build(folder: Path) -> dict[str, Any]:
    """Train and fill the approximate index."""
    _, corpus = _opened(folder)
    with _Memory() as memory:
        wall, cpu = time.perf_counter(), time.process_time()
        temporary, copy = folder / f"{CODES}.tmp", None
        if dense.wants_copy("ivf", len(corpus)):
            copy = folder / COPY
        dense.build(corpus, "ivf", temporary, copy)
        temporary.replace(folder / CODES)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "build_seconds": round(wall, 1),
        "build_cpu_seconds": round(cpu, 1),
        "build_memory_mb": memory.most,
        "bytes_a_vector": round((folder / CODES).stat().st_size / len(corpus), 1),
    }


def _exact(folder: Path) -> dict[str, Any]:
    """What exact search finds for the questions that recall is measured on."""
    bank, corpus = _opened(folder)
    questions = bank.questions[:QUESTIONS]
    started = time.process_time()
    found = [numbers for numbers, _ in dense.Dense(folder, corpus, None).search(questions, K)]
    seconds = time.process_time() - started
    with (folder / f"{EXACT}.tmp").open("wb") as file:
        np.save(file, np.array(found, np.int64))
    (folder / f"{EXACT}.tmp").replace(folder / EXACT)
    return {"exact_cpu_ms": round(1000 * seconds / len(questions), 1)}


def entry_of(folder: Path, passages: int, effort: Effort = _BY_THE_TABLE) -> DenseEntry:
    """The approximate index of the folder, as a manifest lists it."""
    copy = None
    if (folder / COPY).exists():
        copy = FileEntry(COPY, (folder / COPY).stat().st_size, "")
    file = FileEntry(CODES, (folder / CODES).stat().st_size, "")
    return DenseEntry(file, "ivf", passages, passages, *effort, copy=copy)


def _search(folder: Path) -> dict[str, Any]:
    """Measure recall, and questions per second in batches and one at a time, with the search of an index.

    `new` are questions that were never asked before, so that much of what they need may have to be read from disk; the
    others were all asked once.
    """
    bank, corpus = _opened(folder)
    index = dense.Dense(folder, corpus, entry_of(folder, len(corpus)))
    truth = np.load(folder / EXACT, allow_pickle=False)
    found = index.search(bank.questions[: len(truth)], K)  # which warms up too
    recalls = [np.isin(want, have).mean() for (have, _), want in zip(found, truth, strict=True)]
    new = bank.questions[len(truth) :]
    some = 5 * len(new) // 8

    def several(questions: np.ndarray, again: bool) -> "_Times":
        return _timed(lambda at: index.search(questions[at : at + BATCH], K), len(questions), BATCH, again)

    def one(questions: np.ndarray, again: bool) -> "_Times":
        return _timed(lambda at: index.search(questions[at : at + 1], K), len(questions), 1, again)

    first, first_alone = several(new[:some], again=False), one(new[some:], again=False)
    together, alone = several(bank.questions, again=True), one(bank.questions, again=True)
    effort = index.effort
    return {
        "lists": index.lists,
        "probes": effort.probes,
        "candidates": effort.candidates,
        "recall": round(float(np.mean(recalls)), 4),
        "recall_error": round(1.96 * float(np.std(recalls)) / len(recalls) ** 0.5, 4),
        "batch_questions_a_second": round(BATCH / float(np.mean(together.wall)), 1),
        "batch_new_questions_a_second": round(BATCH / float(np.mean(first.wall)), 1),
        "batch_cpu_ms": round(1000 * together.cpu / BATCH, 3),
        "one_questions_a_second": round(1 / float(np.mean(alone.wall)), 1),
        "one_median_ms": round(1000 * float(np.median(alone.wall)), 2),
        "one_new_median_ms": round(1000 * float(np.median(first_alone.wall)), 2),
        "one_p95_ms": round(1000 * float(np.quantile(alone.wall, 0.95)), 2),
        "one_cpu_ms": round(1000 * alone.cpu, 3),
        "memory_mb": _anonymous_mb(),
    }


class _Times:
    """Seconds of each call, and mean CPU seconds."""

    def __init__(self, wall: list[float], cpu: float) -> None:
        self.wall, self.cpu = wall, cpu


def _timed(call: Callable[[int], object], questions: int, step: int, again: bool) -> _Times:
    """Call it for question after question: each once, or all again and again for a few seconds."""
    wall: list[float] = []
    places = range(0, max(questions - step, 0) + 1, step)
    if again:
        for at in places:  # whatever they need is in memory then, if it fits
            call(at)
    cpu = time.process_time()
    until = time.perf_counter() + _LEAST_SECONDS
    for at in itertools.cycle(places) if again else places:
        started = time.perf_counter()
        call(at)
        wall.append(time.perf_counter() - started)
        if again and time.perf_counter() > until:
            break
    return _Times(wall, (time.process_time() - cpu) / len(wall))


def _anonymous_mb() -> int:
    """Anonymous memory of this process, in MB; where the system does not report it, the peak of all memory."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) // 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


class _Memory:
    """The peak of anonymous memory while something runs, sampled a few times per second."""

    def __enter__(self) -> "_Memory":
        self.most = _anonymous_mb()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._done.wait(0.1):
            self.most = max(self.most, _anonymous_mb())

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.most = max(self.most, _anonymous_mb())


if __name__ == "__main__":
    step = {"build": _build, "exact": _exact, "search": _search}[sys.argv[1]]
    sys.stdout.write(json.dumps(step(Path(sys.argv[2]))) + "\n")
