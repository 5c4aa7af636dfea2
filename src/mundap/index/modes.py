"""The ways to search: one table, from which the command line, the server and the docs take their choices."""

from typing import Literal, get_args

Mode = Literal["bm25", "dense", "hybrid"]
MODES: dict[Mode, str] = {
    "bm25": "by the words of the question",
    "dense": "by meaning, comparing vectors",
    "hybrid": "by both",
}

Fusion = Literal["zscore", "linear", "rrf"]
FUSIONS: tuple[Fusion, ...] = get_args(Fusion)
