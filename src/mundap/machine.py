"""The machine: cores, threads and child processes."""

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

_In = TypeVar("_In")
_Out = TypeVar("_Out")


def cores() -> int:
    """How many threads or processes to use: the cores this process may run on, or MUNDAP_THREADS."""
    wanted = os.environ.get("MUNDAP_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Memory(NamedTuple):
    """Bytes of memory.

    Attributes:
        free: What this process may still take.
        total: What there is in all.
    """

    free: int
    total: int


def memory(root: Path = Path("/")) -> Memory | None:
    """The memory of the machine, or what a cgroup (a container, a systemd unit) leaves of it. Only Linux tells.

    Args:
        root: Where `proc` and `sys` are.
    """
    lines = _lines(root / "proc" / "meminfo")
    facts = {line.partition(":")[0]: 1024 * int(line.split()[1]) for line in lines if line.endswith("kB")}
    if "MemAvailable" not in facts:
        return None
    free, total = facts["MemAvailable"], facts["MemTotal"]
    for folder in _cgroups(root):
        limit, used = (_first_number(folder, names) for names in (_LIMIT, _USED))
        if limit is not None and used is not None:
            total = min(total, limit)
            free = min(free, max(0, limit - used + _cached(folder)))
    return Memory(free, total)


_LIMIT = ("memory.max", "memory.limit_in_bytes")  # of version 2, of version 1
_USED = ("memory.current", "memory.usage_in_bytes")
_CACHED = ({"inactive_file", "active_file"}, {"total_inactive_file", "total_active_file"})


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _cgroups(root: Path) -> Iterator[Path]:
    """The folders of this process's cgroup and of all those around it, whose limits hold as well.

    In a container the path may be that of the machine around it, of which only the top is to be seen.
    """
    for line in _lines(root / "proc" / "self" / "cgroup"):
        number, controllers, path = line.split(":", 2)
        top = root / "sys" / "fs" / "cgroup"
        if "memory" in controllers.split(","):
            top = top / "memory"
        elif number != "0":
            continue
        here = top / path.strip("/")
        yield here
        while here != top:
            here = here.parent
            yield here


def _first_number(folder: Path, names: Iterable[str]) -> int | None:
    """What stands in the first of these files that has a number; version 2 writes `max` for no limit."""
    for name in names:
        for line in _lines(folder / name):
            if line.isdigit():
                return int(line)
    return None


def _cached(folder: Path) -> int:
    """Bytes of files that are counted as used, and given back when somebody needs the memory."""
    pairs = [line.split() for line in _lines(folder / "memory.stat")]
    facts = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
    return max(sum(facts.get(name, 0) for name in names) for names in _CACHED)


def one_blas_thread() -> int:
    """Limit every OpenBLAS in this process (numpy's and FAISS's) to one thread; returns how many there are.

    After a product its threads spin for some milliseconds, waiting for the next, and meanwhile take the cores from the
    OpenMP threads of FAISS. One thread is enough for what a question needs. OPENBLAS_NUM_THREADS in the environment is
    the user's own choice and stays as it is. Only Linux tells which libraries are loaded.
    """
    import contextlib
    import ctypes

    if os.environ.get("OPENBLAS_NUM_THREADS"):
        return 0
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            if "openblas" in line.rpartition("/")[2]:
                found.add(line[line.index("/") :])
    changed = 0
    for path in found:
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(path)
            names = (f"{prefix}openblas_set_num_threads{suffix}" for prefix in ("", "scipy_") for suffix in ("", "64_"))
            setter = next((getattr(library, name) for name in names if hasattr(library, name)), None)
            if setter is not None:
                setter(1)
                changed += 1
    return changed


def in_threads(work: Callable[[_In], _Out], parts: Iterable[_In]) -> Iterator[_Out]:
    """Like `map`, with one thread per core.

    For work in numpy and FAISS, which then take one core each.
    """
    from collections import deque
    from concurrent.futures import Future, ThreadPoolExecutor

    import faiss

    _one_blas_thread_from_now_on()
    with ThreadPoolExecutor(cores(), initializer=faiss.omp_set_num_threads, initargs=(1,)) as pool:
        waiting: deque[Future[_Out]] = deque()
        for part in parts:
            waiting.append(pool.submit(work, part))
            if len(waiting) > 2 * cores():  # enough that no core waits, and little to hold in memory
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@cache
def _one_blas_thread_from_now_on() -> None:
    """Once is enough, and looking for the libraries takes longer than a question."""
    one_blas_thread()


def end_with_parent() -> None:
    """End this process when its parent ends, however that happens (Linux only)."""
    import contextlib
    import ctypes
    import signal

    parent_death_signal = 1
    with contextlib.suppress(OSError, AttributeError, TypeError):  # Windows has no library without a name
        ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGKILL)
