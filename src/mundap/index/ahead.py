"""Read ahead in memory-mapped files: many places at once, before they are needed.

A place that is not in memory is otherwise read when it is touched, one after another: a hundred of them take as long as
a hundred trips to the disk, and more CPU time than the search itself. Told of all together, the system reads them side
by side. Only Linux can be told with one call; elsewhere, and where that is forbidden, nothing happens.
"""

import ctypes
import mmap
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

_WILL_NEED = 3
_MOST = 1024  # places in a call
_PAGE = np.uint64(mmap.PAGESIZE)  # 4 kB, but 16 or 64 on some ARM machines
_COLD = 0.02  # of the places were not in memory: waiting for each takes far longer than telling of all
_TIMES = 50


def read_ahead(addresses: np.ndarray, size: int) -> bool:
    """Ask the system to load the pages of these places; returns whether it was asked.

    Args:
        addresses: Where they begin in memory (u64).
        size: How many bytes each has.
    """
    tell = _teller(os.getpid())
    if tell is None or not len(addresses):
        return False
    first = addresses - addresses % _PAGE
    last = addresses + np.uint64(size - 1)
    pages = np.stack([first, last - last % _PAGE + _PAGE - first], axis=1)
    return all(tell(pages[start : start + _MOST]) for start in range(0, len(pages), _MOST))


@cache
def _teller(process: int) -> Callable[[np.ndarray], bool] | None:
    """Tells the system of this process's pages, given as rows of address and length; None where it cannot be told."""
    if sys.platform != "linux":
        return None
    try:
        library: Any = ctypes.CDLL(None).process_madvise
        handle = os.pidfd_open(process)
    except (AttributeError, OSError):
        return None

    def tell(pages: np.ndarray) -> bool:
        place, count = ctypes.c_void_p(pages.ctypes.data), ctypes.c_size_t(len(pages))
        return int(library(handle, place, count, _WILL_NEED, ctypes.c_uint(0))) > 0

    return tell


class Ahead:
    """Read ahead only while reads come from disk, and try without now and then.

    Telling takes time too, which is lost where everything is in memory. Threads may miscount, which does no harm.
    """

    def __init__(self) -> None:
        self._left = 0  # times to read ahead

    def read(self, addresses: Callable[[], np.ndarray], size: int, count: int, take: Callable[[], object]) -> None:
        """Call `take`, which touches `count` places; announce them to the system if the last ones came from disk."""
        left = self._left
        if left:
            self._left = left - 1
            read_ahead(addresses(), size)
        before = _disk_reads()
        take()
        if not left and _disk_reads() - before > count * _COLD:
            self._left = _TIMES


def _disk_reads() -> int:
    """The number of major page faults of this thread; 0 where the system does not count them."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)).ru_majflt
