"""Requests that are no requests, and kills of a server or its writer: the next one is answered, and nothing is lost."""

import contextlib
import http.client
import os
import random
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.attack.children import Effort, Totals, child
from tests.attack.product import copied, same, state
from tests.attack.server import Server, children_of

_PIECES = [b"GET / HTTP/1.1\r\n", b"POST /v1/search HTTP/1.1\r\n", b"Host: localhost\r\n", b"Host: \xff\r\n", b"Content-Length: 5\r\n",
           b"Content-Length: -1\r\n", b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n", b"\r\n",
           b"ffffffffffffffff\r\n", b"0\r\n\r\n", b'{"question": "river"}', b'{"question": ' + b"[" * 5000, b"\0", b"\x16\x03\x01",
           b"Content-Type: application/json\r\n", b"Content-Type: multipart/form-data; boundary=\r\n", b"Expect: 100-continue\r\n",
           b"Upgrade: websocket\r\nConnection: upgrade\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"A" * 40_000]  # fmt: skip


def attack(work: Path, chance: random.Random, effort: Effort) -> dict[str, Totals]:
    """Throw nonsense at a server; kill it while documents are put in; kill its writer at every change."""
    kinds: dict[str, Callable[[Path, random.Random, Effort], Totals]] = {
        "nonsense for a server": _nonsense,
        "kill serve with writes": _kills,
        "kill the writer of a server": _killed_writers,
    }
    names = chance.sample(list(kinds), len(kinds))
    return {name: kinds[name](work, chance, effort) for name in effort.some(names)}


def _nonsense(work: Path, chance: random.Random, effort: Effort) -> Totals:
    totals = Totals()
    with Server(copied(work / "base", work / "attacked")) as server:
        for number in effort.some(range(30 if effort.short else 1000), least=10):
            data = b"".join(chance.choice(_PIECES) for _ in range(chance.randrange(1, 12)))
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", server.port), 5) as connection:
                connection.sendall(data)
                connection.settimeout(0.2)
                connection.recv(4096)
            if number % 10 == 9:
                well = server.runs() and server.asked("GET", "/healthz")[0] == 200
                totals.judge("survived" if well else "stuck", f"after {data[:80]!r}")
    return totals


def _kills(work: Path, chance: random.Random, effort: Effort) -> Totals:
    totals = Totals()
    out = copied(work / "base", work / "attacked")
    for number in effort.some(range(2 if effort.short else 40)):
        totals.judge(*_killed(out, chance, number))
    return totals


def _kill_later(process: int, seconds: float) -> int:
    """The id of the process that will do it."""
    killer = os.fork()
    if not killer:
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)
        os._exit(0)
    return killer


def _killed(out: Path, chance: random.Random, number: int) -> tuple[str, str]:
    """Put documents in one by one, kill the server at some moment: what was reported is there."""
    server = Server(out)
    reported: list[str] = []
    delay = chance.uniform(0.0, 1.5)  # after the first one is in: before it, there is nothing to lose
    killer = 0
    with contextlib.suppress(OSError, http.client.HTTPException):
        for position in range(10_000):
            name = f"upload {number} {position}"
            if server.put(name, "river"):
                reported.append(name)
            elif not reported:
                break
            killer = killer or _kill_later(server.process.pid, delay)
    if killer:
        os.waitpid(killer, 0)
    server.kill()
    if not reported:
        return "stuck", "no document could be put in"

    code, lost = child(lambda: _looked(out, reported))
    if code or lost:
        return "lost", f"{lost}"
    code, said = child(lambda: state(out) and None)
    return ("stuck", str(said)) if code else ("survived", "")


def _looked(out: Path, reported: list[str]) -> list[str]:
    """What was reported and is not there, and whatever else is wrong."""
    from filelock import FileLock

    from mundap import Index
    from mundap.index.verify import verify

    with FileLock(out / "lock", timeout=600):  # the process that writes ends when it has done its job
        index = Index(out)
        return [name for name in reported if index.document(name) is None] + verify(out)


def _killed_writers(work: Path, chance: random.Random, effort: Effort) -> Totals:
    """The process that writes for a server is killed at every change of a file: the server says so and goes on."""
    totals = Totals()
    out = copied(work / "base", work / "attacked")
    killer = work / "killer"
    killer.unlink(missing_ok=True)
    moments = iter(range(1, 10_000))
    if effort.short:
        moments = iter(sorted(chance.sample(range(1, 100), 2)))
    with Server(out, killer=killer) as server:
        for at in effort.some(moments):
            killer.write_text(f"{at} {out} mundap.serving.writing")
            _end_writer(server)  # the next one reads that file
            _, before = child(lambda: state(out))
            done = server.put(f"w{at}", f"river {at}")
            killer.unlink()
            if done:  # it was done before that moment: there are no later ones
                break
            totals.judge(*_after_its_death(server, at, before))
    if not totals.tried:
        totals.judge("stuck", "the writer was never killed")
    return totals


def _end_writer(server: Server) -> None:
    """End the writer of a server, if there is one."""
    for own in server.own():
        for process in children_of(own):
            if b"mundap.serving.writing" in Path(f"/proc/{process}/cmdline").read_bytes():
                os.kill(process, signal.SIGKILL)
                while Path(f"/proc/{process}").exists():  # until the server has noticed
                    time.sleep(0.01)


def _after_its_death(server: Server, at: int, before: Any) -> tuple[str, str]:
    """What was said to have failed is there as a whole or not at all, and the same request succeeds."""
    out = server.index
    code, now = child(lambda: state(out))
    if code or (not same(now, before) and now["count"] != before["count"] + 1):
        return "lost", f"the writer killed at {at}: {now}"
    if not server.put(f"w{at}", f"river {at}"):
        return "stuck", f"the writer killed at {at}: the same request fails again"
    code, said = child(lambda: _looked(out, [f"w{at}"]))
    return ("survived", "") if (code, said) == (0, []) else ("lost", f"the writer killed at {at}: {said}")
