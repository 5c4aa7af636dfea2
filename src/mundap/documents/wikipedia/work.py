"""Work on chunks in several processes, with the results in order.

A worker is a Python process of its own that is sent chunks through a pipe and sends back articles or passages. It
ends when the pipe is closed, so that none is left behind however the main process ends. Nothing is pickled.
"""

import contextlib
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from mundap.documents.wikipedia.articles import Found, Style, articles
from mundap.documents.wikipedia.dump import Chunk
from mundap.documents.wikipedia.passages import Cut, rows
from mundap.documents.wikipedia.site import Site
from mundap.machine import cores
from mundap.records import Skipped


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be done with a chunk.

    Attributes:
        path: The dump.
        source: What it is called in messages.
        head: Its beginning, which says what edition it is.
        chunk: The part of it.
        style: How articles are written.
        cut: How they are cut into passages; None for whole articles.
    """

    path: str
    source: str
    head: str
    chunk: Chunk
    style: Style
    cut: Cut | None = None


@dataclass(slots=True)
class _Result:
    """What came of a task.

    Attributes:
        task: The task.
        found: Counts, and what was skipped.
        lines: Passages as lines of psgs_w100 without their ids, or articles as lines of JSON.
    """

    task: Task
    found: Found
    lines: list[bytes]


def run(tasks: Iterable[Task], processes: int | None = None) -> Iterator[_Result]:
    """Run the tasks in parallel and yield the results in order.

    Args:
        tasks: They are asked for as they are needed.
        processes: How many; by default one per core. With one, or one task, everything is done in this process.
    """
    processes = processes or cores()
    tasks = iter(tasks)
    first = list(itertools.islice(tasks, 2))
    tasks = itertools.chain(first, tasks)
    if processes == 1 or len(first) < 2:
        for task in tasks:
            yield _work(task)
        return
    with _Workers(processes) as workers:
        waiting: deque[Future[_Result]] = deque()
        for task in tasks:
            waiting.append(workers.submit(task))
            if len(waiting) > processes + 2:  # enough that nobody waits for work, and little to hold in memory
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _work(task: Task) -> _Result:
    """Do one task."""
    site = Site.parse(task.head, Path(task.path).name)
    found = Found()
    lines: list[bytes] = []
    for article in articles(Path(task.path), task.source, task.chunk, site, task.style, found):
        if task.cut:
            lines += rows(article, task.cut)
        else:
            lines.append(json.dumps([article.id, article.title, article.text], ensure_ascii=False).encode())
    return _Result(task, found, lines)


class _Workers:
    """Worker processes, started when there is something to do; a thread waits for each."""

    def __init__(self, processes: int) -> None:
        self._threads = ThreadPoolExecutor(processes, "wikipedia")
        self._idle: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        self._all: list[subprocess.Popen[bytes]] = []
        self._closing = False

    def __enter__(self) -> "_Workers":
        return self

    def __exit__(self, *error: object) -> None:
        self._closing = True
        for process in self._all:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._all:
            process.kill()  # one may have been started meanwhile
            process.wait()
            for pipe in filter(None, (process.stdin, process.stdout)):
                with contextlib.suppress(OSError):  # what it was not sent any more
                    pipe.close()

    def submit(self, task: Task) -> "Future[_Result]":
        return self._threads.submit(self._do, task)

    def _do(self, task: Task) -> _Result:
        """A worker that dies on a chunk, as one that is out of memory does, is replaced and the chunk tried again."""
        for _ in range(2):
            process = self._take()
            try:
                result = _ask(process, task)
            except (OSError, EOFError, ValueError):
                process.kill()
                if self._closing:
                    break
                continue
            self._idle.put(process)
            return result
        lost = f"the part at byte {task.chunk.start:,} is lost: the process that read it was killed twice"
        return _Result(task, Found(skipped=[Skipped(task.source, lost)]), [])

    def _take(self) -> "subprocess.Popen[bytes]":
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            pass
        code = "from mundap.documents.wikipedia.work import serve; serve()"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        process = subprocess.Popen(  # noqa: S603 (our own Python, our own code)
            [sys.executable, "-P", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self._all.append(process)
        return process


def _ask(process: "subprocess.Popen[bytes]", task: Task) -> _Result:
    if process.stdin is None or process.stdout is None:
        raise EOFError
    data = task.chunk.data
    request = asdict(task)
    request["chunk"]["data"] = ""
    _send(process.stdin, request, data)
    answer, payload = _receive(process.stdout)
    skipped = [Skipped(*one) for one in answer["skipped"]]
    return _Result(task, Found(Counter(answer["counts"]), skipped), payload.split(b"\n") if payload else [])


def _send(pipe: IO[bytes], header: dict[str, Any], data: bytes) -> None:
    """A line of JSON, the number of bytes that follow, and the bytes."""
    pipe.write(json.dumps(header).encode() + b"\n%d\n" % len(data) + data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    header, size = pipe.readline(), pipe.readline()
    if not size:
        raise EOFError
    data = pipe.read(int(size))
    if len(data) < int(size):
        raise EOFError
    return json.loads(header), data


def serve() -> None:
    """Run as a worker process: do incoming tasks until standard input closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process decides when to stop
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a stray print must not end up between the answers
    while True:
        try:
            request, data = _receive(sys.stdin.buffer)
        except EOFError:
            return
        chunk = Chunk(**{**request["chunk"], "data": data})
        cut = Cut(**request["cut"]) if request["cut"] else None
        task = Task(request["path"], request["source"], request["head"], chunk, Style(**request["style"]), cut)
        result = _work(task)
        skipped = [[one.source, one.reason] for one in result.found.skipped]
        try:
            _send(answers, {"counts": result.found.counts, "skipped": skipped}, b"\n".join(result.lines))
        except BrokenPipeError:
            return
