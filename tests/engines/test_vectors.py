import json
import pickle

import numpy as np
import pytest

from mundap import Encoder
from mundap.engines import build, open_index, shards, vectors
from mundap.engines.milvus import Milvus
from mundap.engines.shards import Work, encode_shard
from mundap.errors import EngineError, MundapError, UsageError
from mundap.index.build import Options
from tests.conftest import make_model
from tests.systems import not_windows


def work(corpus, tmp_path, model, of=3, **options):
    return Work((str(corpus),), Options(model=str(model), **options), tmp_path / "vectors", of)


def same(one, two):
    """Whether two indexes have the same passages with the same vectors, and rank them alike."""
    assert [passage.id for passage in one.passages()] == [passage.id for passage in two.passages()]
    numbers = [number for number, _ in one._corpus.passages()]
    left, right = (index._corpus.vectors(np.array(numbers, np.uint64)) for index in (one, two))
    assert np.array_equal(left, right)
    for question in ("river", "music king"):
        left, right = one.search(question, 100), two.search(question, 100)
        assert [hit.passage.id for hit in left] == [hit.passage.id for hit in right]
        assert [hit.score for hit in left] == pytest.approx([hit.score for hit in right], abs=1e-5)
    return True


@pytest.fixture
def plain(corpus, tmp_path, tiny_model):
    build.build([corpus], str(tmp_path / "plain"), Options(model=str(tiny_model)))
    return open_index(tmp_path / "plain")


def test_shards_give_the_index_of_one_machine(corpus, tmp_path, tiny_model, plain, monkeypatch):
    monkeypatch.setattr(shards, "_SHARED_FROM", 1000)  # the row file is shared out, the others go to one shard each
    monkeypatch.setattr(shards, "_BLOCK", 1)
    job = work(corpus, tmp_path, tiny_model)
    made = [encode_shard(job, shard) for shard in (2, 3, 1)]
    assert sum(facts.passages for facts in made) == 10
    assert all(facts.passages for facts in made)
    before = {path: path.stat().st_mtime_ns for path in job.out.iterdir()}
    assert encode_shard(job, 1) == made[2]
    assert before == {path: path.stat().st_mtime_ns for path in job.out.iterdir()}  # not made again
    build.build([corpus], str(tmp_path / "i"), Options(model=str(tiny_model)), vectors=job.out)
    assert same(open_index(tmp_path / "i"), plain)


@not_windows
def test_a_full_disk_leaves_no_part_of_a_shard(corpus, tmp_path, tiny_model):
    job = work(corpus, tmp_path, tiny_model, of=1)
    import resource

    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    encoder = Encoder.from_pretrained(tiny_model)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, limit[1]))  # less than ten vectors of 16 x 2 bytes and a header
    try:
        with pytest.raises(MundapError, match="cannot write to .*: File too large"):
            encode_shard(job, 1, encoder=encoder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert list(job.out.iterdir()) == []
    assert encode_shard(job, 1).passages == 10
    assert np.load(job.path(1).with_suffix(".npy"), allow_pickle=False).shape == (10, 16)


def test_missing_doubled_and_foreign_shards(corpus, tmp_path, tiny_model):
    job = work(corpus, tmp_path, tiny_model)
    out, options = str(tmp_path / "i"), Options(model=str(tiny_model))
    encode_shard(job, 1)
    encode_shard(job, 3)
    with pytest.raises(UsageError, match=r"1 of 3 shards are missing: 2. Make them with `mundap encode … --shard 2/3`"):
        build.build([corpus], out, options, vectors=job.out)
    encode_shard(job, 2)
    for path in list(job.out.glob("shard-00002-*")):
        (job.out / path.name.replace("00002", "00009")).write_bytes(path.read_bytes())
    with pytest.raises(UsageError, match="shard 2 of 3 twice"):
        build.build([corpus], out, options, vectors=job.out)
    for path in job.out.glob("shard-00009-*"):
        path.unlink()
    other = make_model(tmp_path / "other", seed=1)
    with pytest.raises(UsageError, match="was made with the model"):
        build.build([corpus], out, Options(model=str(other)), vectors=job.out)
    with pytest.raises(UsageError, match="no vector for the passage"):
        build.build([corpus], out, Options(model=str(tiny_model), words=20), vectors=job.out)
    with pytest.raises(MundapError, match="no index|not finished"):  # a slow build may have made a checkpoint
        open_index(out)
    build.build([corpus], out, options, vectors=job.out)
    assert len(open_index(out)) == 10


def rows_of(index, encoder):
    passages = list(index.passages())
    return [passage.id for passage in passages], encoder.encode_passages([(one.title, one.text) for one in passages])


@pytest.mark.parametrize("layout", ["npy", "npy with ids", "safetensors", "dpr", "tevatron"])
def test_layouts_of_others(layout, corpus, tmp_path, tiny_model, plain):
    ids, vectors = rows_of(plain, Encoder.from_pretrained(tiny_model))
    folder = tmp_path / "ready"
    folder.mkdir()
    turned = list(reversed(range(len(ids))))
    if layout == "npy":  # in the order of the passages
        np.save(folder / "v.npy", vectors)
    elif layout == "npy with ids":
        np.save(folder / "v.npy", vectors[turned])
        (folder / "v.ids").write_text("\n".join(ids[n] for n in turned))
    elif layout == "safetensors":
        numpy = pytest.importorskip("safetensors.numpy")
        numpy.save_file({"embeddings": vectors[turned].copy()}, folder / "v.safetensors")
        (folder / "v.json").write_text(json.dumps([ids[n] for n in turned]))
    elif layout == "dpr":
        halves = turned[:4], turned[4:]
        for number, part in enumerate(halves):
            rows = [(f"wiki:{ids[n]}" if number else ids[n].encode(), vectors[n]) for n in part]
            (folder / f"wiki_{number}").write_bytes(pickle.dumps(rows, protocol=2 + 2 * number))
    else:
        for protocol, part in ((5, turned[:4]), (4, turned[4:])):
            (folder / f"{protocol}.pkl").write_bytes(pickle.dumps((vectors[part], [ids[n] for n in part]), protocol))
    build.build([corpus], str(tmp_path / "i"), Options(model=str(tiny_model)), vectors=folder)
    assert same(open_index(tmp_path / "i"), plain)


@pytest.mark.parametrize(
    ("ids", "said"), [("[1, 2", "is no list of ids"), ('{"a": 1}', "is no list of ids"), ('["a"]', "has 1 ids for 10")]
)
def test_ids_that_cannot_be_right(ids, said, corpus, tmp_path, tiny_model):
    np.save(tmp_path / "v.npy", np.ones((10, 16), np.float32))
    (tmp_path / "v.json").write_text(ids)
    with pytest.raises(UsageError, match=said):
        build.build([corpus], str(tmp_path / "i"), Options(model=str(tiny_model)), vectors=tmp_path / "v.npy")


class _Evil:
    def __reduce__(self):
        return print, ("called",)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda v: np.where(np.arange(16) == 3, np.nan, v), "vector 0 has nan"),
        (lambda v: v[:, :8], "vectors of 8 dimensions; the model's have 16"),
        (lambda v: v[:4], "has 4 vectors, and there are more passages"),
        (lambda v: np.vstack([v, v]), "has 20 vectors for 10 passages"),
        (lambda v: v[0], "not a matrix"),
        (lambda v: (v * 100).astype(np.int32), "not a matrix of floating point"),
        (lambda v: v * 1e6, "half precision"),
    ],
)
def test_vectors_that_cannot_be_right(made, said, corpus, tmp_path, tiny_model, plain):
    _, vectors = rows_of(plain, Encoder.from_pretrained(tiny_model))
    np.save(tmp_path / "v.npy", made(vectors))
    with pytest.raises(UsageError, match=said):
        build.build([corpus], str(tmp_path / "i"), Options(model=str(tiny_model)), vectors=tmp_path / "v.npy")
    with pytest.raises(MundapError):
        open_index(tmp_path / "i")


@pytest.mark.parametrize(
    "value",
    [
        _Evil(),
        [("a", _Evil())],
        {"a": 1},
        [("a", 1.0)],
        (np.array(["x"], object), ["a"]),
        [],
        (np.ones((2, 16)), [_Evil()]),
    ],
)
def test_pickles_run_nothing(value, corpus, tmp_path, tiny_model, capsys):
    (tmp_path / "v.pkl").write_bytes(pickle.dumps(value))
    with pytest.raises(MundapError, match="cannot be read"):
        build.build([corpus], str(tmp_path / "i"), Options(model=str(tiny_model)), vectors=tmp_path / "v.pkl")
    assert "called" not in capsys.readouterr().out


def test_rows_without_ids_need_a_new_index(corpus, tmp_path, tiny_model, plain):
    _, vectors = rows_of(plain, Encoder.from_pretrained(tiny_model))
    np.save(tmp_path / "v.npy", vectors)
    options = Options(model=str(tiny_model))
    with pytest.raises(UsageError, match="build anew"):
        build.build([corpus], str(tmp_path / "plain"), options, vectors=tmp_path / "v.npy")
    build.build([corpus], str(tmp_path / "plain"), options, fresh=True, vectors=tmp_path / "v.npy")
    assert len(open_index(tmp_path / "plain")) == 10


def test_an_index_without_a_model_takes_no_vectors(corpus, place, tmp_path):
    np.save(tmp_path / "v.npy", np.ones((10, 16), np.float32))
    with pytest.raises(
        UsageError, match="an index without a model has no vectors: name the question encoder|needs BM25"
    ):
        build.build([corpus], place, Options(model="none"), vectors=tmp_path / "v.npy")


def test_two_vectors_for_one_id(corpus, tmp_path, tiny_model, plain):
    ids, vectors = rows_of(plain, Encoder.from_pretrained(tiny_model))
    folder = tmp_path / "ready"
    folder.mkdir()
    for number, part in enumerate((slice(0, 6), slice(5, 10))):
        (folder / f"wiki_{number}").write_bytes(pickle.dumps(list(zip(ids[part], vectors[part], strict=True))))
    with pytest.raises(UsageError, match="two vectors with the same id: row 5 of wiki_0 and row 0 of wiki_1"):
        build.build([corpus], str(tmp_path / "i"), Options(model=str(tiny_model)), vectors=folder)


def test_rows_without_ids_in_an_engine(corpus, engine_place, tmp_path, tiny_model, plain, monkeypatch):
    _, vectors = rows_of(plain, Encoder.from_pretrained(tiny_model))
    options, ready = Options(model=str(tiny_model)), tmp_path / "v.npy"
    np.save(ready, np.vstack([vectors, vectors]))
    with pytest.raises(UsageError, match="has 20 vectors for 10 passages.*The index is not finished"):
        build.build([corpus], engine_place, options, vectors=ready)
    np.save(ready, vectors)
    with pytest.raises(UsageError, match="build anew"):
        build.build([corpus], engine_place, options, vectors=ready)

    def breaking(self, some):
        raise EngineError("the connection was lost")

    with monkeypatch.context() as patched:
        patched.setattr(Milvus, "upsert", breaking)
        with pytest.raises(EngineError, match="lost"):
            build.build([corpus], engine_place, options, fresh=True, vectors=ready)
    report = build.build([corpus], engine_place, options, fresh=True, vectors=ready)  # from the first row again
    assert (report.passages, report.resumed) == (10, False)


def test_a_folder_without_vectors(corpus, tmp_path, tiny_model):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="has no vectors"):
        build.build([corpus], str(tmp_path / "i"), Options(model=str(tiny_model)), vectors=tmp_path / "empty")
    with pytest.raises(UsageError, match="the first is 1, the last 3"):
        encode_shard(work(corpus, tmp_path, tiny_model), 4)


def test_ready_vectors_go_into_an_engine(corpus, engine_place, tmp_path, tiny_model):
    job = work(corpus, tmp_path, tiny_model)
    for shard in (1, 2, 3):
        encode_shard(job, shard)
    build.build([corpus], engine_place, Options(model=str(tiny_model)), vectors=job.out)
    assert len(open_index(engine_place).search("river", 100, "dense")) == 10


def npy(head):
    """A file of numpy's with such a head, and nothing else."""
    text = head.ljust(118).encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "content",
    [
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (), }") + bytes(4),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 3), }"),
        npy("{'descr': 'O', 'fortran_order': False, 'shape': (2, 3), }"),
        npy("(" * 8000),
        b"PK\x03\x04" + bytes(60),
        b"",
    ],
    ids=["no rows", "huge", "objects", "deep", "a broken archive", "empty"],
)
def test_what_is_no_array_is_said(tmp_path, content):
    path = tmp_path / "v.npy"
    path.write_bytes(content)
    with pytest.raises(MundapError, match="cannot be read: "):
        vectors._opened(path)
