"""Kill -9 at every change of a file and at random moments, of every change of an index: nothing is lost, doubled or stuck."""

import random
import signal
import time
from pathlib import Path
from typing import Any

from mundap.index.verify import verify
from tests.attack.children import TOO_LONG, Effort, Totals, arm, child, counted
from tests.attack.product import copied, same, state, verbs


def attack(work: Path, chance: random.Random, effort: Effort) -> dict[str, Totals]:
    """Kill each verb at every change, or at so many of them, evenly spread, and at random moments."""
    names = list(verbs(work))
    chance.shuffle(names)
    return {f"kill {verb}": _verb(work, verb, chance, effort) for verb in effort.some(names)}


def _verb(work: Path, verb: str, chance: random.Random, effort: Effort) -> Totals:
    totals = Totals()
    base = work / ("nothing" if verb == "index" else "base")
    out = work / "attacked"

    def whole(at: int) -> Any:
        arm(out, at)
        verbs(work)[verb](out)
        return counted()

    _, before = child(lambda: state(copied(base, out)))
    began = time.monotonic()
    code, changes = child(lambda: whole(0))
    took = time.monotonic() - began
    if code:
        totals.judge("stuck", f"{verb} fails without a kill: {changes}")
        return totals
    _, after = child(lambda: state(out))
    for at in effort.some(moments(changes, effort, chance)):
        copied(base, out)
        code, said = child(lambda at=at: whole(at))
        if code == -signal.SIGKILL:
            totals.judge(*_verdict(out, verb, f"{verb} killed at {at}", before, after, work))
        elif code or at == 1:  # the last moments are sometimes not reached: threads share their writes differently
            totals.judge("stuck", f"{verb} at {at}: {code} {said}")
    for _ in effort.some(range(at_random(effort)), least=0):
        copied(base, out)
        delay = chance.uniform(0.0, took)
        code, said = child(lambda: whole(0), delay)
        if code == TOO_LONG:
            where = f"{verb} killed after {delay:.3f} s"
            totals.judge(*_verdict(out, verb, where, before, after, work))
        elif code:  # it may be done sooner than the last time
            totals.judge("stuck", f"{verb}: {code} {said}")
    return totals


def moments(changes: int, effort: Effort, chance: random.Random) -> list[int]:
    """At which of so many changes to kill: at each, or at so many of them, evenly spread, and at the last."""
    if effort.most is None or changes <= effort.most:
        return list(range(1, changes + 1))
    step = changes / effort.most
    chosen = sorted({int(step * n + chance.random() * step) + 1 for n in range(effort.most)} | {changes})
    chance.shuffle(chosen)  # where there is no time for all, not always for the first
    return chosen


def at_random(effort: Effort) -> int:
    """How often to kill at a random moment."""
    return 1 if effort.short else 10


def _verdict(out: Path, verb: str, where: str, before: Any, after: Any, work: Path) -> tuple[str, str]:
    """What a kill left behind, and whether the same command goes on."""
    code, now = child(lambda: state(out))
    if code:
        return "lost", f"{where}: cannot be opened: {now}"
    if not same(now, before) and not same(now, after):
        return "wrong", f"{where}: neither the state before nor the one after"
    if now is not None:
        code, problems = child(lambda: verify(out))
        if code or problems:
            return "lost", f"{where}: {problems}"
    code, said = child(lambda: verbs(work)[verb](out) and None)
    if code:
        return "stuck", f"{where}: the same command again: {said}"
    code, end = child(lambda: (state(out), verify(out)))
    if code or end[1] or end[0]["held"] != after["held"]:
        return "lost", f"{where}: after the same command again: {end}"
    return "survived", ""
