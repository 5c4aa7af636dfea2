"""Express every similarity as an inner product, which is what an index computes."""

from typing import Any, Literal

import numpy as np

Side = Literal["question", "passage"]


def network_dimension(dimension: int, similarity: str) -> int:
    """The output dimension of a network whose vectors have `dimension` in an index."""
    if similarity == "l2":
        return dimension - 1
    return dimension


def as_inner_product(vectors: Any, similarity: str, side: Side, library: Any = np) -> Any:
    """Vectors whose inner product ranks passages as the similarity does.

    `dot` is one already, and a `cosine` model normalises its own vectors. For `l2`, with d(q, p) the distance:
    -d(q, p)² = 2 q·p - |p|² - |q|², of which |q|² is the same for all passages of a question. So a question becomes
    (2q, 1) and a passage (p, -|p|²): one more dimension.

    Args:
        vectors: One a row, as the network gives them.
        similarity: What the model was trained for.
        side: Whose vectors they are.
        library: `numpy`, or `torch` for its tensors.
    """
    if similarity != "l2":
        return vectors
    if side == "question":
        return library.concatenate((2 * vectors, library.ones_like(vectors[:, :1])), 1)
    return library.concatenate((vectors, -(vectors**2).sum(1)[:, None]), 1)
