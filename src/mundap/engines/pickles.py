"""Vectors out of the pickles that DPR and Tevatron write, without unpickling them.

A pickle is a program for a small machine with a stack. `pickletools` tells its instructions one by one; the few with
which lists, strings, numbers and numpy's arrays are written are followed here, and all others are refused by name.
Whatever a file wants to have called is neither looked up nor called: what numpy's own functions would do is done here.
"""

import mmap
import pickletools
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

_PROTOCOLS = range(2, 6)
_NUMBERS = ("f2", "f4", "f8")
_NEITHER = "neither DPR's list of (id, vector) nor Tevatron's pair of vectors and ids"
# A vector has many bytes and few instructions. A file that has more of them than that is made to fill the memory.
_FREE_INSTRUCTIONS, _BYTES_AN_INSTRUCTION = 100_000, 4


class _Room:
    """As many bytes as the file has: whatever becomes larger is one thing, told once and used again and again."""

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise ValueError("what it says is larger than the file: it has the same again and again")


class _Named(Enum):
    """What a file of vectors may name."""

    ARRAY = "_reconstruct"
    FROM_BUFFER = "_frombuffer"
    CLASS = "ndarray"
    TYPE = "dtype"
    ENCODE = "encode"


_NAMES = {
    ("numpy.core.multiarray", "_reconstruct"): _Named.ARRAY,
    ("numpy._core.multiarray", "_reconstruct"): _Named.ARRAY,
    ("numpy.core.numeric", "_frombuffer"): _Named.FROM_BUFFER,
    ("numpy._core.numeric", "_frombuffer"): _Named.FROM_BUFFER,
    ("numpy", "ndarray"): _Named.CLASS,
    ("numpy", "dtype"): _Named.TYPE,
    ("_codecs", "encode"): _Named.ENCODE,
}


class _Type:
    """A numpy.dtype of floating point numbers; the order of their bytes comes later."""

    def __init__(self, name: Any) -> None:
        if name not in _NUMBERS:
            raise ValueError(f"an array of {str(name)[:40]!r}, and not of floating point numbers")
        self.name = name
        self.order = "<"


class _Array:
    """A numpy.ndarray; what is in it comes later."""

    def __init__(self) -> None:
        self.array: np.ndarray | None = None

    def fill(self, data: Any, kind: Any, shape: Any, order: Any) -> None:
        sizes = isinstance(shape, tuple) and all(isinstance(size, int) and size >= 0 for size in shape)
        if (
            not isinstance(kind, _Type)
            or not isinstance(data, bytes | bytearray)
            or order not in ("C", "F")
            or not sizes
        ):
            raise ValueError("an array of something else than numbers")
        self.array = np.frombuffer(data, np.dtype(f"{kind.order}{kind.name}")).reshape(shape, order=order)


_MARK = object()
_PUT = {"BININT", "BININT1", "BININT2", "LONG1", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES",
        "BINBYTES", "BINBYTES8", "BYTEARRAY8"}  # fmt: skip
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": (), "MARK": _MARK}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Machine:
    """Follows the instructions. An IndexError or KeyError says that the file is none that pickle wrote."""

    def __init__(self, size: int) -> None:
        self.stack: list[Any] = []
        self._encoded = _Room(size)
        self._memo: dict[int, Any] = {}
        self._others: dict[str, Callable[[Any], None]] = {
            "PROTO": self._protocol,
            "FRAME": lambda _: None,
            "EMPTY_LIST": lambda _: self.stack.append([]),
            "TUPLE": lambda _: self.stack.append(tuple(self._to_mark())),
            "APPEND": lambda _: self._extend([self.stack.pop()]),
            "APPENDS": lambda _: self._extend(self._to_mark()),
            "MEMOIZE": lambda _: self._remember(len(self._memo)),
            "BINPUT": self._remember,
            "LONG_BINPUT": self._remember,
            "BINGET": lambda place: self.stack.append(self._memo[place]),
            "LONG_BINGET": lambda place: self.stack.append(self._memo[place]),
            "GLOBAL": lambda name: self._name(*name.split(" ", 1)),
            "STACK_GLOBAL": lambda _: self._name(*self._last(2)),
            "REDUCE": lambda _: self._call(*self._last(2)),
            "BUILD": lambda _: self._build(self.stack.pop()),
        }

    def follow(self, instruction: str, argument: Any) -> None:
        """Do what one instruction says."""
        if instruction in _PUT:
            self.stack.append(argument)
        elif instruction in _CONSTANTS:
            self.stack.append(_CONSTANTS[instruction])
        elif instruction in _TUPLES:
            self.stack.append(tuple(self._last(_TUPLES[instruction])))
        elif instruction in self._others:
            self._others[instruction](argument)
        else:
            raise ValueError(f"it has the instruction {instruction}, which no file of vectors needs")

    def _protocol(self, number: int) -> None:
        if number not in _PROTOCOLS:
            raise ValueError(f"it is a pickle of protocol {number}; those from 2 to 5 are read")

    def _last(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise IndexError("its stack is empty")
        taken = self.stack[-count:]
        del self.stack[-count:]
        return taken

    def _to_mark(self) -> list[Any]:
        taken = []
        while (value := self.stack.pop()) is not _MARK:
            taken.append(value)
        return taken[::-1]

    def _extend(self, values: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise ValueError("it adds to something that is no list")
        self.stack[-1].extend(values)

    def _remember(self, place: int) -> None:
        self._memo[place] = self.stack[-1]

    def _name(self, module: Any, name: Any) -> None:
        known = _NAMES.get((module, name))
        if known is None:
            raise ValueError(
                f"it names {str(module)[:80]}.{str(name)[:80]}, which no file of vectors needs; it was not called"
            )
        self.stack.append(known)

    def _call(self, function: Any, given: Any) -> None:
        """What numpy's functions would give. `encode` is how protocol 2 writes bytes."""
        if function is _Named.ARRAY:
            self.stack.append(_Array())
        elif function is _Named.FROM_BUFFER:
            made = _Array()
            made.fill(*given)
            self.stack.append(made)
        elif function is _Named.TYPE:
            self.stack.append(_Type(given[0]))
        elif function is _Named.ENCODE and isinstance(given[0], str) and given[1] == "latin1":
            self._encoded.take(len(given[0]))
            self.stack.append(given[0].encode("latin1"))
        else:
            raise ValueError("it calls something that makes no array")

    def _build(self, state: Any) -> None:
        made = self.stack[-1]
        if isinstance(made, _Array):
            _, shape, kind, fortran, data = state
            order = "C"
            if fortran:
                order = "F"
            made.fill(data, kind, shape, order)
        elif isinstance(made, _Type):
            if state[1] == ">":
                made.order = ">"
        else:
            raise ValueError("it sets up something that is no array")


def read_pickle(path: Path) -> tuple[np.ndarray, list[str]]:
    """Read vectors and ids.

    DPR has a list of (id, vector); Tevatron a pair of all vectors and all ids.

    Raises:
        ValueError: It is something else.
    """
    size = path.stat().st_size
    if not size:
        raise ValueError("it is empty")
    found = _value(path, size)
    if isinstance(found, tuple | list) and len(found) == 2 and isinstance(found[0], _Array):
        return _tevatron(found[0], found[1], size)
    if isinstance(found, list | tuple) and found:
        return _dpr(found, size)
    raise ValueError(_NEITHER)


def _value(path: Path, size: int) -> Any:
    """What the file says. Mapped, since a read from a file makes room for any length that an instruction claims."""
    machine = _Machine(size)
    most = _FREE_INSTRUCTIONS + size // _BYTES_AN_INSTRUCTION
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        try:
            # pickletools' annotations do not know that anything with read, readline and tell will do.
            untyped: Any = mapped
            for number, (instruction, argument, _) in enumerate(pickletools.genops(untyped)):
                if number > most:
                    raise ValueError("it has far more instructions than its vectors need")
                if instruction.name == "STOP":
                    break
                machine.follow(instruction.name, argument)
            return machine.stack.pop()
        except (IndexError, KeyError, TypeError) as error:
            raise ValueError(f"not a pickle of vectors ({error})") from error


def _tevatron(vectors: _Array, ids: Any, size: int) -> tuple[np.ndarray, list[str]]:
    if vectors.array is None or not isinstance(ids, list | tuple):
        raise ValueError("vectors without ids")
    room = _Room(size)
    return vectors.array, [_id(one, room) for one in ids]


def _dpr(rows: list[Any] | tuple[Any, ...], size: int) -> tuple[np.ndarray, list[str]]:
    vectors, ids = [], []
    for_ids, for_vectors = _Room(size), _Room(size)
    for row in rows:
        if not isinstance(row, tuple | list) or len(row) < 2 or not isinstance(row[1], _Array) or row[1].array is None:
            raise ValueError(_NEITHER)
        for_vectors.take(row[1].array.nbytes)
        vectors.append(row[1].array.reshape(-1))
        ids.append(_id(row[0], for_ids))
    if len({len(vector) for vector in vectors}) > 1:
        raise ValueError("vectors of different lengths")
    return np.stack(vectors), ids


def _id(value: Any, room: _Room) -> str:
    if isinstance(value, int) and value.bit_length() <= 64:
        return str(value)
    if not isinstance(value, bytes | str):
        raise ValueError(f"an id that is a {type(value).__name__}")
    room.take(len(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value
