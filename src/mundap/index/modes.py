"""The ways to search: one table, from which the command line, the server and the docs take their choices."""

from typing import Literal, NamedTuple, get_args

from mundap.errors import UsageError

Mode = Literal["bm25", "dense", "hybrid"]
MODES: dict[Mode, str] = {
    "bm25": "by the words of the question",
    "dense": "by meaning, comparing vectors",
    "hybrid": "by both",
}

Fusion = Literal["zscore", "linear", "rrf"]
FUSIONS: tuple[Fusion, ...] = get_args(Fusion)


class Bm25(NamedTuple):
    """The two parameters of BM25.

    Attributes:
        k1: Term frequency saturation; 0 if it is enough that it is there.
        b: Length normalisation, from 0 to 1.
    """

    k1: float
    b: float


MOST_K1 = 1000.0


def checked_bm25(k1: float | None, b: float | None, otherwise: Bm25) -> Bm25:
    """The parameters that were asked for; one that is None is as in `otherwise`.

    Raises:
        UsageError: They make no sense.
    """
    if k1 is None:
        k1 = otherwise.k1
    if b is None:
        b = otherwise.b
    if not 0 <= k1 <= MOST_K1:  # nan is not either
        raise UsageError(f"k1 = {k1}: choose between 0 and {MOST_K1:.0f}")
    if not 0 <= b <= 1:
        raise UsageError(f"b = {b}: choose between 0 and 1")
    return Bm25(k1, b)


TANTIVY = Bm25(1.2, 0.75)
"""What tantivy's scorer has built in: the only values at which its scores are used as they are."""

DEFAULT_BM25 = TANTIVY
"""Those of a new index."""
