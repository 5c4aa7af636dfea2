"""Readers beside a writer that makes many changes: each result is that of its generation."""

import json
import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.attack.children import Effort, Totals, child
from tests.attack.product import copied, state, verbs

_KINDS = ("add", "add", "upload", "delete", "compact")


def attack(work: Path, chance: random.Random, effort: Effort) -> dict[str, Totals]:
    """One process changes the index many times, another one reads all the time."""
    totals = Totals()
    kinds = [chance.choice(_KINDS) for _ in range(8 if effort.short else 50)]
    out = copied(work / "base", work / "attacked")
    told = work / "told.jsonl"
    told.unlink(missing_ok=True)
    writer = os.fork()
    if not writer:
        code = 1
        try:
            _write(work, out, told, effort.some(kinds))
            code = 0
        finally:  # whatever happens, this process goes no further
            os._exit(code)
    code, seen = child(lambda: _read(out, writer), 3600.0)
    _, status = os.waitpid(writer, 0)
    expected = {one["generation"]: one for one in map(json.loads, told.read_text().splitlines())}
    if status:
        totals.judge("stuck", f"the writer ended with {os.waitstatus_to_exitcode(status)}")
    if code:
        totals.judge("stuck", f"reading: {seen}")
        return {"readers beside a writer": totals}
    for one in seen:
        known = expected.get(one["generation"])
        right = known is not None and (known["held"], known["found"]) == (one["held"], one["found"])
        totals.judge("survived" if right else "wrong", f"generation {one['generation']}")
    return {"readers beside a writer": totals}


def _write(work: Path, out: Path, told: Path, kinds: Iterable[str]) -> None:
    """Make changes, and note what each state is; the first is noted before anything changes."""
    from mundap.index import build

    with told.open("a") as file:
        file.write(json.dumps(state(out)) + "\n")
        file.flush()
        for number, kind in enumerate(kinds):
            (work / "more" / "new.txt").write_text("the river has music of its own " * (number + 1))
            if kind == "delete":
                build.delete(out, ["new.txt", "up.txt"])
            else:
                verbs(work)[kind](out)
            file.write(json.dumps(state(out)) + "\n")
            file.flush()


def _read(out: Path, writer: int) -> list[Any]:
    seen = []
    while True:
        seen.append(state(out))
        if _ended(writer):
            return seen


def _ended(process: int) -> bool:
    """Whether a process that is no child of this one is gone, or only waits to be buried."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
