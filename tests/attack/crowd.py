"""Clients that want all of a server, or take its files away: others are answered, it does not grow, nothing is wrong.

Everybody is a client of their own, by the word of a proxy that this is.
"""

import contextlib
import http.client
import os
import random
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.attack.children import Effort, Totals, child
from tests.attack.product import QUESTIONS, copied
from tests.attack.server import Server

_MOST_GROWTH = 300 << 20  # bytes of the server's own process
_SECONDS = 600.0  # a busy machine is no failure


def attack(work: Path, chance: random.Random, effort: Effort) -> dict[str, Totals]:
    """Each kind of crowd, in a process of its own: it has threads."""
    kinds: dict[str, Callable[[Path, random.Random, Effort], Totals]] = {
        "a client that asks for everything": _greedy,
        "uploads that come in drops": _slow_uploads,
        "large uploads at once": _large_uploads,
        "files cut short under a server": _cut,
    }
    results = {}
    names = chance.sample(list(kinds), len(kinds))
    for name, kind in effort.some((name, kinds[name]) for name in names):
        seed = chance.random()
        code, said = child(lambda kind=kind, seed=seed: kind(work, random.Random(seed), effort).as_dict(), 3600.0)
        results[name] = Totals(**said) if not code else Totals()
        if code:
            results[name].judge("stuck", f"{code} {said}")
    return results


def _asked(server: Server, path: str, body: Any, client: str, kind: str = "application/json") -> tuple[int, Any]:
    """Status and answer of a request; 0 if the connection was lost."""
    try:
        return server.asked("POST", path, body, client, kind)
    except (OSError, http.client.HTTPException):
        return 0, None


def _server(work: Path, **options: Any) -> Server:
    """A server of an index of its own."""
    return Server(copied(work / "base", work / "attacked"), **options)


def _at_once(works: list[Callable[[], Any]]) -> list[Any]:
    """Do all of these at the same time; their results."""
    results: list[Any] = [None] * len(works)

    def run(number: int) -> None:
        results[number] = works[number]()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@contextlib.contextmanager
def _meanwhile(work: Callable[[], None], times: int) -> Iterator[None]:
    """Do something again and again, so often at the same time, until the block ends."""
    done = threading.Event()

    def repeat() -> None:
        while not done.is_set():
            work()

    threads = [threading.Thread(target=repeat) for _ in range(times)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


def _greedy(work: Path, chance: random.Random, effort: Effort) -> Totals:
    """One client asks 32 costly questions at once, again and again; another one's few are all answered."""
    from tests.conftest import make_reader

    totals = Totals()
    folder = work / "crowd reader"
    make_reader(folder)
    with _server(work, reader=folder, waiting=16, at_once=32, cache=0) as server:

        def greedy() -> None:
            _asked(server, "/v1/ask", {"question": f"king {chance.random()}", "k": 100}, "10.0.0.1")

        with _meanwhile(greedy, 32):
            for number in effort.some(range(3 if effort.short else 30)):
                status, said = _asked(server, "/v1/ask", {"question": f"king of the river {number}"}, "10.0.0.2")
                totals.judge("survived" if status == 200 else "stuck", f"beside a greedy client: {status} {said}")
    return totals


def _slow_uploads(work: Path, chance: random.Random, effort: Effort) -> Totals:
    """40 clients send files in drops: they are ended, and an honest one gets a place."""
    totals = Totals()
    head = (b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"X-Forwarded-For: 10.1.0.%d\r\nContent-Length: 1000000\r\n\r\n{")  # fmt: skip
    with _server(work, upload_seconds=2.0) as server:
        slow = [socket.create_connection(("127.0.0.1", server.port), _SECONDS) for _ in range(40)]
        for number, connection in enumerate(slow):
            connection.sendall(head % number)
        until = time.monotonic() + _SECONDS
        status = 503
        while status == 503 and time.monotonic() < until:
            status, _ = _asked(server, "/v1/documents", {"documents": [{"id": "x", "text": "river"}]}, "10.0.0.2")
            time.sleep(0.1)
        totals.judge("survived" if status == 200 else "stuck", f"an upload beside slow ones: {status}")
        for connection in slow:
            said = connection.recv(4096)
            ended = said.startswith((b"HTTP/1.1 408", b"HTTP/1.1 503"))
            totals.judge("survived" if ended else "stuck", f"a slow upload: {said[:60]!r}")
            connection.close()
    return totals


def _large_uploads(work: Path, chance: random.Random, effort: Effort) -> Totals:
    """Many large bodies at the same time, as files and as JSON: the server itself stays small.

    None is a document in the end, which is seen when all is there: it is not the writer that is looked at.
    """
    totals = Totals()
    size = (4 if effort.short else 23) << 20
    text = b"a river " * (size // 8)
    edge = b'--edge\r\nContent-Disposition: form-data; name="files"; filename="large.png"\r\n\r\n'
    form = edge + text + b"\r\n--edge--\r\n"
    documents = b'{"documents": [{"id": "large", "text": "' + text + b'"}, {"id": 5}]}'
    with _server(work) as server:
        before = server.most_memory()
        bodies = [(form, "multipart/form-data; boundary=edge"), (documents, "application/json")]
        works = [
            lambda number=number: _asked(server, "/v1/documents", *_swapped(bodies[number % 2], f"10.2.0.{number}"))
            for number in range(6 if effort.short else 24)
        ]
        answers = _at_once(works)
        for status, said in answers:
            good = status in (200, 422, 429, 503) or (status == 0 and said is None)
            totals.judge("survived" if good else "stuck", f"a large upload: {status} {str(said)[:200]}")
        if not {200, 422} & {status for status, _ in answers}:
            totals.judge("stuck", f"no large upload was taken: {[status for status, _ in answers]}")
        grown = server.most_memory() - before
        totals.judge("survived" if grown < _MOST_GROWTH else "stuck", f"the server grew by {grown >> 20} MB")
        status, _ = _asked(server, "/v1/search", {"question": "river"}, "10.0.0.2")
        totals.judge("survived" if status == 200 else "stuck", f"a search afterwards: {status}")
    return totals


def _swapped(body: tuple[bytes, str], client: str) -> tuple[bytes, str, str]:
    return body[0], client, body[1]


def _cut(work: Path, chance: random.Random, effort: Effort) -> Totals:
    """A file is cut short while questions are answered: each answer is right, or 503, or the connection is lost."""
    totals = Totals()
    with _server(work, cache=0) as server:
        expected = {question: _found(server, question) for question in QUESTIONS}
        files = sorted(path for path in server.index.rglob("*") if path.stat().st_size > 1 and path.is_file())
        files = [
            path for path in files if path.name not in ("skipped.json", "manifest.json") and path.suffix != ".lock"
        ]
        if effort.short:
            files = chance.sample(files, 3)
        crashes = 0
        for path in effort.some(files):
            verdict, note, crashed = _cut_one(server, path, expected)
            totals.judge(verdict, note)
            crashes += crashed
            if crashes % 4 == 3:  # five in a minute end a server, as is promised
                time.sleep(60)
    return totals


def _cut_one(server: Server, path: Path, expected: dict[str, Any]) -> tuple[str, str, int]:
    seen: list[tuple[str, Any]] = []

    def ask() -> None:
        seen.extend((question, _found(server, question)) for question in QUESTIONS)

    kept = path.with_name(path.name + ".kept")
    shutil.copy2(path, kept)
    with _meanwhile(ask, 2):
        os.truncate(path, path.stat().st_size // 2)
        time.sleep(0.5)
    shutil.copy2(kept, path)
    kept.unlink()
    crashed = any(found == 0 for _, found in seen)
    other = [found for question, found in seen if found not in (0, 503, expected[question])]
    if other:
        return "wrong", f"{path.name} cut short: {str(other[0])[:300]}", crashed
    until = time.monotonic() + _SECONDS
    while any(_found(server, question) != right for question, right in expected.items()):
        if time.monotonic() > until or not server.runs():
            return "stuck", f"{path.name} cut short and whole again: {_found(server, QUESTIONS[0])}", crashed
        time.sleep(0.1)
    return "survived", "", crashed


def _found(server: Server, question: str) -> Any:
    """What is found, or the status if nothing is."""
    status, said = _asked(server, "/v1/search", {"question": question, "k": 30}, "10.0.0.2")
    return [[hit["passage"]["id"], round(hit["score"], 4)] for hit in said["hits"]] if status == 200 else status
