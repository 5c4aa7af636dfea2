"""Attack the product and report the totals: `python -m tests.attack.run [--short]`.

What is reported: tried, survived, lost (0 is the promise), wrong (silently: 0), stuck (0). Exit 1 if any is not.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.attack.children import LIBRARY, Totals, child, preloaded


def main() -> int:
    """Run what was asked for."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--short", action="store_true", help="a sample that takes under two minutes")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--only", default="", help="kills, damage, limits, beside, hostile or requests")
    words.add_argument("--most", type=int, default=None, help="moments of each kind to kill at; all if not given")
    given = words.parse_args()
    with tempfile.TemporaryDirectory(prefix="mundap-attack-") as folder:
        preloaded(Path(folder))
        totals = _attacked(Path(folder), given)
        shutil.rmtree(Path(os.environ[LIBRARY]).parent, ignore_errors=True)  # of the process before this one
    failed = sum(one.lost + one.wrong + one.stuck for one in totals.values())
    sys.stdout.write(json.dumps({"seed": given.seed, "short": given.short,
                      "attacks": {name: one.as_dict() for name, one in totals.items()},
                      "tried": sum(one.tried for one in totals.values()), "failed": failed}, indent=1) + "\n")  # fmt: skip
    return 1 if failed else 0


def _attacked(work: Path, given: argparse.Namespace) -> dict[str, Totals]:
    import mundap.index.build  # noqa: F401  once, for all the children: it starts no thread
    from tests.attack import beside, damage, hostile, kills, limits, requests
    from tests.attack.product import prepared

    work = work / "work"
    code, said = child(lambda: str(prepared(work)))
    if code:
        raise SystemExit(f"the index to attack cannot be made: {said}")
    chance = random.Random(given.seed)
    most = given.most or (3 if given.short else None)
    families = {
        "kills": lambda: kills.attack(work, most, chance),
        "damage": lambda: damage.attack(work, chance, 0.35 if given.short else 1.0),
        "limits": lambda: limits.attack(work, given.short),
        "beside": lambda: beside.attack(work, 8 if given.short else 50),
        "hostile": lambda: hostile.attack(work, given.short),
        "requests": lambda: requests.attack(work, given.short, chance),
    }
    totals: dict[str, Totals] = {}
    for name, family in families.items():
        if given.only in ("", name):
            began = time.monotonic()
            totals |= family()
            sys.stderr.write(f"{name}: {time.monotonic() - began:.0f} s\n")
    return totals


if __name__ == "__main__":
    sys.exit(main())
