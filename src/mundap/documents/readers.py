"""Read files in separate processes with limits on memory and time: a small file can exhaust a machine.

A reader is a Python process that is sent the name of a file and sends back its documents. One that needs too much, or
dies, costs its file and nothing else: the file is skipped with the reason, and the next one is read by a new process.
Readers work ahead, so that a folder of slow files keeps all cores busy. Nothing is pickled.
"""

import contextlib
import json
import os
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self, get_args, get_origin, get_type_hints

from mundap.documents import read
from mundap.documents.files import SourceFile
from mundap.errors import MundapError
from mundap.machine import cores, end_with_parent
from mundap.records import Document, Skipped

_FRAME = struct.Struct(">Q")
_BATCH = 64  # documents sent at once
_BATCH_SIZE = 1 << 18  # characters
_BLOCK_SIZE = 32  # characters that a block takes on its way, at least
_BATCH_SECONDS = 0.5
_START_SECONDS = 120.0
_LOADED = 10  # times the limit, on a machine that is busy with other things
_LARGEST_SAMPLE = 1 << 20  # characters of a file's documents that are kept until the file is read
_PATIENCE = 0.5  # seconds of waiting for the readers there are, until there is one more
_FIELDS = [one.name for one in fields(Document)]
_SKIPPED_FIELDS = [one.name for one in fields(Skipped)]
_RECORDS = {name: get_args(kind)[0] for name, kind in get_type_hints(Document).items() if get_origin(kind) is tuple}


@dataclass(frozen=True, slots=True)
class Limits:
    """How much memory and time one file may take. Large files get more, since a decompression bomb is small.

    Attributes:
        memory: Bytes, beside what the process takes anyway.
        memory_factor: Bytes more for each byte of the file.
        seconds: Until the next document, or the end.
        seconds_a_megabyte: More for each megabyte of the file.
    """

    memory: int = 2 << 30
    memory_factor: int = 8
    seconds: float = 60.0
    seconds_a_megabyte: float = 30.0

    def memory_for(self, size: int) -> int:
        """How many bytes a file of this size may take."""
        return self.memory + self.memory_factor * size

    def seconds_for(self, size: int) -> float:
        """How long a document of a file of this size may take."""
        return self.seconds + self.seconds_a_megabyte * size / (1 << 20)


class _Sample(NamedTuple):
    """All documents of a file, with its size and time when they were read, and its SHA-256."""

    documents: list[Document | Skipped]
    stamp: tuple[int, int] | None
    digest: bytes


class Readers:
    """Processes that read files. Use it as a context manager.

    Args:
        form: Read all files as this format instead of telling it from each.
        limits: What one file may take.
        processes: How many; by default one per core.
    """

    def __init__(self, form: str | None = None, limits: Limits | None = None, processes: int | None = None) -> None:
        self._form = form
        self._limits = limits or Limits()
        self._processes = processes
        self._samples: dict[str, _Sample] = {}
        self._started = 0
        self._waited = 0.0  # seconds, for readers
        self._idle: list[_Reader] = []
        self._begun: dict[str, _Reader] = {}
        self.position = 0  # how many bytes of the current file have been read
        self.digest = b""  # the SHA-256 of the file that was read last; empty if it was not read to its end

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for reader in (*self._idle, *self._begun.values()):
            reader.end()
        self._idle.clear()
        self._begun.clear()

    def start(self) -> None:
        """Start a process ahead of time."""
        self._idle.append(_Reader())
        self._started += 1

    @cached_property
    def _most(self) -> int:
        return self._processes or cores()

    def sample(self, files: Iterable[SourceFile], most: int) -> list[Document | Skipped]:
        """The first documents of each file. Where these are all it has, it is not read again for `read`."""
        coming = deque(files)
        found: list[Document | Skipped] = []
        while coming:
            found += self._sample(coming.popleft(), coming, most)
        return found

    def _sample(self, file: SourceFile, coming: Iterable[SourceFile], most: int) -> list[Document | Skipped]:
        stamp = _stamp(file)
        with closing(self._reading(file, coming)) as documents:
            found = list(islice(documents, most))
            whole = next(documents, None) is None
        size = sum(len(one.text) for one in found if isinstance(one, Document))
        if whole and stamp and size <= _LARGEST_SAMPLE:
            self._samples[file.source] = _Sample(found, stamp, self.digest)
        return found

    def read(self, file: SourceFile, coming: Iterable[SourceFile] = ()) -> Iterator[Document | Skipped]:
        """The documents of a file; for what cannot be read, the reason instead.

        Args:
            file: What to read.
            coming: What is to be read after it, in order: while it is read, these are started.

        Raises:
            MundapError: There is not enough memory to read anything.
        """
        sample = self._samples.pop(file.source, None)
        if sample is None or sample.stamp != _stamp(file):
            return self._reading(file, coming)
        self.position = 0
        self.digest = sample.digest
        self._begin_next(coming)
        return iter(sample.documents)

    def _reading(self, file: SourceFile, coming: Iterable[SourceFile]) -> Generator[Document | Skipped, None, None]:
        self.position = 0
        self.digest = b""
        if file.source not in self._begun:
            self._begin(file)
        reader = self._begun.pop(file.source)
        self._begin_next(coming)
        size = _size(file)
        try:
            while True:
                began = time.monotonic()
                said = reader.next(self._limits.seconds_for(size))
                self._waited += time.monotonic() - began
                self.position = said["at"]
                yield from map(_restored, said["found"])
                if said["end"]:
                    self.digest = bytes.fromhex(said["digest"])
                    break
        except _TooMuch as error:
            reader.end()
            self._started -= 1
            yield Skipped(file.source, error.reason(self._limits, size))
        except BaseException:
            reader.end()
            self._started -= 1
            raise
        else:
            self._idle.append(reader)

    def _begin_next(self, coming: Iterable[SourceFile]) -> None:
        """Begin files that are to be read later, as many as there are readers for."""
        for file in coming:
            if not self._can_begin():
                return
            if file.source not in self._begun and file.source not in self._samples:
                self._begin(file)

    def _can_begin(self) -> bool:
        """Whether a file can be begun ahead. A further process pays only where reading is what takes the time."""
        return bool(self._idle) or (self._started < self._most and self._waited > _PATIENCE * self._started)

    def _begin(self, file: SourceFile) -> None:
        if not self._idle:
            self.start()
        reader = self._idle.pop()
        memory = self._limits.memory_for(_size(file))
        self._begun[file.source] = reader
        reader.begin(
            {"path": str(file.path), "id": file.id, "source": file.source, "form": self._form, "memory": memory}
        )


class _TooMuch(Exception):
    """A file took more than it may, or its reader died of it."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind

    def reason(self, limits: Limits, size: int) -> str:
        if self.kind == "memory":
            return f"reading it takes more than {limits.memory_for(size) >> 20:,} MB of memory"
        if self.kind == "time":
            return f"reading it takes longer than {limits.seconds_for(size):,.0f} seconds"
        return f"the process that read it was ended ({self.kind})"


class _Reader:
    """One process, and a thread that receives what it sends."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from mundap.documents.readers import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._received: queue.Queue[dict[str, Any] | None] = queue.Queue(4)
        self._ready = False
        threading.Thread(target=self._receive, daemon=True).start()

    def begin(self, task: dict[str, Any]) -> None:
        """Send a file to read."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it died: whoever waits for the answer is told
            self._process.stdin.write(json.dumps(task).encode() + b"\n")
            self._process.stdin.flush()

    def next(self, seconds: float) -> dict[str, Any]:
        """What it says next.

        Raises:
            _TooMuch: It needs too much, or died.
            MundapError: It cannot work at all.
        """
        if not self._ready:
            if self._wait(_START_SECONDS) is None:
                raise MundapError(
                    "the process that reads files cannot start: there may be too little memory. Nothing was lost; "
                    "free some, or raise the limit (ulimit -v), and run the same command again."
                )
            self._ready = True
        said = self._wait(seconds)
        if said is None:
            code = self._process.wait()
            raise _TooMuch(f"signal {-code}" if code < 0 else f"exit code {code}")
        if said.get("failed") == "machine":
            raise MundapError(
                "out of memory: the limit of this process (ulimit -v) is too low to read the files. Nothing was lost; "
                "raise it and run the same command again."
            )
        if "failed" in said:
            raise _TooMuch(said["failed"])
        return said

    def _wait(self, seconds: float) -> dict[str, Any] | None:
        """What comes in that time; later, if the process did not get a core to do its work on."""
        before = self._worked()
        for _ in range(_LOADED):
            with contextlib.suppress(queue.Empty):
                return self._received.get(timeout=seconds)
            if self._worked() - before > seconds / 2:
                break
        raise _TooMuch("time")

    def _worked(self) -> float:
        """Seconds of a core that the process has had; where that cannot be seen, those of the clock."""
        try:
            facts = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(facts[11]) + int(facts[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError, AttributeError):
            return time.monotonic()

    def _receive(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            while head := self._process.stdout.read(_FRAME.size):
                data = self._process.stdout.read(*_FRAME.unpack(head))
                self._received.put(json.loads(data))
        self._received.put(None)

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        while self._process.poll() is None or not self._received.empty():  # the thread may wait for room
            with contextlib.suppress(queue.Empty):
                self._received.get(timeout=0.01)
        for pipe in filter(None, (self._process.stdin, self._process.stdout)):
            with contextlib.suppress(OSError):
                pipe.close()


def _size(file: SourceFile) -> int:
    size, _ = _stamp(file) or (0, 0)
    return size


def _stamp(file: SourceFile) -> tuple[int, int] | None:
    """Size and modification time of a file, which reveal a change; None if it is gone."""
    try:
        status = file.path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _restored(values: list[Any]) -> Document | Skipped:
    if len(values) == len(_SKIPPED_FIELDS):
        return Skipped(*values)
    facts = dict(zip(_FIELDS, values, strict=True))
    for name, kind in _RECORDS.items():
        facts[name] = tuple(kind(*one) for one in facts[name])
    return Document(**facts)


# ---------------------------------------------------------------- in the process


def serve() -> None:
    """Run as a reader process: read the files named on standard input until it closes."""
    end_with_parent()  # a loop would never notice
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process decides when to stop
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a stray print must not end up between the answers
    _send(answers, {"ready": True})
    for line in sys.stdin.buffer:
        task = json.loads(line)
        memory = _Memory()
        memory.limit(task["memory"])
        try:
            _work(SourceFile(Path(task["path"]), task["id"], task["source"]), task["form"], answers)
        except MemoryError:
            memory.free()
            _send(answers, {"failed": "machine" if memory.low else "memory"})
            return
        except BrokenPipeError:
            return
        memory.free()


def _work(file: SourceFile, form: str | None, answers: IO[bytes]) -> None:
    batch: list[list[Any]] = []
    size, sent = 0, time.monotonic()
    for found in read(file, form):
        if isinstance(found, Skipped):
            batch.append([found.source, found.reason, found.expected])
        else:
            batch.append([getattr(found, name) for name in _FIELDS])
            size += len(found.text) + sum(map(len, found.metadata.values())) + _BLOCK_SIZE * len(found.blocks)
        if len(batch) >= _BATCH or size >= _BATCH_SIZE or time.monotonic() - sent >= _BATCH_SECONDS:
            _send(answers, {"found": batch, "at": file.position(), "end": False})
            batch, size, sent = [], 0, time.monotonic()
    digest = b""
    with contextlib.suppress(OSError):  # it went away, and what was read of it is as good as before
        digest = file.digest()
    _send(answers, {"found": batch, "at": file.position(), "end": True, "digest": digest.hex()})


def _send(answers: IO[bytes], value: dict[str, Any]) -> None:
    data = json.dumps(value, default=dict).encode()
    answers.write(_FRAME.pack(len(data)) + data)
    answers.flush()


class _Memory:
    """The limit on this process's memory. Only where the system has one, and shows how much is in use: Linux."""

    def __init__(self) -> None:
        self.low = False  # the process was started with a lower limit than a file may need

    def limit(self, more: int) -> None:
        """Allow so many bytes more than are in use now."""
        with contextlib.suppress(ImportError, OSError, ValueError):
            import resource

            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            _, most = resource.getrlimit(resource.RLIMIT_AS)
            self.low = 0 <= most < used + more
            if not self.low:
                resource.setrlimit(resource.RLIMIT_AS, (used + more, most))

    def free(self) -> None:
        """Lift the limit as far as that is allowed."""
        with contextlib.suppress(ImportError, OSError, ValueError):
            import resource

            most = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
