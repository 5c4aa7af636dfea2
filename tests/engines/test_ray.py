"""Encoding over a real Ray cluster of two local nodes. `make test-ray`."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from mundap.engines import build, cluster, open_index
from mundap.errors import EngineError, MundapError
from mundap.index.build import Options
from tests.engines.test_vectors import same
from tests.ray_cluster import PATIENCE, with_ray

OBJECTS = 80 << 20
SHARDS = 24


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """120 files of one passage each, and one of 400 rows."""
    folder = tmp_path_factory.mktemp("many") / "docs"
    folder.mkdir()
    for number in range(120):
        (folder / f"{number:03d}.txt").write_text(f"The river number{number} runs to the city of the king.")
    rows = [f'{{"_id": "r{number}", "text": "music row{number}"}}\n' for number in range(400)]
    (folder / "rows.jsonl").write_text("".join(rows))
    return folder


def processes_below(parent):
    """A process and all that it started."""
    below = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
                below.setdefault(int(fields[1]), []).append(int(entry))
    found = [parent]
    for one in found:
        found += below.get(one, [])
    return found


def send(processes, number):
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def working(raylet):
    """The processes of a node that do a task right now: Ray writes into their title what they do."""
    found = []
    for process in processes_below(raylet):
        with contextlib.suppress(OSError):
            title = Path(f"/proc/{process}/cmdline").read_text()
            if title.startswith("ray::") and "IDLE" not in title and "Agent" not in title:
                found.append(process)
    return found


def until(reached, job):
    deadline = time.monotonic() + PATIENCE
    while not reached() and job.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)


def started(start, *given, **options):
    """Start a node; Ray gives up after 30 seconds, however busy the machine is."""
    for _ in range(2):
        with contextlib.suppress(Exception):
            return start(*given, **options)
    return start(*given, **options)


@with_ray
def test_a_node_killed_in_the_middle(many, tmp_path, tiny_model, monkeypatch):
    import ray
    from ray.cluster_utils import Cluster

    monkeypatch.setattr(cluster, "_FEWEST", SHARDS)
    options = Options(model=str(tiny_model))
    build.build([many], str(tmp_path / "plain"), options)
    made = started(Cluster, initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": OBJECTS})
    try:
        doomed = started(made.add_node, num_cpus=1, object_store_memory=OBJECTS)
        raylet = doomed.all_processes["raylet"][0].process.pid
        shards = cluster.beside(tmp_path / "i")
        failures, reports = [], []

        def run():
            try:
                reports.append(build.build_on_cluster([many], str(tmp_path / "i"), options, made.address))
            except BaseException as error:
                failures.append(error)

        job = threading.Thread(target=run)
        job.start()
        # What the node is doing stands still, so that it is surely not done when the node is killed.
        until(lambda: working(raylet), job)
        held = working(raylet)
        send(held, signal.SIGSTOP)
        until(lambda: list(shards.glob("*.json")), job)
        before = len(list(shards.glob("*.json")))
        send(processes_below(raylet), signal.SIGKILL)
        job.join(PATIENCE)
        assert not job.is_alive() and not failures, failures
        assert held and 0 < before < SHARDS
        assert reports[0].passages == 520
        assert same(open_index(tmp_path / "i"), open_index(tmp_path / "plain"))
        assert not shards.exists()
    finally:
        ray.shutdown()
        made.shutdown()


@with_ray
def test_what_goes_wrong_there_is_said_here(tmp_path, tiny_model):
    with pytest.raises(MundapError, match="no such file"):
        build.build_on_cluster([tmp_path / "nope"], str(tmp_path / "i"), Options(model=str(tiny_model)), "local")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("the river")
    broken = Options(model=str(tiny_model), words="many")  # a TypeError on the other side, none of our own errors
    with pytest.raises(EngineError, match="encoding over Ray failed .TypeError.*the same command goes on"):
        cluster.encode([str(tmp_path / "docs")], tmp_path / "v", broken, "local")
    with pytest.raises(MundapError, match="no Ray cluster at"):
        build.build_on_cluster([tmp_path], str(tmp_path / "i"), Options(model=str(tiny_model)), "127.0.0.1:1")
