import faiss
import numpy as np
import pytest

from mundap.bench.vectors import BLOCK, Bank, blocks
from mundap.errors import UsageError
from tests.bench.parts import a_bank, real_vectors


def made(bank, count, seed=0):
    return np.concatenate(list(blocks(bank, count, seed)))


def curve(vectors, questions):
    """Recall@20 of IVF by the number of lists probed."""
    exact = faiss.IndexFlatIP(vectors.shape[1])
    exact.add(vectors)
    truth = exact.search(questions, 20)[1]
    index = faiss.index_factory(vectors.shape[1], "IVF100,Flat", faiss.METRIC_INNER_PRODUCT)
    index.train(vectors)
    index.add(vectors)
    found = []
    for probes in (1, 2, 5, 10, 25):
        index.nprobe = probes
        rows = index.search(questions, 20)[1]
        found.append(np.mean([len(set(a) & set(b)) / 20 for a, b in zip(rows.tolist(), truth.tolist(), strict=True)]))
    return np.array(found)


def test_probing_made_vectors_finds_as_much_as_probing_real_ones():
    real, questions = real_vectors(6000), real_vectors(300, seed=5)
    bank = Bank.of(real[:1500], questions)
    like = np.abs(curve(made(bank, 6000), questions) - curve(real, questions)).max()
    noise = np.random.default_rng(1).standard_normal((6000, real.shape[1])).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    assert like < 0.12
    assert np.abs(curve(noise, questions) - curve(real, questions)).max() > 0.3


def test_the_same_vectors_wherever_making_begins():
    bank = a_bank()
    whole = made(bank, 3 * BLOCK + 10)
    assert np.array_equal(whole[: BLOCK + 5], made(bank, BLOCK + 5))
    assert np.array_equal(whole[2 * BLOCK :], np.concatenate(list(blocks(bank, 3 * BLOCK + 10, first=2))))
    assert not np.array_equal(whole[:100], made(bank, 100, seed=1))


def test_lengths_stay_and_nothing_is_made_twice():
    bank = a_bank()
    vectors = made(bank, 5000)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-4)
    assert len(np.unique(vectors, axis=0)) == 5000


def test_a_bank_is_kept_without_pickles(tmp_path):
    bank = a_bank(400)
    bank.save(tmp_path / "bank.npz")
    again = Bank.load(tmp_path / "bank.npz")
    assert np.array_equal(again.near, bank.near)
    scores = 2 * bank.vectors @ bank.vectors[7] - (bank.vectors**2).sum(axis=1)
    scores[7] = -np.inf
    assert bank.near[7, 0] == scores.argmax()


def test_copies_count_once_and_too_few_are_refused():
    few = real_vectors(100)
    with pytest.raises(UsageError, match="100 different passages"):
        Bank.of(np.concatenate([few] * 10), few)
