"""How the vector index scales: generate millions of vectors, then build and search with the product's own code.

A folder has the bank and a folder for each size: `segments/` with the vectors, the approximate index, what exact search
found, and `result.json`. Whatever exists already is kept, so a stopped run resumes.
"""

import html
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mundap.bench import work
from mundap.bench.vectors import BLOCK, FEWEST, Bank, blocks
from mundap.charts import line_chart, picture
from mundap.disk import disk_errors, json_bytes, sync_folder, write_atomic
from mundap.errors import MundapError, UsageError
from mundap.index.dense import wants_copy
from mundap.machine import cores
from mundap.pages import write_page

MOST = 10**9
SEGMENT = 61 * BLOCK  # about the largest segment that a writer merges
_CODE_BYTES = 150  # a vector: short lists have room to spare
_COPY_BYTES = 4  # a vector, beside its dimension
_SPARE = 1.05
_NEWEST = "batch_new_questions_a_second"  # what a result of an earlier version lacks: then it is searched again

Tell = Callable[[str], None]
"""Called with what is being done."""


def open_bank(folder: Path, make: Callable[[], Bank], origin: str, tell: Tell) -> Bank:
    """The bank of the folder; made and kept there if there is none.

    Args:
        folder: Of the whole benchmark.
        make: Makes it.
        origin: What it is made from; empty if nothing was named, and then what is there is taken as it is.
        tell: Called with what is being done.

    Raises:
        UsageError: The one that is there was made from something else.
    """
    path, note = folder / "bank.npz", folder / "bank.json"
    if path.exists():
        if origin and (not note.exists() or json.loads(note.read_bytes())["origin"] != origin):
            raise UsageError(f"{path} already exists, made from other text: choose another folder, or remove it")
        return Bank.load(path)
    tell("encoding real text, to learn how its vectors are spread")
    bank = make()
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(note, json_bytes({"origin": origin}) + b"\n")
        bank.save(folder / "bank.tmp")
        (folder / "bank.tmp").replace(path)
    return bank


def measure(folder: Path, bank: Bank, passages: int, seed: int = 0, tell: Tell = lambda _: None) -> dict[str, Any]:
    """Generate that many vectors, build and search; returns the figures and saves them in the folder.

    Raises:
        UsageError: The number makes no sense, or other vectors are there.
        MundapError: The disk is too small, or a step failed.
    """
    if not FEWEST <= passages <= MOST:
        raise UsageError(f"{passages:,} passages: choose between {FEWEST} and {MOST:,}")
    place = folder / str(passages)
    kept = place / "result.json"
    facts = {"passages": passages, "dimension": bank.vectors.shape[1], "seed": seed, "bank": len(bank.vectors)}
    _same_vectors(place, facts)
    if kept.exists() and _NEWEST in (before := dict(json.loads(kept.read_bytes()))):
        return before
    _need_room(place, passages, bank.vectors.shape[1])
    with disk_errors(place):
        place.mkdir(parents=True, exist_ok=True)
        write_atomic(place / "made.json", json_bytes(facts) + b"\n")
        _make_vectors(place, bank, passages, seed, tell)
    figures: dict[str, Any] = {**facts, "cores": cores(), "load_at_start": 0.0}
    if hasattr(os, "getloadavg"):  # not on Windows
        figures["load_at_start"] = round(os.getloadavg()[0], 1)
    for step, words in (
        ("build", "building the index"),
        ("exact", "exact search, to know what is to be found"),
        ("search", "searching"),
    ):
        done = place / f"{step}.json"
        if not done.exists() or step == "search":
            tell(f"{passages:,} passages: {words}")
            write_atomic(done, json_bytes(_child(step, place)))
        figures |= json.loads(done.read_bytes())
    figures["disk_mb"] = sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) // 2**20
    write_atomic(kept, json_bytes(figures) + b"\n")
    return figures


def _same_vectors(place: Path, facts: dict[str, Any]) -> None:
    made = place / "made.json"
    if made.exists() and json.loads(made.read_bytes()) != facts:
        raise UsageError(f"{place} has vectors made with another seed or from other text: choose another folder")


def _need_room(place: Path, passages: int, dimension: int) -> None:
    """Fail before writing anything if the disk is too small."""
    there = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    each = 2 * dimension + _CODE_BYTES
    if wants_copy("ivf", passages):
        each += dimension + _COPY_BYTES
    needed = int(passages * each * _SPARE) - there
    above = next(folder for folder in (place, *place.parents) if folder.exists())
    free = shutil.disk_usage(above).free
    if needed > free:
        raise MundapError(
            f"{passages:,} passages need {needed / 1e9:,.1f} GB more in {place}, and {free / 1e9:,.1f} GB are free. "
            "Nothing was written. Make room, choose another folder, or fewer passages."
        )


def _make_vectors(place: Path, bank: Bank, passages: int, seed: int, tell: Tell) -> None:
    """Write the vectors that are not there yet, segment by segment."""
    segments = -(-passages // SEGMENT)
    for number in range(segments):
        path = place / "segments" / f"{number:06d}" / "vectors.bin"
        until = min(passages, (number + 1) * SEGMENT)
        if path.exists():
            continue
        tell(f"{passages:,} passages: making vectors, part {number + 1} of {segments}")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        with temporary.open("wb") as file:
            for block in blocks(bank, until, seed, number * SEGMENT // BLOCK):
                file.write(block.astype(np.float16).tobytes())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)


def _child(step: str, place: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", work.__name__, step, str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise MundapError(f"{step} of {place} failed: {last[0]}. Finished parts are kept; run it again to resume.")
    return dict(json.loads(done.stdout))


PLOTS = (
    ("build_seconds", "Build, vectors given", "seconds"),
    ("memory_mb", "Anonymous memory of the searching process", "MB"),
    ("recall", "Recall@100", ""),
    ("batch_questions_a_second", "In batches", "questions/s"),
    ("one_questions_a_second", "One at a time", "questions/s"),
)


def write_plot(path: Path, results: Sequence[dict[str, Any]]) -> Path:
    """A page with a chart of each figure over the sizes, and beside it the same as a picture (.svg)."""
    results = sorted(results, key=lambda figures: int(figures["passages"]))
    charts = {}
    for key, title, unit in PLOTS:
        curve = [(float(figures["passages"]), float(figures[key])) for figures in results]
        charts[title] = line_chart({title: curve}, "passages", unit, logarithmic=True)
    write_atomic(path.with_suffix(".svg"), picture(charts).encode())
    parts = [f"<h2>{html.escape(title)}</h2>{chart}" for title, chart in charts.items()]
    return write_page(path, "mundap bench scale", ["<h1>How the vector index grows</h1>", *parts])
