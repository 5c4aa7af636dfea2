"""Every file flipped, cut, emptied, deleted or swapped: said by whoever opens it, or at the latest by verify."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mundap.index.verify import verify
from tests.attack.children import Totals, child, quiet
from tests.attack.product import copied, dense_state, same, state, with_vectors

_SAID = ("IndexDamaged", "IndexMissing", "ModelError")
Look = Callable[[Path], Any]


def attack(work: Path, chance: random.Random, share: float = 1.0) -> dict[str, Totals]:
    """Damage every file of an index, and of its model, in five ways, or a share of that."""
    opened, verified = _folder(work / "base", work / "attacked", work / "attacked", state, chance, share)
    code, said = child(lambda: str(with_vectors(work)))
    if code:
        raise SystemExit(f"the index with vectors cannot be made: {said}")
    model, found = _folder(work / "good model", work / "model", work / "vectors", dense_state, chance, share)
    return {
        "damage, seen when opened": opened,
        "damage, seen by verify": verified,
        "damage of the model, seen when opened": model,
        "damage of the model, seen by verify": found,
    }


def _folder(
    base: Path, folder: Path, out: Path, look: Look, chance: random.Random, share: float
) -> tuple[Totals, Totals]:
    """Damage the files of a folder one by one, and look at an index."""
    opened, verified = Totals(), Totals()
    copied(base, folder)
    _, before = child(lambda: look(out))
    names = sorted(path.relative_to(base) for path in base.rglob("*") if path.is_file() and not _ignored(path))
    for name in names:
        for kind, data in _damages((base / name).read_bytes(), _other(base, name, names), chance):
            if chance.random() > share:
                continue
            copied(base, folder)
            if data is None:
                (folder / name).unlink()
            else:
                (folder / name).write_bytes(data)
            _judge(out, look, f"{name} {kind}", before, opened, verified)
    copied(base, folder)
    return opened, verified


def _ignored(path: Path) -> bool:
    """Locks, and the note of what was skipped: nothing is found by them."""
    return path.name in ("lock", "skipped.json") or path.suffix == ".lock"


def _other(out: Path, name: Path, names: list[Path]) -> bytes:
    """Another file of the same kind, whole in itself."""
    alike = [other for other in names if other.suffix == name.suffix and other != name]
    return (out / alike[0]).read_bytes() if alike else b"another"


def _damages(data: bytes, other: bytes, chance: random.Random) -> Iterator[tuple[str, bytes | None]]:
    if data:
        place = chance.randrange(len(data))
        yield "flipped", data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :]
        yield "cut", data[: len(data) // 2]
        yield "emptied", b""
    yield "deleted", None
    if other != data:
        yield "swapped", other


def _judge(out: Path, look: Look, what: str, before: Any, opened: Totals, verified: Totals) -> None:
    with quiet():
        code, now = child(lambda: look(out))
        gone = code == 0 and now is None  # "no index in …"
        said = gone or (code == 70 and str(now).startswith(_SAID))
        seen_code, problems = child(lambda: verify(out))
    if said or (code == 0 and same(now, before)):
        opened.judge("survived", "")
    elif code == 0:
        opened.judge("wrong", f"{what}: other results, and nothing is said")
    else:
        opened.judge("stuck", f"{what}: {code} {now}")
    seen = bool(problems) if not seen_code else str(problems).startswith(_SAID)
    verified.judge("survived" if seen else "wrong", f"{what}: verify says {problems}")
