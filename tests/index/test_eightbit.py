import ctypes
import mmap
import os
import shutil
import sys
import time
from dataclasses import replace

import faiss
import numpy as np
import pytest

from mundap import Index
from mundap.errors import IndexDamaged
from mundap.index import ahead, dense, eightbit
from mundap.index.ahead import read_ahead
from mundap.index.build import Options, add, build
from mundap.index.gather import Gather
from mundap.index.manifest import DenseEntry, FileEntry, Manifest
from mundap.index.verify import verify
from tests.index.test_dense import DIMENSION, make_corpus, reference

SIZES = [3000, 5000, 1001]
COUNT = sum(SIZES)


def built(root, corpus):
    """The entry of an approximate index with its copy."""
    dense.build(corpus, "ivf", root / "dense.faiss", root / "dense.bytes")
    files = [FileEntry(name, (root / name).stat().st_size, "") for name in ("dense.faiss", "dense.bytes")]
    return DenseEntry(files[0], "ivf", COUNT, len(corpus), 30, 12, copy=files[1])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A corpus, its vectors, questions, and the entry of an index that was made when every seventh passage was deleted."""
    root = tmp_path_factory.mktemp("eightbit")
    corpus, vectors, questions = make_corpus(root, SIZES)
    corpus.deleted = np.arange(0, COUNT, 7, dtype=np.uint64)
    kept = eightbit._REGION
    eightbit._REGION = 700 * DIMENSION  # so that there are many, and the last is not full
    try:
        return root, corpus, vectors, questions, built(root, corpus)
    finally:
        eightbit._REGION = kept


def test_every_vector_has_its_place_in_the_order_of_the_lists(made):
    root, corpus, vectors, _, entry = made
    copy = eightbit.EightBit(root, entry, DIMENSION)
    living = np.flatnonzero(np.arange(COUNT) % 7)
    places = copy._places[living]
    assert sorted(places) == list(range(len(living)))
    assert set(copy._places[::7]) == {eightbit._NOWHERE}
    low, width = copy._ranges.reshape(2, -1)
    decoded = low + (copy._codes[places] + 0.5) / 255 * width
    assert np.abs(decoded - vectors[living]).max() < 0.05
    index = faiss.read_index(str(root / "dense.faiss"))
    first = next(number for number in range(index.nlist) if index.invlists.list_size(number))
    ids = faiss.rev_swig_ptr(index.invlists.get_ids(first), index.invlists.list_size(first))
    assert list(copy._places[ids]) == list(range(len(ids)))


@pytest.mark.parametrize("k", [1, 10, 100])
def test_the_copy_changes_neither_what_is_found_nor_its_scores(made, k):
    root, corpus, _, questions, entry = made
    fetched = []
    with_it, without = dense.Dense(root, corpus, entry), dense.Dense(root, corpus, replace(entry, copy=None))
    rerank = with_it._rerank
    with_it._rerank = lambda vectors, found, k: fetched.append(found.shape[1]) or rerank(vectors, found, k)
    for (one, scores), (two, others) in zip(with_it.search(questions, k), without.search(questions, k), strict=True):
        assert list(one) == list(two)
        assert scores == pytest.approx(others, rel=1e-5)
    assert max(fetched) == min(12 * k, k + max(16, k // 8))


def test_as_many_are_found_where_most_of_the_best_were_deleted_since(made):
    root, corpus, vectors, questions, entry = made
    before = corpus.deleted
    gone = np.sort(reference(vectors, questions[:1], 300)[1][0]).astype(np.uint64)
    try:
        corpus.deleted = np.union1d(before, gone)
        numbers, _ = dense.Dense(root, corpus, entry).search(questions[:1], 50)[0]
        assert len(numbers) == 50
        assert not set(numbers.tolist()) & set(corpus.deleted.tolist())
    finally:
        corpus.deleted = before


@pytest.mark.parametrize("size", [-4, -1, 4 * COUNT])
def test_a_copy_of_the_wrong_size_is_refused(made, tmp_path, size):
    root, corpus, _, _, entry = made
    path = tmp_path / "dense.bytes"
    data = (root / "dense.bytes").read_bytes()
    path.write_bytes(data[:size] if size < 0 else data + bytes(size))
    copy = FileEntry(path.name, path.stat().st_size, "")
    shutil.copy(root / "dense.faiss", tmp_path)
    if size == -4:  # then the table is shorter than the passages are many
        entry = replace(entry, passages=entry.until)
    with pytest.raises(IndexDamaged, match="wrong size"):
        dense.Dense(tmp_path, corpus, replace(entry, copy=copy))


def test_an_index_lists_its_copy_and_makes_it_again_with_the_next(tmp_path, tiny_model, monkeypatch):
    monkeypatch.setattr(dense, "EIGHT_BIT_FROM", 300)
    monkeypatch.setattr("mundap.index.writer.EXACT_UP_TO", 200)
    words = ["river", "king", "mountain", "city", "sea", "castle", "forest"]

    def rows(name, count):
        path = tmp_path / name
        lines = (f'{{"id": "{name}{n}", "text": "{words[n % 7]} {words[n % 5]} {n}"}}\n' for n in range(count))
        path.write_text("".join(lines))
        return path

    out = tmp_path / "i"
    build([rows("a.jsonl", 400)], out, Options(model=str(tiny_model), dense="ivf"))
    copy = Manifest.load(out).dense.copy
    assert copy is not None
    assert verify(out) == []
    old = Index(out)
    add([rows("b.jsonl", 400)], out)
    new = Manifest.load(out).dense.copy
    assert new is not None
    assert new != copy
    size = (out / new.path).stat().st_size
    assert not (out / copy.path).exists()
    assert old.search("king", 5, "dense")
    build([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], out, Options(model=str(tiny_model), dense="ivf"), fresh=True)
    again = Manifest.load(out)
    assert again.segments[0].first > 0
    assert (out / again.dense.copy.path).stat().st_size == size  # numbers go on, the table of places begins anew
    assert len(Index(out).search("king", 5, "dense")) == 5
    (out / again.dense.copy.path).unlink()
    assert len(verify(out)) == 1
    with pytest.raises(IndexDamaged, match="missing"):
        Index(out)


def test_all_that_share_the_last_place_are_looked_at():
    gather = Gather(4)
    stored = np.zeros((200, 4), np.float16)
    stored[50:, 0] = 1
    stored[190, 0] = 2
    gather.room(200)[:] = stored.view(np.uint8)
    rows, scores = gather.best(np.array([1, 0, 0, 0], np.float32), 3)
    assert set(range(50, 200)) <= set(rows.tolist())
    assert rows[0] == 190
    assert scores[0] == 2
    assert gather.products(np.array([1, 0, 0, 0], np.float32)).tolist() == stored[:, 0].tolist()
    assert gather.room(0).shape == (0, 8)
    assert len(gather.best(np.ones(4, np.float32), 3)[0]) == 0


def pages_in_memory(mapped, size):
    seen = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    assert ctypes.CDLL(None).mincore(ctypes.c_void_p(mapped), ctypes.c_size_t(size), seen) == 0
    return np.array(seen) & 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can be told of many places at once")
def test_places_are_read_ahead(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(400 * mmap.PAGESIZE))
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        data.madvise(mmap.MADV_RANDOM)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        start = np.frombuffer(data, np.uint8).ctypes.data
        if pages_in_memory(start, len(data)).any():
            pytest.skip("this file system keeps what it was told to drop")
        wanted = np.array([5, 77, 300], np.uint64)
        # The second begins on one page and ends on the next.
        inside = np.array([0, mmap.PAGESIZE - 10, 100], np.uint64)
        if not read_ahead(np.uint64(start) + wanted * np.uint64(mmap.PAGESIZE) + inside, 64):
            pytest.skip("process_madvise is forbidden here")
        for _ in range(100):
            there = np.flatnonzero(pages_in_memory(start, len(data)))
            if len(there) == 4:
                break
            time.sleep(0.05)
        assert there.tolist() == [5, 77, 78, 300]
        assert not read_ahead(np.empty(0, np.uint64), 64)


def test_places_are_read_ahead_while_they_come_from_disk(made, monkeypatch):
    root, corpus, _, questions, entry = made
    reads, told = [0], []
    monkeypatch.setattr(ahead, "_disk_reads", lambda: reads[0])
    monkeypatch.setattr(ahead, "read_ahead", lambda places, size: told.append((len(places), size)))
    monkeypatch.setattr(ahead, "_TIMES", 3)
    index = dense.Dense(root, corpus, entry)
    expected = [list(numbers) for numbers, _ in index.search(questions, 10)]
    assert not told
    monkeypatch.setattr(ahead, "_disk_reads", lambda: reads.__setitem__(0, reads[0] + 90) or reads[0])
    assert [list(index.search(question[None], 10)[0][0]) for question in questions] == expected
    # The first is waited for, three are read ahead, and the same again: of the copy, and of the vectors themselves.
    assert told == [(120, DIMENSION), (26, 2 * DIMENSION)] * 6


def test_vectors_are_where_they_are_said_to_be(made):
    _, corpus, vectors, _, _ = made
    numbers = np.array([0, 2999, 3000, 8999, 9000], np.uint64)
    for address, number in zip(corpus.addresses(*corpus.places(numbers)).tolist(), numbers.tolist(), strict=True):
        stored = np.frombuffer(ctypes.string_at(address, 2 * DIMENSION), np.float16)
        assert np.array_equal(stored.astype(np.float32), vectors[number])
