"""A server that is asked and written to all the time: every answer is right, and it does not grow."""

import http.client
import json
import random
import time
from pathlib import Path
from typing import Any

from tests.attack.children import Effort, Totals
from tests.attack.product import copied
from tests.attack.requests import _started

_MOST_GROWTH = 200 << 20  # bytes, from the first rounds to the end
_FIRST_ROUNDS = 20


def attack(work: Path, chance: random.Random, effort: Effort) -> dict[str, Totals]:
    """Put a document in, find it, take it out, do not find it; again and again for ten minutes."""
    totals = Totals()
    server, port = _started(copied(work / "base", work / "attacked"))
    until = time.monotonic() + (5 if effort.short else 600)
    first = rounds = 0
    try:
        while time.monotonic() < until or not rounds:
            totals.judge(*_round(port, rounds, chance))
            rounds += 1
            if rounds == _FIRST_ROUNDS:
                first = _memory(server.pid)
        grown = _memory(server.pid) - first if first else 0
        totals.judge("survived" if grown < _MOST_GROWTH else "stuck", f"{grown >> 20} MB more after {rounds} rounds")
    finally:
        server.kill()
        server.wait()
    return {"soak": totals}


def _round(port: int, number: int, chance: random.Random) -> tuple[str, str]:
    name, word = f"soak {number}", f"zebra{number}"
    text = f"{word} " + "the river of music " * chance.randrange(1, 400)
    try:
        steps = [
            _asked(port, "POST", "/v1/documents", {"documents": [{"id": name, "text": text}]}),
            _asked(port, "POST", "/v1/search", {"question": word}),
            _asked(port, "DELETE", f"/v1/documents/soak%20{number}"),
            _asked(port, "POST", "/v1/search", {"question": word}),
        ]
    except (OSError, http.client.HTTPException, ValueError) as error:
        return "stuck", f"round {number}: {type(error).__name__}: {error}"
    if any(status != 200 for status, _ in steps):
        return "stuck", f"round {number}: {[status for status, _ in steps]}"
    there, gone = (_ids(steps[position][1]) for position in (1, 3))
    if not there or there[0].partition("#")[0] != name:
        return "lost", f"round {number}: {name} is not found"
    return ("survived", "") if name not in {one.partition("#")[0] for one in gone} else ("wrong", f"{name} is found")


def _asked(port: int, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=900)  # a busy machine is no failure
    try:
        data = json.dumps(body) if body is not None else None
        connection.request(method, path, data, {"content-type": "application/json"})
        answer = connection.getresponse()
        lines = answer.read().splitlines()
        return answer.status, json.loads(lines[-1]) if lines else None
    finally:
        connection.close()


def _ids(found: Any) -> list[str]:
    return [hit["passage"]["id"] for hit in found["hits"]]


def _memory(process: int) -> int:
    """Bytes of a process and of those it started, as far as they are there."""
    pages = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if process in (int(folder.name), parent):
                pages += int((folder / "statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            continue
    return pages * 4096
