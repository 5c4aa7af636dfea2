"""What the machine gives us to work with."""

import os


def cores() -> int:
    """How many threads or processes to use: the cores this process may run on, or MUNDAP_THREADS."""
    wanted = os.environ.get("MUNDAP_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def end_with_parent() -> None:
    """Let the system end this process with the one that started it, however that ends. Only Linux can."""
    import contextlib
    import ctypes
    import signal

    parent_death_signal = 1
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(parent_death_signal, signal.SIGKILL)
