"""Kill -9 while a model is trained and while ANCE publishes: nothing is half, and the run ends as an unbroken one.

A tiny network. PyTorch is read once, in a process of its own that forks the runs: the main process stays without it.
"""

import contextlib
import importlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mundap.disk import checksum
from tests.attack.children import Effort, Totals, arm, child, counted
from tests.attack.kills import Victim, moments, random_delays
from tests.attack.product import ReadHere, copied

_PUBLISHED = (0, 2, 4)  # steps


def attack(work: Path, chance: random.Random, effort: Effort) -> dict[str, Totals]:
    """Kill each kind of run at every moment, or at so many of them evenly spread, and at random ones."""
    seed = chance.random()
    code, said = child(lambda: _all(work / "training", random.Random(seed), effort), 10 * 3600.0)
    if code:
        failed = Totals()
        failed.judge("stuck", f"training cannot be attacked: {code} {said}")
        return {"kill training": failed}
    return {name: Totals(**facts) for name, facts in said.items()}


def _all(work: Path, chance: random.Random, effort: Effort) -> dict[str, Any]:
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    import torch
    import transformers  # noqa: F401  once, for all the runs

    from mundap.training.ance import run  # noqa: F401

    torch.set_num_threads(1)
    work.mkdir()
    code, said = child(lambda: _files(work))
    if code:
        raise RuntimeError(f"the training files cannot be made: {said}")
    for name in said:  # what a run reads late is read once as well: most of a short run's time
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a process with threads must not fork"
    totals = {"kill an ANCE publication": _publications(work, chance, effort)}
    kinds = ["retriever", "ance"]
    chance.shuffle(kinds)
    totals |= {f"kill train {kind}": _kind(work, kind, chance, effort) for kind in effort.some(kinds)}
    return {name: one.as_dict() for name, one in totals.items()}


def _files(work: Path) -> list[str]:
    """Make what is trained on, and train once; gives the modules that this took."""
    from mundap.index import build, files
    from tests.training.ance.parts import write_pool
    from tests.training.parts import write_files

    build.Readers = files.Readers = ReadHere  # type: ignore[misc, assignment]
    (work / "files").mkdir()
    write_files(work / "files", sets=(("a", 1, 16), ("b", 2, 8), ("dev", 3, 4)))
    write_pool(work / "files", work / "pool")
    _train(work, "ance", work / "first")
    return sorted(sys.modules)


def _train(work: Path, kind: str, out: Path) -> int:
    """Train a network of a kind to the end, with a checkpoint after each step; how many steps it has seen."""
    from tests.training import parts
    from tests.training.ance import parts as ance

    steady = {"checkpoint_minutes": 1e-9, "dropout": 0.1, "hard_negatives": 2}
    if kind == "retriever":
        from mundap.training import retriever

        return retriever.train(parts.recipe(work / "files", out, max_steps=3, eval_steps=2, **steady)).steps
    from mundap.training.ance import run

    rounds = {"max_steps": 4, "refresh_batches": 2, "static_negative_batches": 1, "synchronous": True}
    return run.train(ance.recipe(work / "files", work / "pool" / "index", out, **rounds, **steady)).steps


def _kind(work: Path, kind: str, chance: random.Random, effort: Effort) -> Totals:
    totals, out = Totals(), work / "run"

    def run(at: int) -> int:
        arm(out, at)
        _train(work, kind, out)
        return counted()

    def verdict(where: str) -> tuple[str, str]:
        return _verdict(work, kind, out, where, after)

    copied(work / "nothing", out)
    began = time.monotonic()
    code, changes = child(lambda: run(0))
    took = time.monotonic() - began
    if code:
        totals.judge("stuck", f"{kind} fails without a kill: {changes}")
        return totals
    _, after = child(lambda: _learnt(out))
    victim = Victim(kind, lambda: copied(work / "nothing", out), run, verdict)
    victim.kill_at(effort.some(moments(changes, effort, chance)), totals)
    victim.kill_after(effort.some(random_delays(took, effort, chance), least=0), totals)
    _, changes = child(lambda: run(0))
    finished = Victim(f"finished {kind}", lambda: None, run, verdict)  # started again it writes its model anew
    finished.kill_at(effort.some(moments(changes, effort, chance), least=0), totals)
    return totals


def _verdict(work: Path, kind: str, out: Path, where: str, after: Any) -> tuple[str, str]:
    """What a kill left behind, and whether the same command goes on to the same end."""
    code, halves = child(lambda: _halves(out, after["files"]))
    if code or halves:
        return "wrong", f"{where}: half there: {halves}"
    code, steps = child(lambda: _train(work, kind, out))
    if code:
        return "stuck", f"{where}: the same command again: {steps}"
    code, now = child(lambda: _learnt(out))
    if code or now != after:
        other = [name for name in after if code or now[name] != after[name]]
        return "lost", f"{where}: after the same command again {other} are other than without a kill: {now}"
    return "survived", ""


def _learnt(out: Path) -> dict[str, Any]:
    """Where a run ended: its model, its log without the times, and the names of its files."""
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text("utf-8").splitlines()]
    for row in rows:
        row.pop("examples_per_second", None)
    files = [str(path.relative_to(out)) for path in out.rglob("*") if "tensorboard" not in path.parts]
    return {"model": checksum(out / "model" / "model.safetensors"), "log": rows, "files": sorted(files)}


def _halves(out: Path, files: list[str]) -> list[str]:
    """What has its final name and is not whole."""
    from safetensors.numpy import load_file

    from mundap.training.ance.exchange import ExchangeFolder

    found = [str(path) for path in (out / "checkpoints").glob("step-*") if not _is_whole(path)]
    for path in (*out.glob("*.safetensors"), *out.glob("ance/weights/*.safetensors")):
        try:
            load_file(path)
        except Exception as error:  # whatever the library says of half a file
            found.append(f"{path}: {error}")
    model = {str(path.relative_to(out)) for path in (out / "model").rglob("*")}
    if model and model != {name for name in files if name.startswith("model/")}:
        found.append(f"model: only {sorted(model)}")
    if (out / "ance" / "negatives").exists():
        exchange = ExchangeFolder(out / "ance")
        found += [f"negatives {step}" for step in exchange.published() if exchange.open_negatives(step) is None]
    return found


def _is_whole(checkpoint: Path) -> bool:
    try:
        sums = json.loads((checkpoint / "state.json").read_text("utf-8"))["sha256"]
        return all(checksum(checkpoint / name) == wanted for name, wanted in sums.items())
    except (OSError, ValueError):
        return False


def _publications(work: Path, chance: random.Random, effort: Effort) -> Totals:
    """An inferencer that dies while it publishes, and a trainer that looks all the time."""
    from mundap.training.ance.exchange import ExchangeFolder

    totals, out = Totals(), work / "exchange"

    def publish(at: int) -> int:
        exchange = ExchangeFolder(out)
        arm(out, at)
        for step in _PUBLISHED:
            if step not in exchange.published():
                exchange.publish(step, _found(step), {"index": 1})
        return counted()

    copied(work / "nothing", out)
    code, said = child(lambda: publish(0))
    if code:
        totals.judge("stuck", f"a publication fails without a kill: {said}")
        return totals
    for at in effort.some(moments(said, effort, chance)):
        copied(work / "nothing", out)
        code, seen = child(lambda at=at: _read_beside(ExchangeFolder(out), lambda: publish(at)))
        if code or seen[0] != -signal.SIGKILL:
            totals.judge("stuck", f"a publication at {at}: {code} {seen}")
        elif seen[1]:
            totals.judge("wrong", f"a publication killed at {at}: {seen[1][:3]}")
        else:
            code, said = child(lambda: _read_beside(ExchangeFolder(out), lambda: publish(0)))
            complete = not code and said == [0, []] and ExchangeFolder(out).published() == list(_PUBLISHED)
            totals.judge("survived" if complete else "stuck", f"a publication killed at {at}, and again: {said}")
    return totals


def _found(step: int) -> dict[str, np.ndarray]:
    chance = np.random.default_rng(step)
    return {"numbers": chance.integers(0, 99, (200, 20)), "scores": chance.normal(size=(200, 20)).astype(np.float32)}


def _read_beside(exchange: Any, publish: Callable[[], Any]) -> tuple[int, list[str]]:
    """Read everything that is published while another process publishes; how that ended, and what was wrong."""
    process = os.fork()
    if not process:
        code = 1
        with contextlib.suppress(Exception):
            publish()
            code = 0
        os._exit(code)
    wrong: list[str] = []
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        for step in exchange.published():
            opened = exchange.open_negatives(step)
            expected = _found(step)
            if opened is None:
                wrong.append(f"{step}: half")
            elif any(not np.array_equal(opened[0][name], expected[name]) for name in expected):
                wrong.append(f"{step}: other numbers")
        if ended:
            return os.waitstatus_to_exitcode(status), wrong
