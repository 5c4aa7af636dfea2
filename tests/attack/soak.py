"""A server that is asked and written to all the time: every answer is right, and it does not grow."""

import http.client
import random
import time
from pathlib import Path
from typing import Any

from tests.attack.children import Effort, Totals
from tests.attack.product import copied
from tests.attack.server import Server

_MOST_GROWTH = 200 << 20  # bytes, from the first rounds to the end
_FIRST_ROUNDS = 20


def attack(work: Path, chance: random.Random, effort: Effort) -> dict[str, Totals]:
    """Put a document in, find it, take it out, do not find it; again and again for ten minutes."""
    totals = Totals()
    until = time.monotonic() + (5 if effort.short else 600)
    first = rounds = 0
    with Server(copied(work / "base", work / "attacked")) as server:
        while time.monotonic() < until or not rounds:
            totals.judge(*_round(server, rounds, chance))
            rounds += 1
            if rounds == _FIRST_ROUNDS:
                first = server.memory()
        grown = server.memory() - first if first else 0
        totals.judge("survived" if grown < _MOST_GROWTH else "stuck", f"{grown >> 20} MB more after {rounds} rounds")
    return {"soak": totals}


def _round(server: Server, number: int, chance: random.Random) -> tuple[str, str]:
    name, word = f"soak {number}", f"zebra{number}"
    text = f"{word} " + "the river of music " * chance.randrange(1, 400)
    try:
        steps = [
            server.asked("POST", "/v1/documents", {"documents": [{"id": name, "text": text}]}),
            server.asked("POST", "/v1/search", {"question": word}),
            server.asked("DELETE", f"/v1/documents/soak%20{number}"),
            server.asked("POST", "/v1/search", {"question": word}),
        ]
    except (OSError, http.client.HTTPException, ValueError) as error:
        return "stuck", f"round {number}: {type(error).__name__}: {error}"
    if any(status != 200 for status, _ in steps):
        return "stuck", f"round {number}: {[status for status, _ in steps]}"
    there, gone = (_ids(steps[position][1]) for position in (1, 3))
    if not there or there[0].partition("#")[0] != name:
        return "lost", f"round {number}: {name} is not found"
    return ("survived", "") if name not in {one.partition("#")[0] for one in gone} else ("wrong", f"{name} is found")


def _ids(found: Any) -> list[str]:
    return [hit["passage"]["id"] for hit in found["hits"]]
