"""A process that restarts the server if a signal kills it.

An index is read where it lies on the disk, as mapped memory. If somebody cuts such a file short at the wrong moment,
the system ends the process that reads it (SIGBUS). The address is held by this process, so that clients that come in
between wait for a moment; the new server answers 503 for a damaged index until it is whole again.
"""

import logging
import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from mundap.machine import end_with_parent
from mundap.serving import logs

_NAMES = ("SIGBUS", "SIGSEGV", "SIGABRT", "SIGILL", "SIGFPE")
_CRASHES = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]  # Windows has no SIGBUS
_MOST = 5  # in that time; more is no accident
_SECONDS = 60.0


def supervise(run: Callable[[bool], None], listener: socket.socket) -> None:
    """Run a function in a child process, and again if that crashes. Its exceptions are raised in the child.

    Args:
        run: Told whether it runs again after a crash.
        listener: The address of the server, which this process holds until it is told to stop.
    """
    if not hasattr(os, "fork") or sys.platform == "darwin":  # its libraries do not bear a fork
        run(False)
        return
    crashes: deque[float] = deque(maxlen=_MOST)
    while True:
        child = os.fork()
        if not child:
            end_with_parent()
            os.setpgid(0, 0)  # Ctrl-C reaches this process alone, which passes it on: once
            run(bool(crashes))
            return
        code = os.waitstatus_to_exitcode(_wait(child, listener))
        if -code not in _CRASHES or listener.fileno() < 0:
            _end_as(code)
            return
        logs.note("server crashed", logging.ERROR, signal=signal.Signals(-code).name)
        crashes.append(time.monotonic())
        if len(crashes) == _MOST and crashes[-1] - crashes[0] < _SECONDS:
            logs.note("server given up", logging.ERROR, crashes=_MOST, seconds=_SECONDS)
            sys.exit(1)


def _end_as(code: int) -> None:
    """End as the server did; one that a signal ended as a shell tells it."""
    if code > 0:
        sys.exit(code)
    if code < 0:
        sys.exit(128 - code)


def _wait(child: int, listener: socket.socket) -> int:
    """Wait for the child. Being told to stop is passed on to it; nobody new is to wait at the address then."""

    def tell(number: int, frame: Any) -> None:
        listener.close()
        os.kill(child, number)

    before = {number: signal.signal(number, tell) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return os.waitpid(child, 0)[1]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
