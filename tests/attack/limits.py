"""Too little room, too little memory, no permission: said in words, and nothing is lost."""

import os
import resource
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from mundap.index.verify import verify
from tests.attack.children import Totals, child, quiet
from tests.attack.product import copied, same, state, verbs

_NOBODY = 65534
_IN_WORDS = ("MundapError", "MemoryError")  # what the command line has a message for
_VERBS = ("add", "upload", "delete", "compact", "reindex", "fresh")


def attack(work: Path, short: bool) -> dict[str, Totals]:
    """Run every change under each limit."""
    sizes = (4_000, 100_000) if short else (0, 100, 1_000, 4_000, 20_000, 100_000)
    rooms = (1, 24) if short else (0, 1, 4, 8, 16, 24, 32, 48, 64, 128)
    results = {"files too large": _each(work, [_files(size) for size in sizes])}
    results["too little memory"] = _each(work, [_memory(megabytes) for megabytes in rooms], -signal.SIGABRT)
    if os.geteuid() == 0:
        results["another user"] = _each(work, [lambda: os.setuid(_NOBODY)])
        results["another user"].judge(*_read_by_another(work))
        results["disk full"] = _full(work, (20_000,) if short else (0, 20_000, 200_000))
    return results


def _files(size: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _memory(megabytes: int) -> Callable[[], None]:
    """So much more than the process has now."""

    def limit() -> None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20), used + (megabytes << 20)))

    return limit


def _each(work: Path, limits: list[Callable[[], None]], allowed: int = 0) -> Totals:
    """Every change under every limit; `allowed` is a further exit code (tantivy aborts where it gets no memory)."""
    totals = Totals()
    out = work / "attacked"
    for verb in _VERBS:
        for number, limit in enumerate(limits):
            copied(work / "base", out)
            _once(work, verb, out, limit, totals, f"{verb}, limit {number}", allowed)
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


def _full(work: Path, lefts: tuple[int, ...]) -> Totals:
    """On a disk of its own, which is nearly full."""
    totals = Totals()
    disk = work / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], check=False, stderr=subprocess.DEVNULL
    )
    if mounted.returncode:  # in a container without that right; the limit on files is much the same
        return totals
    try:
        for verb in _VERBS:
            for left in lefts:
                out = copied(work / "base", disk / "attacked")
                room = os.statvfs(disk)
                ballast = disk / "ballast"
                ballast.write_bytes(b"x" * max(0, room.f_bavail * room.f_bsize - left))
                _, before = child(lambda out=out: state(out))
                with quiet():
                    code, said = child(lambda out=out, verb=verb: verbs(work)[verb](out) and None)
                ballast.unlink()
                _, now = child(lambda out=out: state(out))
                again, error = child(lambda out=out, verb=verb: verbs(work)[verb](out) and None)
                if code and not same(now, before):
                    totals.judge("lost", f"{verb}, {left} bytes left: {said}")
                elif (code and not str(said).startswith("MundapError")) or again:
                    totals.judge("stuck", f"{verb}, {left} bytes left: {said}; again: {error}")
                else:
                    totals.judge("survived", "")
    finally:
        subprocess.run(["umount", str(disk)], check=False)
    return totals
