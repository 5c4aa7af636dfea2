"""Many places of mapped files read at once, before they are needed.

A place that is not in memory is otherwise read when it is touched, one after another: a hundred of them take as long as
a hundred trips to the disk, and more CPU time than the search itself. Told of all together, the system reads them side
by side. Only Linux can be told with one call; elsewhere, and where that is forbidden, nothing happens.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

_WILL_NEED = 3
_MOST = 1024  # places in a call
_PAGE = np.uint64(4096)


def read_ahead(addresses: np.ndarray, size: int) -> bool:
    """Have the pages read on which these places of mapped files are; returns whether the system was told.

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


def disk_reads() -> int:
    """How often this thread has waited for a page to be read from disk; 0 where nobody counts."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)).ru_majflt
