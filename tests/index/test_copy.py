"""Copies of an index, and what can be made again of its passages."""

import shutil
import threading

import pytest

from mundap import Index
from mundap.errors import IndexDamaged, UsageError
from mundap.index.build import Options, add, build, delete, repair
from mundap.index.copy import backup
from mundap.index.verify import verify

PLAIN = Options(model="none")


def found(out, **options):
    return [(hit.passage.id, round(hit.score, 5)) for hit in Index(out).search("river music row", 50, **options)]


def test_a_copy_is_an_index_and_checked(corpus, tmp_path, tiny_model):
    out = tmp_path / "i"
    build([corpus], out, Options(model=str(tiny_model)))
    delete(out, ["b1"])
    assert backup(out, tmp_path / "copy").generation == 2
    assert found(tmp_path / "copy") == found(out)
    assert verify(tmp_path / "copy") == []
    with pytest.raises(UsageError, match="already exists"):
        backup(out, tmp_path / "copy")
    next(out.glob("segments/*/strings.bin")).write_bytes(b"?")
    with pytest.raises(IndexDamaged, match="Nothing was copied"):
        backup(out, tmp_path / "second")
    assert not list(tmp_path.glob("second*"))


def test_a_copy_beside_a_writer_is_of_one_state(corpus, tmp_path):
    out = tmp_path / "i"
    build([corpus], out, PLAIN)
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            (tmp_path / "more.txt").write_text(f"river {number}")
            add([tmp_path / "more.txt"], out)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            backup(out, tmp_path / f"copy{number}")
            assert verify(tmp_path / f"copy{number}") == []
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize("damage", ["lost", "flipped", "no list"])
def test_the_lexical_index_is_made_again_of_the_passages(corpus, tmp_path, damage):
    out = tmp_path / "i"
    build([corpus], out, PLAIN)
    delete(out, ["b1"])
    names = sorted(one.id for one in Index(out).passages())
    (folder,) = out.glob("lexical-*")
    if damage == "lost":
        shutil.rmtree(folder)
    elif damage == "flipped":
        victim = next(folder.glob("*.idx"))
        data = victim.read_bytes()
        victim.unlink()  # cut short in place, it would end a thread of tantivy that still has it mapped
        victim.write_bytes(data[:9] + bytes([data[9] ^ 1]) + data[10:])
    else:
        (folder / "meta.json").unlink()
    assert verify(out)
    repair(out)
    assert verify(out) == []
    assert sorted(one.id for one in Index(out).passages()) == names
    assert len(found(out)) > 3


def test_the_approximate_index_is_made_again(tmp_path, tiny_model):
    out = tmp_path / "i"
    (tmp_path / "rows.tsv").write_text("".join(f"{n}\tthe river of music {n}\trow\n" for n in range(300)))
    build([tmp_path / "rows.tsv"], out, Options(model=str(tiny_model), dense="hnsw"))
    (victim,) = out.glob("dense-*.faiss")
    victim.write_bytes(b"")
    assert verify(out)
    repair(out)
    assert verify(out) == []
    assert Index(out).search("river", 5, "dense")


def test_damaged_passages_cannot_be_made_again(corpus, tmp_path):
    out = tmp_path / "i"
    build([corpus], out, PLAIN)
    next(out.glob("segments/*/strings.bin")).write_bytes(b"?")
    with pytest.raises(IndexDamaged, match="restore the file from a copy"):
        repair(out)
