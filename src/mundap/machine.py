"""What the machine gives us to work with."""

import os


def cores() -> int:
    """How many threads or processes to use: the cores this process may run on, or MUNDAP_THREADS."""
    wanted = os.environ.get("MUNDAP_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
