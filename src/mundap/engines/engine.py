"""The interface of an engine: everything else is done in this package, once for all engines."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from mundap.index.manifest import Settings
from mundap.records import Passage

Ranked = list[tuple[str, float]]
"""Keys of passages and their scores, best first; higher is better."""


def key_of(name: str) -> str:
    """A short key of plain characters for an id of any length and script."""
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Row:
    """A passage as an engine keeps it.

    Attributes:
        passage: What is shown.
        position: Which of its document's passages it is, from 0.
        whole: Whether the document came as a passage and was not cut.
        before: The document's text between the passage before and this one, so that the document can be put together.
        terms: Its terms, made by our own analyzer, with spaces between them: what BM25 counts.
        batch: Which checkpoint it belongs to.
        vector: Its vector; None in an index without a model, and in what comes back from an engine.
    """

    passage: Passage
    position: int
    whole: bool
    before: str
    terms: str
    batch: int
    vector: np.ndarray | None = None

    @property
    def key(self) -> str:
        """The primary key."""
        return key_of(self.passage.id)


@dataclass(frozen=True, slots=True)
class Where:
    """Which passages are meant; every given kind must match, and nothing given means all.

    Attributes:
        keys: Primary keys, any of them.
        documents: Document ids, any of them.
        sources: Names of sources, any of them.
        metadata: Values that must all be there.
        first: Only the first passage of each document.
        after: Only what belongs to a later checkpoint than this.
    """

    keys: tuple[str, ...] | None = None
    documents: tuple[str, ...] | None = None
    sources: tuple[str, ...] | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    first: bool = False
    after: int | None = None


class Engine(Protocol):
    """A place for passages, with search; and for notes, which are small and few.

    Writing a row or a note again replaces it, so that whatever was interrupted can be done again. Every failure is an
    `EngineError`.

    Attributes:
        address: As the user wrote it.
        full_text: Whether it can do BM25.
        limits: What it cannot do, in words, for `mundap index` and `mundap info`; empty if nothing.
        most: The largest k.
        longest: Bytes that fit into one text.
    """

    address: str
    full_text: bool
    limits: str
    most: int
    longest: int

    def settings(self) -> dict[str, Any] | None:
        """The note called `settings`, or None if there is no index; something else under its name is an error."""

    def create(self, settings: Settings, note: Mapping[str, Any]) -> None:
        """Create the index. Its note, called `settings`, is written first, which marks the place as ours."""

    def drop(self) -> None:
        """Delete the index. Raises an error if it is not ours."""

    def upsert(self, rows: Sequence[Row]) -> None:
        """Write passages."""

    def delete(self, where: Where) -> int:
        """Delete passages; returns how many there were."""

    def nearest(self, vectors: np.ndarray, k: int, where: Where) -> list[Ranked]:
        """Search by inner product, for each vector."""

    def bm25(self, questions: Sequence[str], k: int, where: Where) -> list[Ranked]:
        """Search by BM25, for each string of space-separated terms."""

    def rows(self, where: Where, newest: bool = True) -> Iterator[Row]:
        """Passages, in any order, without vectors; if not `newest`, as some seconds ago, which may be quicker."""

    def count(self, where: Where) -> int:
        """How many passages there are."""

    def notes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every note with its name."""

    def write_notes(self, notes: Mapping[str, Mapping[str, Any] | None]) -> None:
        """Write notes; those that are None are deleted."""

    def close(self) -> None:
        """End the connection."""
