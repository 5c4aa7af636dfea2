"""Vectors out of the pickles that DPR and Tevatron write, without running anything these say.

A pickle is a small program that may call any function by name. This one may name the few that make arrays, and even
these are not called: stand-ins take down what they are given, and the arrays are made here.
"""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

_LARGEST = 64 << 30
_ARRAYS = {
    ("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct"),
    ("numpy.core.numeric", "_frombuffer"), ("numpy._core.numeric", "_frombuffer"),
    ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode"),
}  # fmt: skip
_NUMBERS = ("f2", "f4", "f8")


class _Type:
    """Stands for a numpy.dtype: keeps its name."""

    def __init__(self, name: str = "", *_: Any) -> None:
        self.name = name
        self.order = "<"

    def __setstate__(self, state: Any) -> None:
        self.order = "<" if state[1] in ("<", "|", "=") else ">"

    def real(self) -> np.dtype[Any]:
        if self.name not in _NUMBERS:
            raise ValueError(f"an array of {str(self.name)[:40]!r}, and not of floating point numbers")
        return np.dtype(f"{self.order}{self.name}")


class _Array:
    """Stands for a numpy.ndarray: keeps shape, type and bytes."""

    def __init__(self, *_: Any) -> None:
        self.array: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, data = state
        self.array = _made(data, kind, shape, "F" if fortran else "C")


def _from_buffer(data: Any, kind: Any, shape: Any, order: Any) -> _Array:
    made = _Array()
    made.array = _made(data, kind, shape, order)
    return made


def _made(data: Any, kind: Any, shape: Any, order: Any) -> np.ndarray:
    if not isinstance(kind, _Type) or not isinstance(data, bytes | bytearray) or order not in ("C", "F"):
        raise ValueError("an array of something else than numbers")
    return np.frombuffer(data, kind.real()).reshape(tuple(int(size) for size in shape), order=order)


def _encode(text: str, encoding: str = "latin1") -> bytes:
    """How protocol 2 writes bytes."""
    if encoding != "latin1":
        raise ValueError(f"bytes written as {encoding[:20]!r}")
    return text.encode("latin1")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ARRAYS:
            raise ValueError(f"it names {module}.{name}, which no file of vectors needs; it was not called")
        if name in ("_reconstruct", "ndarray"):
            return _Array
        if name == "dtype":
            return _Type
        return _encode if name == "encode" else _from_buffer

    def persistent_load(self, pid: Any) -> Any:
        raise ValueError("it refers to something outside")


def read_pickle(path: Path) -> tuple[np.ndarray, list[str]]:
    """Vectors and ids.

    DPR has a list of (id, vector); Tevatron a pair of all vectors and all ids.

    Raises:
        ValueError: It is something else.
    """
    if path.stat().st_size > _LARGEST:
        raise ValueError(f"larger than {_LARGEST >> 30} GB")
    try:
        found = _Unpickler(io.BytesIO(path.read_bytes())).load()
    except (
        pickle.UnpicklingError,
        AttributeError,
        TypeError,
        IndexError,
        EOFError,
        MemoryError,
        OverflowError,
    ) as error:
        raise ValueError(f"not a pickle of vectors ({error})") from error
    if isinstance(found, tuple | list) and len(found) == 2 and isinstance(found[0], _Array):
        return _tevatron(found[0], found[1])
    if isinstance(found, list) and found:
        return _dpr(found)
    raise ValueError("neither DPR's list of (id, vector) nor Tevatron's pair of vectors and ids")


def _tevatron(vectors: _Array, ids: Any) -> tuple[np.ndarray, list[str]]:
    if vectors.array is None or not isinstance(ids, list | tuple):
        raise ValueError("vectors without ids")
    return vectors.array, [_name(one) for one in ids]


def _dpr(rows: list[Any]) -> tuple[np.ndarray, list[str]]:
    vectors, ids = [], []
    for row in rows:
        if not isinstance(row, tuple | list) or len(row) < 2 or not isinstance(row[1], _Array) or row[1].array is None:
            raise ValueError("neither DPR's list of (id, vector) nor Tevatron's pair of vectors and ids")
        ids.append(_name(row[0]))
        vectors.append(row[1].array.reshape(-1))
    if len({len(vector) for vector in vectors}) > 1:
        raise ValueError("vectors of different lengths")
    return np.stack(vectors), ids


def _name(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str | int):
        return str(value)
    raise ValueError(f"an id that is a {type(value).__name__}")
