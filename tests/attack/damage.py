"""Every file flipped, cut, emptied, deleted or swapped: said by whoever opens it, or at the latest by verify."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mundap.index.verify import verify
from tests.attack.children import Effort, Totals, child, quiet
from tests.attack.product import ask_state, copied, dense_state, same, state, with_vectors

_SAID = ("IndexDamaged", "IndexMissing", "ModelError")
_KINDS = ("flipped", "cut", "emptied", "deleted", "swapped", "of a later state")
Look = Callable[[Path], Any]


def attack(work: Path, chance: random.Random, effort: Effort) -> dict[str, Totals]:
    """Damage every file of indexes and models in six ways, or a part of that."""
    code, said = child(lambda: with_vectors(work))
    if code:
        raise SystemExit(f"the index with vectors cannot be made: {said}")
    attacked, vectors = work / "attacked", work / "vectors"
    code, said = child(lambda: _later(work))
    if code:
        raise SystemExit(f"a later state cannot be made: {said}")
    targets: list[tuple[str, Path, Path, Path, Look]] = [
        ("", work / "base", attacked, attacked, state),
        (" of vectors", work / "good vectors", vectors, vectors, dense_state),
        (" of the model", work / "good model", work / "model", vectors, dense_state),
        (" of the reader", work / "good reader", work / "reader", vectors, ask_state),
    ]
    chance.shuffle(targets)
    results: dict[str, Totals] = {}
    for what, base, folder, out, look in effort.some(targets):
        opened, verified = _folder(base, folder, out, look, chance, effort)
        results[f"damage{what}, seen when opened"] = opened
        if look is not ask_state:  # a reader is no part of an index: `mundap doctor` looks at those installed
            results[f"damage{what}, seen by verify"] = verified
    return results


def _later(work: Path) -> None:
    """The same index after one more change: its files are whole, and of another state."""
    from mundap.index import build

    build.delete(copied(work / "base", work / "later"), ["5.txt"])
    build.delete(copied(work / "good vectors", work / "later vectors"), ["v5"])


def _folder(
    base: Path, folder: Path, out: Path, look: Look, chance: random.Random, effort: Effort
) -> tuple[Totals, Totals]:
    """Damage the files of a folder one by one, and look at an index."""
    opened, verified = Totals(), Totals()
    copied(base, folder)
    code, before = child(lambda: look(out))
    if code:
        opened.judge("stuck", f"{out.name} cannot be used before any damage: {before}")
        return opened, verified
    names = sorted(path.relative_to(base) for path in base.rglob("*") if path.is_file() and not _ignored(path))
    tried = []
    for name in names:
        data = (base / name).read_bytes()
        all_kinds = [(name, kind, _damaged(kind, data, base, name, names, chance)) for kind in _KINDS]
        tried += [one for one in all_kinds if one[2] != data]
    if effort.short:
        tried = chance.sample(tried, len(tried) // 4)
    for name, kind, damaged in effort.some(tried):
        copied(base, folder)
        if damaged is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(damaged)
        _judge(out, look, f"{name} {kind}", before, opened, verified)
    copied(base, folder)
    return opened, verified


def _ignored(path: Path) -> bool:
    """Locks, and the note of what was skipped: nothing is found by them."""
    return path.name in ("lock", "skipped.json") or path.suffix == ".lock"


def _damaged(kind: str, data: bytes, base: Path, name: Path, names: list[Path], chance: random.Random) -> bytes | None:
    """What a file becomes, None if it is gone; the same where this kind of damage does nothing to it."""
    if kind == "deleted":
        return None
    if kind == "flipped" and data:
        place = chance.randrange(len(data))
        return data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :]
    if kind == "cut":
        return data[: len(data) // 2]
    if kind == "emptied":
        return b""
    if kind == "swapped":  # with another file of the same kind, whole in itself
        alike = [other for other in names if other.suffix == name.suffix and other != name]
        return (base / alike[0]).read_bytes() if alike else b"another"
    if kind == "of a later state":
        later = base.with_name(base.name.replace("good", "later").replace("base", "later"))
        alike = [path for path in sorted(later.rglob(f"*{name.suffix}")) if path.is_file()]
        others = [path for path in alike if path.name == name.name] or alike
        return others[0].read_bytes() if others and name.name != "manifest.json" else data
    return data


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
