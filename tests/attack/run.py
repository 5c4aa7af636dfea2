"""Attack the product and report the totals: `python -m tests.attack.run [--short]`.

What is reported: tried, survived, lost (0 is the promise), silently wrong (0), stuck (0). Exit 1 if any is not 0.
It ends in any case, after `--seconds` at the latest, and ends whatever it started.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from tests.attack.children import LIBRARY, Effort, Totals, child, left_running, preloaded, summed

_MEMORY_DISK = Path("/dev/shm")  # kills and damage need no real disk, and a busy one makes every fsync wait
_ROOM = 1 << 30
_SHORT_SECONDS = 12.0  # for each kind of attack; on an idle machine most need less
_SIGNALS = (signal.SIGALRM, signal.SIGTERM, signal.SIGINT)


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
    words.add_argument("--seconds", type=int, default=None, help="give up after so long; 1800 if short, else 6 hours")
    given = words.parse_args()
    totals: dict[str, Totals] = {}
    with tempfile.TemporaryDirectory(prefix="mundap-attack-", dir=_place()) as folder:
        Path(folder).chmod(0o755)  # another user is one of the attacks
        preloaded(Path(folder))
        for number in _SIGNALS:
            signal.signal(number, _stop)
        signal.alarm(given.seconds or (1800 if given.short else 6 * 3600))
        began = time.monotonic()
        patience = 20.0
        try:
            _attack(Path(folder), given, totals)
        except _Stopped as error:
            totals.setdefault("the whole", Totals()).judge("stuck", str(error))
            patience = 0.0
        finally:
            signal.alarm(0)
            for number in _SIGNALS:  # what was found is told in any case
                signal.signal(number, signal.SIG_IGN)
            _end_all(totals, patience)
            shutil.rmtree(Path(os.environ[LIBRARY]).parent, ignore_errors=True)  # of the process before this one
    sums = summed(totals)
    report = {"seed": given.seed, "short": given.short, "seconds": round(time.monotonic() - began)}
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


def _attack(work: Path, given: argparse.Namespace, totals: dict[str, Totals]) -> None:
    import mundap.index.build
    import mundap.pipeline.index  # noqa: F401  once, for all the children: it starts no thread
    from mundap.text.language import likely
    from tests.attack import beside, crowd, damage, hostile, kills, limits, requests, soak, training
    from tests.attack.product import prepared

    likely("the river and the king of the mountain", ("en", "de"))  # its tables are read once
    assert len(list(Path("/proc/self/task").iterdir())) == 1, "a process with threads must not fork"
    work = work / "work"
    code, said = child(lambda: str(prepared(work)))
    if code:
        raise SystemExit(f"the index to attack cannot be made: {said}")
    families: dict[str, Callable[[Path, random.Random, Effort], dict[str, Totals]]] = {
        "kills": kills.attack,
        "training": training.attack,
        "damage": damage.attack,
        "limits": limits.attack,
        "beside": beside.attack,
        "hostile": hostile.attack,
        "requests": requests.attack,
        "crowd": crowd.attack,
        "soak": soak.attack,
    }
    for name, family in families.items():
        if given.only in ("", name):
            began = time.monotonic()
            effort = Effort()
            if given.short:
                effort = Effort(True, given.most or 3, _SHORT_SECONDS)
            elif given.most:
                effort = Effort(most=given.most)
            chance = random.Random(f"{given.seed} {name}")  # the same alone and among the others
            totals |= family(work, chance, effort)
            sys.stderr.write(f"{name}: {time.monotonic() - began:.0f} s\n")


if __name__ == "__main__":
    sys.exit(main())
