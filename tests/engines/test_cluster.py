"""What can be said of a Ray cluster without one; `test_ray.py` has the rest."""

import socket

import pytest

from mundap.engines import cluster
from mundap.errors import EngineError


def test_where_nobody_listens_is_told_at_once():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        cluster._check_reachable(f"127.0.0.1:{port}")
        cluster._check_reachable(f"ray://127.0.0.1:{port}")
    for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}", "127.0.0.1:99999"):
        with pytest.raises(EngineError, match=f"no Ray cluster at {address} .*ray start --head"):
            cluster._check_reachable(address)
    cluster._check_reachable("auto")  # is for Ray to find


class _SlowRay:
    """Stands for a Ray whose nodes do not start in time, some times: that cannot be had on purpose."""

    def __init__(self, failures):
        self.left, self.stopped = failures, 0

    def init(self, **_):
        if self.left:
            self.left -= 1
            raise Exception("The current node timed out during startup")

    def shutdown(self):
        self.stopped += 1


def test_a_busy_machine_is_tried_again():
    ray = _SlowRay(2)
    cluster._start(ray)
    assert (ray.left, ray.stopped) == (0, 2)  # nothing is left of what did not start
    ray = _SlowRay(3)
    with pytest.raises(EngineError, match="no Ray cluster at local .The current node timed out"):
        cluster._start(ray)
    assert ray.stopped == 3
