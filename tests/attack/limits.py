"""Too little room, too little memory, no permission: said in words, and nothing is lost."""

import os
import resource
import subprocess
from pathlib import Path
from typing import Any

from mundap.index.verify import verify
from tests.attack.children import Totals, child, quiet
from tests.attack.product import copied, same, state, verbs

_NOBODY = 65534


def attack(work: Path, short: bool) -> dict[str, Totals]:
    """Run every change under each limit."""
    sizes = (4_000, 100_000) if short else (0, 100, 1_000, 4_000, 20_000, 100_000)
    results = {"files too large": _each(work, [_limit(resource.RLIMIT_FSIZE, size) for size in sizes])}
    if os.geteuid() == 0:
        results["another user"] = _each(work, [lambda: os.setuid(_NOBODY)])
        if not short:
            results["disk full"] = _full(work)
    return results


def _limit(kind: int, size: int) -> Any:
    return lambda: resource.setrlimit(kind, (size, size))


def _each(work: Path, limits: list[Any]) -> Totals:
    totals = Totals()
    out = work / "attacked"
    for verb in ("add", "upload", "delete", "compact", "reindex", "fresh"):
        for number, limit in enumerate(limits):
            copied(work / "base", out)
            _once(work, verb, out, limit, totals, f"{verb}, limit {number}")
    return totals


def _once(work: Path, verb: str, out: Path, limit: Any, totals: Totals, where: str) -> None:
    _, before = child(lambda: state(out))

    def limited() -> None:
        limit()
        verbs(work)[verb](out)

    with quiet():
        code, said = child(limited)
    _, now = child(lambda: state(out))
    if code and not same(now, before):
        totals.judge("lost", f"{where}: failed, and the index is another: {said}")
    elif code and not (code == 70 and str(said).startswith(("MundapError", "IndexDamaged", "PermissionError"))):
        totals.judge("stuck", f"{where}: {code} {said}")
    else:
        again, error = child(lambda: verbs(work)[verb](out) and None)
        _, problems = child(lambda: verify(out))
        good = not again and problems == []
        totals.judge("survived" if good else "stuck", f"{where}: afterwards {error} {problems}")


def _full(work: Path) -> Totals:
    """On a disk of its own, which is nearly full."""
    totals = Totals()
    disk = work / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], check=False).returncode:
        return totals
    try:
        for verb in ("add", "upload", "delete", "compact", "reindex", "fresh"):
            for left in (0, 20_000, 200_000):
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
