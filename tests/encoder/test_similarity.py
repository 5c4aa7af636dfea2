import numpy as np
import pytest

from mundap.encoder.similarity import as_inner_product


@pytest.fixture
def vectors():
    random_state = np.random.default_rng(3)
    return random_state.normal(size=(5, 8)).astype(np.float32), random_state.normal(size=(40, 8)).astype(np.float32)


def test_l2_as_an_inner_product_is_the_squared_distance_but_for_the_questions_own_length(vectors):
    questions, passages = vectors
    left, right = as_inner_product(questions, "l2", "question"), as_inner_product(passages, "l2", "passage")
    assert left.shape[1] == right.shape[1] == 9
    distances = ((questions[:, None] - passages) ** 2).sum(2)
    assert left @ right.T == pytest.approx((questions**2).sum(1)[:, None] - distances, abs=1e-4)


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_the_others_stay_as_they_are(vectors, similarity):
    assert as_inner_product(vectors[0], similarity, "question") is vectors[0]


def test_torch_gives_the_same(vectors):
    torch = pytest.importorskip("torch")
    for side, rows in zip(("question", "passage"), vectors, strict=True):
        found = as_inner_product(torch.from_numpy(rows), "l2", side, torch).numpy()
        assert found == pytest.approx(as_inner_product(rows, "l2", side), rel=1e-6)
