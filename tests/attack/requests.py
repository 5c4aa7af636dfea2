"""Requests that are no requests, and uploads cut off by a kill: the server answers the next one, and nothing is lost."""

import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.attack.children import Totals, child
from tests.attack.product import copied, state

_RUN = """
import sys
from pathlib import Path
from mundap.serving.server import serve
from mundap.serving.settings import Limits, Settings
settings = Settings({"main": Path(sys.argv[1])}, port=0, writable=True, reader="", limits=Limits(rate=0))
serve(settings, lambda address: print(address, flush=True))
"""
_PIECES = [b"GET / HTTP/1.1\r\n", b"POST /v1/search HTTP/1.1\r\n", b"Host: localhost\r\n", b"Host: \xff\r\n", b"Content-Length: 5\r\n",
           b"Content-Length: -1\r\n", b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n", b"\r\n",
           b"ffffffffffffffff\r\n", b"0\r\n\r\n", b'{"question": "river"}', b'{"question": ' + b"[" * 5000, b"\0", b"\x16\x03\x01",
           b"Content-Type: application/json\r\n", b"Content-Type: multipart/form-data; boundary=\r\n", b"Expect: 100-continue\r\n",
           b"Upgrade: websocket\r\nConnection: upgrade\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"A" * 40_000]  # fmt: skip


def attack(work: Path, short: bool, chance: random.Random) -> dict[str, Totals]:
    """Throw nonsense at a server; then kill it while documents are put in."""
    out = copied(work / "base", work / "attacked")
    nonsense, kills = Totals(), Totals()
    server, port = _started(out)
    try:
        for number in range(30 if short else 1000):
            data = b"".join(chance.choice(_PIECES) for _ in range(chance.randrange(1, 12)))
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as connection:
                connection.sendall(data)
                connection.settimeout(0.2)
                connection.recv(4096)
            if number % 10 == 9:
                well = server.poll() is None and _asked(port, "GET", "/healthz") == 200
                nonsense.judge("survived" if well else "stuck", f"after {data[:80]!r}")
    finally:
        server.kill()
        server.wait()
    for number in range(2 if short else 40):
        kills.judge(*_killed(out, chance, number))
    return {"nonsense for a server": nonsense, "kill serve with writes": kills}


def _started(out: Path) -> tuple[Any, int]:
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    server = subprocess.Popen(
        [sys.executable, "-c", _RUN, str(out)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    assert server.stdout is not None
    found = re.search(rb":(\d+)", server.stdout.readline())
    assert found is not None
    return server, int(found.group(1))


def _asked(port: int, method: str, path: str, body: Any = None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    data = json.dumps(body) if body is not None else None
    connection.request(method, path, data, {"content-type": "application/json"})
    answer = connection.getresponse()
    said = answer.read()
    return 0 if b'"error"' in said else answer.status


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
    server, port = _started(out)
    reported: list[str] = []
    delay = chance.uniform(0.0, 1.5)  # after the first one is in: before it, there is nothing to lose
    killer = 0
    with contextlib.suppress(OSError, http.client.HTTPException):
        for position in range(10_000):
            name = f"upload {number} {position}"
            if _asked(port, "POST", "/v1/documents", {"documents": [{"id": name, "text": "river"}]}) == 200:
                reported.append(name)
            elif not reported:
                break
            killer = killer or _kill_later(server.pid, delay)
    if killer:
        os.waitpid(killer, 0)
    server.kill()
    server.wait()
    if not reported:
        return "stuck", "no document could be put in"

    def look() -> list[str]:
        from filelock import FileLock

        from mundap import Index
        from mundap.index.verify import verify

        with FileLock(out / "lock", timeout=120):  # the process that writes ends when it has done its job
            index = Index(out)
            return [name for name in reported if index.document(name) is None] + verify(out)

    code, lost = child(look)
    if code or lost:
        return "lost", f"{lost}"
    code, said = child(lambda: state(out) and None)
    return ("stuck", str(said)) if code else ("survived", "")
