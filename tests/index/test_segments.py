"""Several segments give the ranking of one: what search by vector finds does not depend on how passages arrived."""

import numpy as np
import pytest

from mundap.bench.work import CODES, COPY, corpus_of, entry_of
from mundap.index import dense
from mundap.index.sizes import Effort
from tests.bench.parts import DIMENSION, real_vectors

COUNT, K = 6000, 50
FIVE = (2700, 100, 1800, 1399, 1)
LITTLE = Effort(8, 3)  # so little that something is missed


def segments(root, vectors, sizes):
    """The vectors as segments of these sizes."""
    for number, part in enumerate(np.split(vectors, np.cumsum(sizes)[:-1])):
        path = root / "segments" / f"{number:06d}" / "vectors.bin"
        path.parent.mkdir(parents=True)
        path.write_bytes(part.astype(np.float16).tobytes())
    return corpus_of(root, DIMENSION)


def recall(found, exact):
    return np.mean([np.isin(want, have).mean() for (have, _), (want, _) in zip(found, exact, strict=True)])


@pytest.mark.parametrize("copied", [False, True], ids=["codes", "codes and eight bits"])
def test_five_segments_have_the_recall_of_one(tmp_path, copied, monkeypatch):
    monkeypatch.setenv("MUNDAP_THREADS", "1")  # threads that wait for each other on a busy machine take minutes
    vectors, questions = real_vectors(COUNT), real_vectors(100, seed=5)
    recalls, exact = [], []
    for sizes in ((COUNT,), FIVE):
        root = tmp_path / str(len(sizes))
        corpus = segments(root, vectors, sizes)
        assert (len(corpus.segments), len(corpus)) == (len(sizes), COUNT)
        dense.build(corpus, "ivf", root / CODES, root / COPY if copied else None)
        exact.append(dense.Dense(root, corpus, None).search(questions, K))
        index = dense.Dense(root, corpus, entry_of(root, COUNT, LITTLE))
        recalls.append(recall(index.search(questions, K), exact[-1]))
    assert all(list(one) == list(five) for (one, _), (five, _) in zip(*exact, strict=True))
    assert 0.8 < recalls[0] < 0.999
    assert recalls[1] == pytest.approx(recalls[0], abs=0.01)
