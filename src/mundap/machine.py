"""The machine: cores, threads and child processes."""

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TypeVar

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


def one_blas_thread() -> int:
    """Limit every OpenBLAS in this process (numpy's and FAISS's) to one thread; returns how many there are.

    After a product its threads spin for some milliseconds, waiting for the next, and meanwhile take the cores from the
    OpenMP threads of FAISS. One thread is enough for what a question needs. OPENBLAS_NUM_THREADS in the environment is
    the user's own choice and stays as it is. Only Linux tells which libraries are loaded.
    """
    import contextlib
    import ctypes
    from pathlib import Path

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
