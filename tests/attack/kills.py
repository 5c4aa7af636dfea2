"""Kill -9 at every change of a file and at random moments, of every change of an index: nothing is lost, doubled or stuck."""

import random
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mundap.index.verify import verify
from tests.attack.children import TOO_LONG, Effort, Totals, arm, child, counted
from tests.attack.product import copied, same, state, verbs


@dataclass(frozen=True, slots=True)
class Victim:
    """What is killed.

    Attributes:
        name: What it does.
        begin: Put its files as they are before.
        run: Do it, to the end or to the n-th change of a file; gives the number of changes.
        verdict: What a kill left behind, for a verdict and a note.
        exact: It makes the same changes each time.
    """

    name: str
    begin: Callable[[], Any]
    run: Callable[[int], int]
    verdict: Callable[[str], tuple[str, str]]
    exact: bool = True

    def kill_at(self, places: Iterable[int], totals: Totals) -> None:
        """Kill it at these changes of a file."""
        for at in places:
            self.begin()
            code, said = child(lambda at=at: self.run(at))
            if code == -signal.SIGKILL:
                totals.judge(*self.verdict(f"{self.name} killed at {at}"))
            elif code or self.exact or at == 1:  # threads share their writes differently: the last may not come
                totals.judge("stuck", f"{self.name} at {at}: {code} {said}")

    def kill_after(self, delays: Iterable[float], totals: Totals) -> None:
        """Kill it after so many seconds."""
        for delay in delays:
            self.begin()
            code, said = child(lambda: self.run(0), delay)
            if code == TOO_LONG:
                totals.judge(*self.verdict(f"{self.name} killed after {delay:.3f} s"))
            elif code:  # it may be done sooner than the last time
                totals.judge("stuck", f"{self.name}: {code} {said}")


def attack(work: Path, chance: random.Random, effort: Effort) -> dict[str, Totals]:
    """Kill each verb at every change, or at so many of them, evenly spread, and at random moments."""
    names = list(verbs(work))
    chance.shuffle(names)
    return {f"kill {verb}": _verb(work, verb, chance, effort) for verb in effort.some(names)}


def _verb(work: Path, verb: str, chance: random.Random, effort: Effort) -> Totals:
    totals = Totals()
    base = work / ("nothing" if verb == "index" else "base")
    out = work / "attacked"

    def run(at: int) -> int:
        arm(out, at)
        verbs(work)[verb](out)
        return counted()

    _, before = child(lambda: state(copied(base, out)))
    began = time.monotonic()
    code, changes = child(lambda: run(0))
    took = time.monotonic() - began
    if code:
        totals.judge("stuck", f"{verb} fails without a kill: {changes}")
        return totals
    _, after = child(lambda: state(out))
    victim = Victim(
        verb, lambda: copied(base, out), run, lambda where: _verdict(out, verb, where, before, after, work), False
    )
    victim.kill_at(effort.some(moments(changes, effort, chance)), totals)
    victim.kill_after(effort.some(random_delays(took, effort, chance), least=0), totals)
    return totals


def moments(changes: int, effort: Effort, chance: random.Random) -> list[int]:
    """At which of so many changes to kill: at each, or at so many of them, evenly spread, and at the last."""
    if effort.most is None or changes <= effort.most:
        return list(range(1, changes + 1))
    step = changes / effort.most
    chosen = sorted({int(step * n + chance.random() * step) + 1 for n in range(effort.most)} | {changes})
    chance.shuffle(chosen)  # where there is no time for all, not always for the first
    return chosen


def random_delays(seconds: float, effort: Effort, chance: random.Random) -> list[float]:
    """Random moments of what takes so many seconds."""
    return [chance.uniform(0.0, seconds) for _ in range(1 if effort.short else 10)]


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
