"""Attack the product and report the totals: `python -m tests.attack.run [--short]`.

What is reported: tried, survived, lost (0 is the promise), silently wrong (0), stuck (0). Exit 1 if any is not 0.
After `--seconds` nothing more is begun: `unfinished` names the kinds of attack of which not all was tried. It ends in
any case, and ends whatever it started.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from tests.attack.children import LIBRARY, Effort, Totals, child, left_running, preloaded, summed

_MEMORY_DISK = Path("/dev/shm")  # kills and damage need no real disk, and a busy one makes every fsync wait
_ROOM = 1 << 30
_SECONDS = 1700.0
_SHORT_SECONDS = 12.0  # for each kind of attack; on an idle machine most need less
_PATIENCE = 6 * 3600  # seconds until the attack itself is stuck, on however busy a machine
_RESULTS = "results.json"
_SIGNALS = (signal.SIGALRM, signal.SIGTERM, signal.SIGINT)
Family = Callable[[Path, random.Random, Effort], dict[str, Totals]]


class _Stopped(Exception):
    """It took too long, or was told to end."""


def main() -> int:
    """Run what was asked for."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--short", action="store_true", help="a sample that takes under two minutes")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument(
        "--only", default="", help="kills, training, damage, limits, beside, hostile, requests, crowd or soak"
    )
    words.add_argument("--most", type=int, default=None, help="moments of each kind to kill at; all if not given")
    words.add_argument(
        "--seconds", type=int, default=None, help="begin nothing after so long; 1700, or 12 for each kind if short"
    )
    words.add_argument("--at-once", type=int, default=None, help="kinds of attack at a time; cores and two more")
    given = words.parse_args()
    totals: dict[str, Totals] = {}
    took: dict[str, int] = {}
    unfinished: list[str] = []
    with tempfile.TemporaryDirectory(prefix="mundap-attack-", dir=_place()) as folder:
        Path(folder).chmod(0o755)  # another user is one of the attacks
        preloaded(Path(folder))
        for number in _SIGNALS:
            signal.signal(number, _stop)
        signal.alarm(_PATIENCE)
        began = time.monotonic()
        patience = 300.0  # a busy machine is no failure
        try:
            _attack(Path(folder), given, totals, took, unfinished)
        except _Stopped as error:
            totals.setdefault("the whole", Totals()).judge("stuck", str(error))
            patience = 0.0
        finally:
            signal.alarm(0)
            for number in _SIGNALS:  # what was found is told in any case
                signal.signal(number, signal.SIG_IGN)
            _end_all(totals, patience)
            _unmount(folder)
            shutil.rmtree(Path(os.environ[LIBRARY]).parent, ignore_errors=True)  # of the process before this one
    sums = summed(totals)
    report = {"seed": given.seed, "short": given.short, "seconds": round(time.monotonic() - began), "took": took}
    report["unfinished"] = unfinished
    report |= {"attacks": {name: one.as_dict() for name, one in totals.items()}} | sums
    sys.stdout.write(json.dumps(report, indent=1) + "\n")
    return 0 if sums["tried"] == sums["survived"] else 1


def _place() -> Path | None:
    with contextlib.suppress(OSError):
        if os.access(_MEMORY_DISK, os.W_OK) and shutil.disk_usage(_MEMORY_DISK).free > _ROOM:
            return _MEMORY_DISK
    return None


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Stopped(f"ended by {signal.Signals(number).name}")


def _end_all(totals: dict[str, Totals], patience: float) -> None:
    """Nothing that was started may still run after so many seconds."""
    left = left_running(patience)
    verdict = "stuck" if left else "survived"
    totals.setdefault("nothing is left running", Totals()).judge(verdict, f"{left}")
    for process in left:
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGKILL)


def _unmount(folder: str) -> None:
    """Take away the disks of an attack that was ended: a folder with one cannot be removed."""
    for line in Path("/proc/mounts").read_text().splitlines():
        if (place := line.split()[1]).startswith(folder):
            subprocess.run(["umount", "-l", place], check=False)


def _attack(
    work: Path, given: argparse.Namespace, totals: dict[str, Totals], took: dict[str, int], unfinished: list[str]
) -> None:
    """Several kinds of attack at the same time, each in a process and a folder of its own."""
    import mundap.index.build
    import mundap.pipeline.index  # noqa: F401  once, for all the children: it starts no thread
    from mundap.machine import cores
    from mundap.text.language import likely
    from tests.attack import beside, crowd, damage, hostile, kills, limits, requests, soak, training
    from tests.attack.product import prepared

    families: dict[str, Family] = {  # those that take longest are first
        "kills": kills.attack,
        "training": training.attack,
        "requests": requests.attack,
        "soak": soak.attack,
        "crowd": crowd.attack,
        "damage": damage.attack,
        "limits": limits.attack,
        "hostile": hostile.attack,
        "beside": beside.attack,
    }
    likely("the river and the king of the mountain", ("en", "de"))  # its tables are read once
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a process with threads must not fork"
    base = work / "work"
    code, said = child(lambda: str(prepared(base)))
    if code:
        raise SystemExit(f"the index to attack cannot be made: {said}")
    waiting = [name for name in families if given.only in ("", name)]
    until = time.monotonic() + (given.seconds or _SECONDS)
    running: dict[int, tuple[str, float]] = {}
    while waiting or running:
        if waiting and len(running) < (given.at_once or cores() + 2):  # servers mostly wait
            name = waiting.pop(0)
            folder = shutil.copytree(base, work / name)
            running[_started(families[name], folder, name, given, until)] = (name, time.monotonic())
            continue
        process, status = os.wait()
        name, began = running.pop(process)
        took[name] = round(time.monotonic() - began)
        sys.stderr.write(f"{name}: {took[name]} s\n")
        found, complete = _results(work / name, name, os.waitstatus_to_exitcode(status))
        totals |= found
        unfinished += [] if complete else [name]


def _started(family: Family, folder: Path, name: str, given: argparse.Namespace, until: float) -> int:
    """Run a kind of attack in a process of its own; its id."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        effort = Effort(False, given.most, until - time.monotonic())
        if given.short:
            effort = Effort(True, given.most or 3, given.seconds or _SHORT_SECONDS)
        chance = random.Random(f"{given.seed} {name}")  # the same alone and among the others
        totals = family(folder, chance, effort)
        found = {name: one.as_dict() for name, one in totals.items()}
        (folder / _RESULTS).write_text(json.dumps({"totals": found, "complete": not effort.over}))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:  # whatever happens, this process goes no further
        os._exit(code)


def _results(folder: Path, name: str, code: int) -> tuple[dict[str, Totals], bool]:
    """What came of a kind of attack, and whether all of it was tried."""
    if code:
        failed = Totals()
        failed.judge("stuck", f"the attack itself failed: {code}")
        return {name: failed}, False
    found = json.loads((folder / _RESULTS).read_text())
    shutil.rmtree(folder, ignore_errors=True)
    return {name: Totals(**facts) for name, facts in found["totals"].items()}, found["complete"]


if __name__ == "__main__":
    sys.exit(main())
