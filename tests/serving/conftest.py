"""Real servers in processes of their own, over tiny real indexes."""

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.serving.browser import browser, examples, visit  # noqa: F401

httpx2 = pytest.importorskip("httpx2", reason="needs the extra `dev`")
pytest.importorskip("fastapi", reason="needs the extra `serve`")

SOURCE = str(Path(__file__).parents[2] / "src")
# The command line offers the limits that people need; tests need all of them.
RUN = """
import json, sys
from pathlib import Path
from mundap.serving.server import serve
from mundap.serving.settings import Limits, Settings
given = json.loads(sys.argv[1])
settings = Settings({n: Path(p) for n, p in given.pop("indexes").items()}, limits=Limits(**given.pop("limits")), **given)
serve(settings, lambda address: print("Serving at", address, flush=True))
"""


class Server:
    """A server that was started, and a client for it."""

    def __init__(self, command: list[str], **environment: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": SOURCE, **environment},
        )
        self.log: list[str] = []
        said: queue.Queue[str] = queue.Queue()
        threading.Thread(target=lambda: said.put(self.process.stdout.readline()), daemon=True).start()
        threading.Thread(target=self._read_log, daemon=True).start()
        found = re.search(r"http://\S+", said.get(timeout=240))
        if found is None:
            self.process.wait(60)
            raise AssertionError(f"the server did not start: {''.join(self.log)}")
        self.address = found.group()
        self.port = int(self.address.rpartition(":")[2])
        self.client = httpx2.Client(base_url=self.address, timeout=120)

    def _read_log(self) -> None:
        with contextlib.suppress(ValueError):
            self.log.extend(iter(self.process.stderr.readline, ""))

    def get(self, path: str, **options):
        return self.client.get(path, **options)

    def post(self, path: str, body=None, **options):
        return self.client.post(path, json=body, **options)

    def ask(self, question: str, **options):
        return self.post("/v1/ask", {"question": question, **options})

    def search(self, question: str, **options):
        return self.post("/v1/search", {"question": question, **options})

    def add(self, *documents: dict, **options) -> list[dict]:
        answer = self.post("/v1/documents", {"documents": list(documents)}, **options)
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]

    def stop(self, how: int = signal.SIGTERM) -> int:
        self.client.close()
        self.process.send_signal(how)
        return self.process.wait(120)


def until(condition, seconds: float = 120.0) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this did not happen in time"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def start():
    """Start a server with any settings; it is stopped at the end."""
    running: list[Server] = []

    def run(indexes: dict[str, Path], reader: Path | None = None, environment=None, limits=None, **settings) -> Server:
        given = {
            "indexes": {name: str(path) for name, path in indexes.items()},
            "reader": str(reader) if reader else "",
            "port": 0,
            "limits": limits or {},
            **settings,
        }
        running.append(Server(["-c", RUN, json.dumps(given)], **(environment or {})))
        return running[-1]

    yield run
    for server in running:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
