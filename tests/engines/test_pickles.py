"""Pickles written by pickle itself of numpy's own arrays are read; all others are refused, and nothing is called."""

import contextlib
import os
import pickle
import struct
import subprocess
import sys

import numpy as np
import pytest

from mundap.engines.pickles import read_pickle
from tests.systems import linux_only

PROTOCOLS = range(2, 6)
ROWS = np.random.default_rng(0).normal(size=(1500, 24))  # more rows than pickle appends at once
IDS = [f"문서{number}" for number in range(len(ROWS))]


def read(tmp_path, data):
    path = tmp_path / "v"
    path.write_bytes(data)
    return read_pickle(path)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", ["<f2", "<f4", "<f8", ">f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_tevatron(tmp_path, protocol, kind, order):
    vectors = np.array(ROWS, kind, order=order)
    found, ids = read(tmp_path, pickle.dumps((vectors, IDS), protocol))
    assert ids == IDS and found.dtype == vectors.dtype and np.array_equal(found, vectors)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("kind", ["<f2", "<f4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_dpr(tmp_path, protocol, kind, order):
    vectors = np.array(ROWS, kind, order=order)  # a row of Fortran's order lies scattered
    found, ids = read(tmp_path, pickle.dumps(list(zip(IDS, vectors, strict=True)), protocol))
    assert ids == IDS and found.dtype == vectors.dtype and np.array_equal(found, vectors)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_ids_of_other_kinds_and_other_containers(tmp_path, protocol):
    rows = ROWS[:4].astype(np.float32)
    for given in ([7, 300, 70_000, 2**40], [b"a", b"b", "\xe9".encode(), b"d" * 300], ["x" * 300, "", "b", "c"]):
        wanted = [one.decode() if isinstance(one, bytes) else str(one) for one in given]
        for value in (tuple(zip(given, rows, strict=True)), [list(row) for row in zip(given, rows, strict=True)],
                      [rows, given], (rows, tuple(given))):  # fmt: skip
            found, ids = read(tmp_path, pickle.dumps(value, protocol))
            assert ids == wanted and np.array_equal(found, rows)


def test_written_in_python_by_numpy_1(tmp_path):
    """Which had its functions elsewhere; and by the pickler that is written in Python."""
    data = pickle._dumps((ROWS, IDS), 4)
    before = b"\x8c\x16numpy._core.multiarray"
    assert data.count(before) == 1
    found, ids = read(tmp_path, data.replace(before, b"\x8c\x15numpy.core.multiarray"))
    assert ids == IDS and np.array_equal(found, ROWS)


class Calls:
    def __init__(self, function, *given):
        self.call = function, given

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("around", [lambda evil: evil, lambda evil: [("a", evil)], lambda evil: (ROWS, [evil])])
def test_nothing_is_called(tmp_path, protocol, around):
    flag = tmp_path / "called"
    data = pickle.dumps(around(Calls(os.system, f"touch {flag}")), protocol)
    with pytest.raises(ValueError, match=r"it names posix\.system, which no file of vectors needs; it was not called"):
        read(tmp_path, data)
    assert not flag.exists()
    pickle.loads(data)
    assert flag.exists()  # so it is one that does something


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"a": 1}, "the instruction EMPTY_DICT"),
        ([("a", 1.5)], "the instruction BINFLOAT"),
        ({1, 2}, "the instruction EMPTY_SET"),
        (np.float32(1), r"it names numpy.*\.scalar"),
        ((np.array(["x"], object), ["a"]), "an array of 'O8'"),
        ((np.array([[1]]), ["a"]), "an array of 'i8'"),
        ((np.array(["x"]), ["a"]), "an array of 'U1'"),
        ([("a", np.ones(2)), ("b", np.ones(3))], "vectors of different lengths"),
        ([(None, np.ones(2))], "an id that is a NoneType"),
        ([], "neither DPR's list"),
        ("text", "neither DPR's list"),
        (["a", "b", "c"], "neither DPR's list"),
        ((np.ones((2, 2)), "ab"), "vectors without ids"),
        (bytearray, "it names builtins.bytearray"),
    ],
)
def test_other_things(tmp_path, value, said):
    with pytest.raises(ValueError, match=said):
        read(tmp_path, pickle.dumps(value))


P4 = b"\x80\x04"
ARRAY = b"cnumpy.core.multiarray\n_reconstruct\n"
HOSTILE = {
    "protocol": (b"\x80\x09N.", "protocol 9"),
    "empty stack": (P4 + b".", "not a pickle of vectors"),
    "no list": (P4 + b"K\x01K\x01a.", "adds to something that is no list"),
    "no mark": (P4 + b"K\x01t.", "not a pickle of vectors"),
    "never put": (P4 + b"h\x07.", "not a pickle of vectors"),
    "no end": (P4 + b"K\x01", "pickle exhausted"),
    "unknown": (P4 + b"\xff.", "unknown"),
    "empty": (b"", "it is empty"),
    "extension": (P4 + b"\x82\x01.", "the instruction EXT1"),
    "persistent": (P4 + b"Pevil\n.", "the instruction PERSID"),
    "new object": (P4 + b"cos\nsystem\n)\x81.", "it names os.system"),
    "name of no text": (P4 + b"K\x01K\x02\x93.", "it names 1.2,"),
    "instance": (P4 + b"(ios\nsystem\n.", "the instruction INST"),
    "out of band": (b"\x80\x05\x97.", "the instruction NEXT_BUFFER"),
    "call of text": (P4 + b"\x8c\x01a)R.", "makes no array"),
    "call of nothing": (P4 + ARRAY + b"R.", "not a pickle of vectors"),
    "state of text": (P4 + b"\x8c\x01aNb.", "something that is no array"),
    "state of nothing": (P4 + ARRAY + b")RNb.", "not a pickle of vectors"),
    "huge bytes": (P4 + b"\x8e" + struct.pack("<Q", 1 << 40) + b"x.", "expected 1099511627776 bytes"),
    "huger bytes": (P4 + b"\x8e" + struct.pack("<Q", (1 << 64) - 1) + b"x.", "sys.maxsize"),
    "huge bytearray": (b"\x80\x05\x96" + struct.pack("<Q", 1 << 40) + b"x.", "expected 1099511627776 bytes"),
    "huge text": (P4 + b"\x8d" + struct.pack("<Q", 1 << 40) + b"x.", "expected 1099511627776 bytes"),
    "huge number": (P4 + b"\x8b" + struct.pack("<i", (1 << 31) - 1) + b"x.", "LONG4|not enough data"),
    "huge shape": (pickle.dumps((np.ones((2, 3)), ["a", "b"]), 4).replace(b"K\x02K\x03\x86", b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86"),
                   "cannot reshape"),
    "shape below 0": (pickle.dumps((np.ones((2, 3)), ["a", "b"]), 4).replace(b"K\x02K\x03\x86", b"J\xff\xff\xff\xffK\x03\x86"),
                      "something else than numbers"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(tmp_path, name):
    data, said = HOSTILE[name]
    with pytest.raises(ValueError, match=said):
        read(tmp_path, data)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_cut_anywhere(tmp_path, protocol):
    rows = list(zip(["a", b"b"], ROWS[:2, :2].astype(np.float32), strict=True))
    data = pickle.dumps(rows, protocol)
    for end in range(len(data)):
        with pytest.raises(ValueError):
            read(tmp_path, data[:end])
    for place in range(len(data)):  # one byte wrong: read or refused, and never another kind of error
        for wrong in (data[place] ^ 1, 0x28):
            with contextlib.suppress(ValueError):
                read(tmp_path, data[:place] + bytes([wrong]) + data[place + 1 :])


def laughs():
    """The same list ten times in a list, and that ten times, and so on: 10^40 in all."""
    value = "ha"
    for _ in range(40):
        value = [value] * 10
    return pickle.dumps(value)


def one_vector_for_all():
    vector = np.ones(1 << 17)
    return pickle.dumps([(str(number), vector) for number in range(20_000)])  # 20 GB


def one_buffer_for_all():
    """As protocol 2 writes bytes: each row makes them anew, out of one text."""
    text = (
        b"\x80\x02X"
        + struct.pack("<I", 1 << 20)
        + b"a" * (1 << 20)
        + b"q\x00\x8c\x06latin1q\x01c_codecs\nencode\nq\x02]("
    )
    return text + b"h\x02h\x00h\x01\x86R" * 20_000 + b"e."  # 20 GB


def one_id_for_all():
    name = b"a" * (1 << 20)
    return pickle.dumps((np.ones((20_000, 2)), [name] * 20_000))


def nothing_but_lists():
    return P4 + b"]" * 2_000_000 + b"."


def tuple_in_tuple():
    return P4 + b")" + b"\x85" * 2_000_000 + b"."


BOUNDED = """
import resource, sys
from pathlib import Path
from mundap.engines.pickles import read_pickle
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
try:
    read_pickle(Path(sys.argv[1]))
except ValueError as error:
    print(error)
"""


@linux_only
@pytest.mark.parametrize(
    ("made", "said"),
    [
        (laughs, "neither DPR's"),
        (one_vector_for_all, "the same again and again"),
        (one_buffer_for_all, "the same again and again"),
        (one_id_for_all, "the same again and again"),
        (nothing_but_lists, "far more instructions"),
        (tuple_in_tuple, "far more instructions"),
    ],
)
def test_made_to_fill_the_memory(tmp_path, made, said):
    path = tmp_path / "v"
    path.write_bytes(made())
    limit = 2 << 30  # of addresses: numpy alone takes most of the first gigabyte
    command = [sys.executable, "-c", BOUNDED, path, str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
