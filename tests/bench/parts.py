import numpy as np

from mundap.bench.vectors import Bank

DIMENSION = 48


def real_vectors(count, seed=0):
    """Topics of very different size, each flat in its own directions: as uneven as text."""
    generator = np.random.default_rng(seed)
    shared = np.random.default_rng(99)
    centres = shared.standard_normal((40, DIMENSION))
    directions = shared.standard_normal((40, 8, DIMENSION))
    sizes = 1 / np.arange(1, 41)
    topic = generator.choice(40, count, p=sizes / sizes.sum())
    inside = np.einsum("ni,nij->nj", generator.standard_normal((count, 8)), directions[topic]) / 3
    made = centres[topic] + inside + 0.1 * generator.standard_normal((count, DIMENSION))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


def a_bank(count=1500):
    return Bank.of(real_vectors(count), real_vectors(300, seed=5))
