"""Work in forked processes: quick to start, and free to be killed. The main process only forks and waits."""

import contextlib
import ctypes
import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

LIBRARY = "MUNDAP_ATTACK_LIBRARY"  # also marks every process of the attack
TOO_LONG = 71
T = TypeVar("T")


@dataclass
class Totals:
    """What came of an attack.

    Attributes:
        tried: How often.
        survived: How often the product did what it promises.
        lost: Committed text was gone, or what was never committed was there.
        wrong: Results were other than they should be, and nothing said so.
        stuck: It could not go on afterwards, or took too long.
        notes: The first few failures in words.
    """

    tried: int = 0
    survived: int = 0
    lost: int = 0
    wrong: int = 0
    stuck: int = 0
    notes: list[str] = field(default_factory=list)

    def judge(self, verdict: str, note: str) -> None:
        """Count one attempt: `survived`, `lost`, `wrong` or `stuck`."""
        self.tried += 1
        setattr(self, verdict, getattr(self, verdict) + 1)
        if verdict != "survived" and len(self.notes) < 20:
            self.notes.append(f"{verdict}: {note}")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Effort:
    """How much of an attack is tried: everything, or a sample within so many seconds.

    A busy machine is no failure: when the time is up, what is left of a sample is not tried.

    Attributes:
        short: Only a sample.
        most: Moments of each kind to kill at; None for all.
    """

    def __init__(self, short: bool = False, most: int | None = None, seconds: float = math.inf) -> None:
        self.short = short
        self.most = most
        self._until = time.monotonic() + seconds

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self._until

    def some(self, items: Iterable[T], least: int = 1) -> Iterator[T]:
        """The first of them in any case, and the others while there is time."""
        for number, item in enumerate(items):
            if number >= least and self.over:
                return
            yield item


def summed(totals: dict[str, Totals]) -> dict[str, int]:
    """The sums over all attacks, under the names of the report."""
    names = {"tried": "tried", "survived": "survived", "lost": "lost", "silently wrong": "wrong", "stuck": "stuck"}
    return {name: sum(getattr(one, field) for one in totals.values()) for name, field in names.items()}


def preloaded(work: Path) -> None:
    """Start this program again with the library that kills, unless it is there."""
    if os.environ.get(LIBRARY):
        return
    library = work / "killer.so"
    source = Path(__file__).with_name("killer.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True)
    # OpenBLAS starts its threads when it is imported, and a process with threads must not fork.
    environment = {**os.environ, "LD_PRELOAD": str(library), LIBRARY: str(library), "OPENBLAS_NUM_THREADS": "1"}
    os.execve(sys.executable, [sys.executable, "-m", "tests.attack.run", *sys.argv[1:]], environment)


def arm(folder: Path, at: int) -> None:
    """End this process at the n-th change of a file under the folder; 0 only counts."""
    _killer().killer_arm(str(folder).encode(), ctypes.c_long(at))


def counted() -> int:
    """How many changes there have been."""
    return int(_killer().killer_count())


def _killer() -> Any:
    return ctypes.CDLL(os.environ[LIBRARY])


def child(work: Callable[[], Any], seconds: float = 1800.0) -> tuple[int, Any]:
    """Do something in a forked process; its exit code (negative: the signal) and what it returned.

    An exception is an exit code of 70 and its text; one that takes too long is killed, and is TOO_LONG. A busy machine is
    no failure.
    """
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        os.close(reading)
        code, value = 0, None
        try:
            value = work()
        except BaseException as error:  # whatever it is, it is told
            code, value = 70, f"{type(error).__name__}: {error}"
        with contextlib.suppress(BaseException), os.fdopen(writing, "w") as pipe:
            json.dump(value, pipe)
        os._exit(code)
    os.close(writing)
    said = _read(reading, process, seconds)
    _, status = os.waitpid(process, 0)
    if said is None:
        return TOO_LONG, f"it took longer than {seconds:.0f} seconds"
    code = os.waitstatus_to_exitcode(status)
    return code, json.loads(said) if said else None


def _read(pipe: int, process: int, seconds: float) -> bytes | None:
    """All that a child says; one that takes too long is killed, and says nothing."""
    said, until = b"", time.monotonic() + seconds
    try:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                os.kill(process, signal.SIGKILL)
                return None
            part = os.read(pipe, 1 << 16)
            if not part:
                return said
            said += part
    finally:
        os.close(pipe)


def left_running(seconds: float) -> dict[int, str]:
    """The processes of this attack that still run after so many seconds, and their commands."""
    mark = f"{LIBRARY}={os.environ[LIBRARY]}".encode()
    until = time.monotonic() + seconds
    while True:
        running = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it ended while it was looked at, or is somebody else's
                if int(folder.name) != os.getpid() and mark in (folder / "environ").read_bytes().split(b"\0"):
                    running[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
        if not running or time.monotonic() > until:
            return running
        time.sleep(0.1)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the panic messages of libraries that meet a damaged file."""
    saved = os.dup(2)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nothing)
