"""Readers beside a writer that makes many changes: each result is that of its generation."""

import json
import os
import time
from pathlib import Path
from typing import Any

from tests.attack.children import Totals, child
from tests.attack.product import copied, state, verbs


def attack(work: Path, changes: int) -> dict[str, Totals]:
    """One process changes the index that often, another one reads all the time."""
    totals = Totals()
    out = copied(work / "base", work / "attacked")
    told = work / "told.jsonl"
    told.unlink(missing_ok=True)
    writer = os.fork()
    if not writer:
        code = 1
        try:
            _write(work, out, told, changes)
            code = 0
        finally:  # whatever happens, this process goes no further
            os._exit(code)
    code, seen = child(lambda: _read(out, writer))
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


def _write(work: Path, out: Path, told: Path, changes: int) -> None:
    """Make changes of all kinds, and note what each state is; the first is noted before anything changes."""
    with told.open("a") as file:
        file.write(json.dumps(state(out)) + "\n")
        file.flush()
        for number in range(changes):
            if number % 4 == 3:
                verbs(work)["compact"](out)
            elif number % 2:
                from mundap.index import build

                build.delete(out, ["new.txt"])
            else:
                (work / "more" / "new.txt").write_text("the river has music of its own " * (number + 1))
                verbs(work)["add"](out)
            file.write(json.dumps(state(out)) + "\n")
            file.flush()


def _read(out: Path, writer: int) -> list[Any]:
    seen = []
    until = time.monotonic() + 280
    while time.monotonic() < until:
        seen.append(state(out))
        if _ended(writer):
            break
    return seen


def _ended(process: int) -> bool:
    """Whether a process that is no child of this one is gone, or only waits to be buried."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
