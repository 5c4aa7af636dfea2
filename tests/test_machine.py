import subprocess
import sys

import pytest

from mundap.machine import memory

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


def machine(root, cgroup, files):
    """A machine of 8 GB, of which 6 are free, and its cgroups."""
    meminfo = "MemTotal:        8000000 kB\nMemAvailable:    6000000 kB\nHugePages_Total:       0\n"
    for name, text in {"proc/meminfo": meminfo, "proc/self/cgroup": cgroup, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


VERSION_2 = {
    "sys/fs/cgroup/box/memory.max": "3000000000\n",
    "sys/fs/cgroup/box/memory.current": "2000000000\n",
    "sys/fs/cgroup/box/memory.stat": "anon 1500000000\ninactive_file 300000000\nactive_file 200000000\n",
    "sys/fs/cgroup/box/one/memory.max": "max\n",
    "sys/fs/cgroup/box/one/memory.current": "1000\n",
}
VERSION_1 = {
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "3000000000\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "2000000000\n",
    "sys/fs/cgroup/memory/memory.stat": "inactive_file 7\ntotal_inactive_file 300000000\ntotal_active_file 200000000\n",
}


@pytest.mark.parametrize(
    ("cgroup", "files"),
    [
        ("0::/box/one\n", VERSION_2),  # the limit is that of the group around it
        ("4:memory:/docker/unseen\n1:cpu:/\n0::/\n", VERSION_1),  # in a container, which sees its own group as the top
    ],
    ids=["version 2", "version 1"],
)
def test_memory_is_what_a_cgroup_leaves_with_the_files_it_can_drop(tmp_path, cgroup, files):
    assert memory(machine(tmp_path, cgroup, files)) == (1_500_000_000, 3_000_000_000)


def test_memory_is_that_of_the_machine_where_no_cgroup_has_less(tmp_path):
    plain = (6_144_000_000, 8_192_000_000)
    assert memory(machine(tmp_path / "a", "0::/\n", {})) == plain
    unlimited = VERSION_1 | {"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}
    assert memory(machine(tmp_path / "b", "4:memory:/\n", unlimited)) == plain
    assert memory(tmp_path / "none") is None


def test_a_full_cgroup_leaves_nothing(tmp_path):
    full = VERSION_2 | {"sys/fs/cgroup/box/memory.current": "4000000000\n"}
    assert memory(machine(tmp_path, "0::/box\n", full)).free == 0
