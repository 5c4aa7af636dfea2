"""A server to attack: a process of its own, as `mundap serve` is, and what it says."""

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.attack.children import LIBRARY

_RUN = """
import json, sys
from pathlib import Path
from mundap.serving.server import serve
from mundap.serving.settings import Limits, Settings
index, reader, limits = sys.argv[1:]
settings = Settings({"main": Path(index)}, port=0, writable=True, reader=reader, proxy="127.0.0.1", limits=Limits(**json.loads(limits)))
serve(settings, lambda address: print(address, flush=True))
"""
_PATIENT = {"rate": 0, "seconds": 900.0, "write_seconds": 3600.0}  # a busy machine is no failure
_SECONDS = 900.0


class Server:
    """A server of an index; use it as a context manager.

    Everybody may be a client of their own, by the word of a proxy that the attacker is.

    Args:
        index: Its folder.
        reader: The folder of a reader; none if not given.
        killer: The file that tells its writer when to die.
        limits: Of the server, where they are other than patient ones.
    """

    def __init__(self, index: Path, reader: Path | None = None, killer: Path | None = None, **limits: Any) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        if killer is not None:
            environment |= {"LD_PRELOAD": os.environ[LIBRARY], "KILLER_FILE": str(killer)}
        words = [str(index), str(reader or ""), json.dumps({**_PATIENT, **limits})]
        self.index = index
        self.process = subprocess.Popen(
            [sys.executable, "-c", _RUN, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().rpartition(b":")[2])

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()

    def runs(self) -> bool:
        """Whether it is there."""
        return self.process.poll() is None

    def asked(
        self, method: str, path: str, body: Any = None, client: str = "10.0.0.2", kind: str = "application/json"
    ) -> tuple[int, Any]:
        """Status and answer of a request, the last one if there are several.

        Raises:
            OSError, http.client.HTTPException: The connection was lost.
        """
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_SECONDS)
        try:
            connection.request(method, path, data, {"content-type": kind, "x-forwarded-for": client})
            answer = connection.getresponse()
            lines = answer.read().splitlines()
        finally:
            connection.close()
        if not lines:
            return answer.status, None
        return answer.status, json.loads(lines[-1])

    def put(self, name: str, text: str) -> bool:
        """Add a document; whether the server said that it is in."""
        status, said = self.asked("POST", "/v1/documents", {"documents": [{"id": name, "text": text}]})
        return status == 200 and "error" not in (said or {})

    def own(self) -> list[int]:
        """The server's own process, a child of its supervisor; none while it is being started."""
        return children_of(self.process.pid)

    def most_memory(self) -> int:
        """The most bytes that the server's own process has had."""
        lines = Path(f"/proc/{self.own()[0]}/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))

    def memory(self) -> int:
        """Bytes of all its processes now, as far as they are there."""
        pages = 0
        processes = [self.process.pid, *self.own()]
        for process in [*processes, *(one for parent in self.own() for one in children_of(parent))]:
            try:
                pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
            except OSError:
                continue
        return pages * os.sysconf("SC_PAGESIZE")


def children_of(process: int) -> list[int]:
    """The processes that a process started; none if it is gone."""
    try:
        return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []
