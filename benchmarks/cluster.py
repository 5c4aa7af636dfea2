"""Plain tasks beside Ray Data: pieces of work over two local nodes, one of which is killed with -9 after the third.

    RAY_worker_niceness=0 python benchmarks/cluster.py tasks|data|actors|pool

`tasks` is what `mundap index --ray` does; `data` is Ray Data with a function, `actors` with two actors, `pool` with one
or two. Shows seconds, how many pieces came back and how many were done, and CPU time of the driver and of its children.
"""

import contextlib
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PIECES = 16
SECONDS = 0.5
OBJECTS = 100 << 20


def main() -> None:
    """Run one way and print its figures as JSON."""
    import ray
    from ray.cluster_utils import Cluster

    way = sys.argv[1]
    out = Path(tempfile.mkdtemp(prefix="mundap-cluster-"))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": OBJECTS})
    doomed = cluster.add_node(num_cpus=1, object_store_memory=OBJECTS)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    killed: list[float] = []
    raylet = doomed.all_processes["raylet"][0].process.pid
    started = time.monotonic()
    threading.Thread(target=kill, args=(raylet, out, killed), daemon=True).start()
    if way == "tasks":
        came = list(by_tasks(out))
    else:
        came = list(by_data(way, out))
    ended = time.monotonic()
    ray.shutdown()
    cluster.shutdown()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    figures = {
        "way": way,
        "seconds": round(ended - started, 1),
        "after_the_kill": round(ended - killed[0], 1),
        "came_back": [len(came), len(set(came))],
        "done": len(list(out.iterdir())),
        "cpu_seconds": round(sum(one.ru_utime + one.ru_stime for one in used), 1),
    }
    print(json.dumps(figures))  # noqa: T201


def piece(number: int, out: Path) -> int:
    """One piece of work: a file that says that it was done."""
    time.sleep(SECONDS)
    (out / f"{number}-{os.getpid()}-{time.time()}").write_text("")
    return number


def by_tasks(out: Path) -> Iterator[int]:
    """As `mundap.engines.cluster.spread`."""
    import ray

    task = ray.remote(num_cpus=1, max_retries=-1)(piece)
    waiting = [task.remote(number, out) for number in range(PIECES)]
    while waiting:
        done, waiting = ray.wait(waiting, timeout=1.0)
        yield from ray.get(done)


def by_data(way: str, out: Path) -> Iterator[int]:
    """The same with Ray Data."""
    from ray import data

    def several(batch: dict[str, Any]) -> dict[str, Any]:
        return {"done": [piece(int(number), out) for number in batch["item"]]}

    class Actor:
        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            return several(batch)

    data.DataContext.get_current().enable_progress_bars = False
    numbers = data.from_items(list(range(PIECES)), override_num_blocks=PIECES)
    if way == "data":
        made = numbers.map_batches(several, batch_size=1, num_cpus=1)
    elif way == "actors":
        made = numbers.map_batches(Actor, batch_size=1, num_cpus=1, concurrency=2)
    else:
        made = numbers.map_batches(Actor, batch_size=1, num_cpus=1, concurrency=(1, 2))
    for row in made.iter_rows():
        yield int(row["done"])


def kill(raylet: int, out: Path, killed: list[float]) -> None:
    """End a node with all its processes once three pieces are done."""
    while len(list(out.iterdir())) < 3:
        time.sleep(0.05)
    killed.append(time.monotonic())
    for process in below(raylet):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def below(parent: int) -> list[int]:
    """A process and all that it started."""
    children: dict[int, list[int]] = {}
    for entry in (path.name for path in Path("/proc").iterdir()):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
                children.setdefault(int(fields[1]), []).append(int(entry))
    found = [parent]
    for one in found:
        found += children.get(one, [])
    return found


if __name__ == "__main__":
    main()
