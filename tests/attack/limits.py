"""Too little room, too little memory, no permission: said in words, and nothing is lost."""

import contextlib
import os
import random
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from mundap.index.verify import verify
from tests.attack.children import Effort, Totals, child, quiet
from tests.attack.product import copied, same, state, verbs

_NOBODY = 65534
_IN_WORDS = ("MundapError", "MemoryError")  # what the command line has a message for
_VERBS = ("add", "upload", "delete", "compact", "reindex", "fresh")
Limit = Callable[[], None]


def attack(work: Path, chance: random.Random, effort: Effort) -> dict[str, Totals]:
    """Run every change under each limit."""
    short = effort.short
    sizes = (4_000, 100_000) if short else (0, 100, 1_000, 4_000, 20_000, 100_000)
    rooms = (1, 24) if short else (0, 1, 4, 8, 16, 24, 32, 48, 64, 128)
    kinds: dict[str, Callable[[], Totals]] = {
        "files too large": lambda: _each(work, [_files(size) for size in sizes], chance, effort),
        "too little memory": lambda: _each(work, [_memory(one) for one in rooms], chance, effort, -signal.SIGABRT),
    }
    if os.geteuid() == 0:
        kinds["another user"] = lambda: _another(work, chance, effort)
        kinds["disk full"] = lambda: _full(work, (20_000,) if short else (0, 20_000, 200_000), chance, effort)
        kinds["read-only"] = lambda: _read_only(work, chance, effort)
    names = list(kinds)
    chance.shuffle(names)
    return {name: kinds[name]() for name in effort.some(names)}


def _files(size: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _memory(megabytes: int) -> Callable[[], None]:
    """So much more than the process has now."""

    def limit() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20), used + (megabytes << 20)))

    return limit


def _each(work: Path, limits: list[Limit], chance: random.Random, effort: Effort, allowed: int = 0) -> Totals:
    """Every change under every limit; `allowed` is a further exit code (tantivy aborts where it gets no memory)."""
    totals = Totals()
    out = work / "attacked"
    tried = [(verb, number, limit) for verb in _VERBS for number, limit in enumerate(limits)]
    chance.shuffle(tried)
    for verb, number, limit in effort.some(tried):
        copied(work / "base", out)
        _once(work, verb, out, limit, totals, f"{verb}, limit {number}", allowed)
    return totals


def _another(work: Path, chance: random.Random, effort: Effort) -> Totals:
    """Somebody else's index: it is searched, and every change is refused."""
    totals = _each(work, [lambda: os.setuid(_NOBODY)], chance, effort)
    totals.judge(*_read_by_another(work))
    return totals


def _once(
    work: Path, verb: str, out: Path, limit: Callable[[], None], totals: Totals, where: str, allowed: int
) -> None:
    _, before = child(lambda: state(out))

    def limited() -> None:
        limit()
        verbs(work)[verb](out)

    with quiet():
        code, said = child(limited)
    _, now = child(lambda: state(out))
    if code and not same(now, before):
        totals.judge("lost", f"{where}: failed, and the index is another: {said}")
    elif code and code != allowed and not (code == 70 and str(said).startswith(_IN_WORDS)):
        totals.judge("stuck", f"{where}: {code} {said}")
    else:
        again, error = child(lambda: verbs(work)[verb](out) and None)
        _, problems = child(lambda: verify(out))
        good = not again and problems == []
        totals.judge("survived" if good else "stuck", f"{where}: afterwards {error} {problems}")


def _read_by_another(work: Path) -> tuple[str, str]:
    """Somebody who may read an index but not write it searches it."""
    out = copied(work / "base", work / "attacked")
    _, before = child(lambda: state(out))

    def other() -> object:
        os.setuid(_NOBODY)
        return state(out)

    code, now = child(other)
    if code:
        return "stuck", f"searched by another user: {now}"
    return ("survived", "") if same(now, before) else ("wrong", "another user finds something else")


@contextlib.contextmanager
def _disk(work: Path, size: str) -> Iterator[Path | None]:
    """A disk of its own; None in a container without the right to have one."""
    disk = work / "disk"
    disk.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, stderr=subprocess.DEVNULL).returncode:
        yield None
        return
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=False)


def _full(work: Path, lefts: tuple[int, ...], chance: random.Random, effort: Effort) -> Totals:
    """On a disk of its own, which is nearly full."""
    totals = Totals()
    tried = [(verb, left) for verb in _VERBS for left in lefts]
    chance.shuffle(tried)
    with _disk(work, "3m") as disk:
        if disk is None:  # the limit on files is much the same
            return totals
        for verb, left in effort.some(tried):
            out = copied(work / "base", disk / "attacked")
            ballast = disk / "ballast"
            room = os.statvfs(disk)
            size = max(0, room.f_bavail * room.f_bsize - left)
            totals.judge(*_without_room(work, verb, out, ballast, size))
    return totals


def _without_room(work: Path, verb: str, out: Path, ballast: Path, size: int) -> tuple[str, str]:
    _, before = child(lambda: state(out))
    ballast.write_bytes(b"x" * size)
    with quiet():
        code, said = child(lambda: verbs(work)[verb](out) and None)
    ballast.unlink()
    code_now, now = child(lambda: state(out))
    again, error = child(lambda: verbs(work)[verb](out) and None)
    if code_now or (code and not same(now, before)):
        return "lost", f"{verb}, {size} bytes taken: {said}; now {now}"
    if (code and not str(said).startswith("MundapError")) or again:
        return "stuck", f"{verb}, {size} bytes taken: {said}; again: {error}"
    return "survived", ""


def _read_only(work: Path, chance: random.Random, effort: Effort) -> Totals:
    """On a disk that cannot be written to: it is searched, and every change is refused in words."""
    totals = Totals()
    with _disk(work, "16m") as disk:
        if disk is None:
            return totals
        out = copied(work / "base", disk / "attacked")
        _, before = child(lambda: state(out))
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        code, now = child(lambda: (state(out), verify(out)))
        right = code == 0 and same(now[0], before) and now[1] == []
        totals.judge("survived" if right else "wrong", f"searched on a read-only disk: {now}")
        for verb in effort.some(chance.sample(_VERBS, len(_VERBS))):
            with quiet():
                code, said = child(lambda verb=verb: verbs(work)[verb](out) and None)
            refused = code == 70 and str(said).startswith("MundapError")
            totals.judge("survived" if refused else "stuck", f"{verb} on a read-only disk: {code} {said}")
    return totals
