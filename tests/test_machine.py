import subprocess
import sys

import pytest

LOOK = """
import faiss, numpy, threadpoolctl
from mundap.machine import one_blas_thread

def threads():
    return {one["num_threads"] for one in threadpoolctl.threadpool_info() if one["internal_api"] == "openblas"}

threadpoolctl.threadpool_limits(2)
numpy.ones((100, 100)) @ numpy.ones((100, 100))
before = threads()
print(before, one_blas_thread() >= 1, threads())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which libraries are loaded")
def test_every_openblas_works_in_one_thread(monkeypatch):
    pytest.importorskip("threadpoolctl")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "{2} True {1}"
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "2")
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "{2} False {2}"
