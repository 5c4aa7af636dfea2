import faiss
import numpy as np
import pytest

from mundap.index import dense, lists
from mundap.index.lists import Lists, _shared_out
from tests.bench.parts import real_vectors
from tests.index.test_dense import make_corpus


def test_nearly_every_vector_goes_to_the_list_with_the_nearest_centre(monkeypatch):
    monkeypatch.setattr(lists, "_ONE_GROUP", 100)
    vectors = real_vectors(20_000)
    trained = Lists.train(vectors.astype(np.float16), 400)
    assert trained.centres.shape == (400, vectors.shape[1])
    assert len(trained._heads) == round((lists._LOOKED_INTO * 400) ** 0.5)
    assert np.linalg.norm(trained.centres, axis=1) == pytest.approx(1, abs=1e-3)
    assert (trained.of(vectors) == (vectors @ trained.centres.T).argmax(axis=1)).mean() > 0.97
    monkeypatch.setattr(lists, "_LOOKED_INTO", 1)
    assert (trained.of(vectors) == (vectors @ trained.centres.T).argmax(axis=1)).mean() < 0.95


def test_two_levels_find_lists_as_good_as_k_means_does(monkeypatch):
    monkeypatch.setattr(lists, "_ONE_GROUP", 100)
    vectors = real_vectors(20_000)
    means = faiss.Kmeans(vectors.shape[1], 400, niter=10, spherical=True)
    means.train(vectors)
    one, two = (
        (vectors @ centres.T).max(axis=1).mean() for centres in (means.centroids, Lists.train(vectors, 400).centres)
    )
    assert 1 - two < 1.03 * (1 - one)


def test_few_lists_are_one_group():
    vectors = real_vectors(3000)
    trained = Lists.train(vectors, 60)
    assert len(trained._heads) == 1
    assert np.array_equal(trained.of(vectors), (vectors @ trained.centres.T).argmax(axis=1))


@pytest.mark.parametrize("members", [[5, 5], [1, 0, 1000], [100, 1, 1, 1, 1], [3, 3, 3, 1]])
def test_lists_are_shared_out_by_members(members):
    members = np.array(members)
    for count in range((members > 0).sum(), members.sum() + 1):
        shares = _shared_out(count, members)
        assert shares.sum() == count
        assert ((shares >= 1) == (members > 0)).all()
        assert (shares <= members).all()


def test_lists_are_filled_as_faiss_fills_them(tmp_path, monkeypatch):
    monkeypatch.setattr(dense, "_CODED_AT_ONCE", 700)
    corpus, vectors, questions = make_corpus(tmp_path, [3000, 2001])
    corpus.deleted = np.arange(100, 3500, 7, dtype=np.uint64)
    dense.build(corpus, "ivf", tmp_path / "ours")
    ours = faiss.read_index(str(tmp_path / "ours"))
    living = np.setdiff1d(np.arange(5001), corpus.deleted.astype(int))
    theirs = faiss.read_index(str(tmp_path / "ours"))
    theirs.reset()
    theirs.add_with_ids(vectors[living], living)
    assert ours.ntotal == theirs.ntotal == len(living)
    ours.nprobe = theirs.nprobe = 30
    for one, two in zip(ours.search(questions, 50), theirs.search(questions, 50), strict=True):
        assert np.array_equal(one, two)
