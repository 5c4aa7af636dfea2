"""An index in an engine, with the same interface as one in a folder."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from mundap.engines.engine import Engine, Ranked, Row, Where, key_of
from mundap.engines.state import SETTINGS, settings_from
from mundap.errors import IndexMissing, UsageError
from mundap.index import fusion as _fusion
from mundap.index.analyzer import Analyzer
from mundap.index.catalog import Listed, page_of
from mundap.index.corpus import Filters
from mundap.index.index import Index, RankingOptions
from mundap.index.manifest import LexicalEntry, Manifest
from mundap.index.modes import Bm25, Mode
from mundap.records import Document, Hit, Passage, Skipped

_MOST_SOURCES = 10_000  # that a pattern may match
_AT_ONCE = 1000  # documents that one call names
_MOST_TERMS = 1024  # of a question
_MOST_LISTED = 100_000  # documents: each is put together from its passages
_OF_A_PLACE = ("folder", "modified", "section", "page", "line", "language")  # what is not a document's own


class RemoteIndex(Index):
    """A state of an index in an engine. Settings and counts are those of the moment it was opened.

    Attributes:
        engine: Where it lives.
        unfinished: Why passages may be missing, in words; empty if none are.

    Raises:
        IndexMissing: There is none at this address.
    """

    def __init__(self, engine: Engine) -> None:
        note = engine.settings()
        if note is None:
            message = "no index in {path}. Make one with `mundap index PATHS… -o {path}`."
            raise IndexMissing(message, path=engine.address)
        self.engine = engine
        self.path = Path(engine.address)  # for messages; there are no files
        self.unfinished = ""
        if note["job"] is not None:
            self.unfinished = "something is being written, or was broken off: then the same command goes on with it"
        self.manifest = Manifest(settings_from(note), LexicalEntry(""), int(note["generation"]))
        added = note["languages"]
        held = [code for code, count in added.items() if code and count * 100 >= sum(added.values())]
        self.analyzer = Analyzer(self.manifest.settings.language, self.manifest.settings.hangul, held)

    def reopened(self) -> Self:
        """The index as it is now."""
        new = type(self)(self.engine)
        if new.manifest.settings == self.manifest.settings:
            new.encoder = self.encoder
        return new

    @cached_property
    def _length(self) -> int:
        return self.engine.count(Where())

    def __len__(self) -> int:
        """How many passages there are."""
        return self._length

    @cached_property
    def documents(self) -> int:  # type: ignore[override]
        """How many documents there are."""
        return self.engine.count(Where(first=True))

    @property
    def default_mode(self) -> Mode:
        """Hybrid, or what there is of it."""
        if "hybrid" in self.modes:
            return "hybrid"
        return self.modes[0]

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The ways this index can be searched."""
        if not self.manifest.settings.model:
            return ("bm25",)
        if not self.engine.full_text:
            return ("dense",)
        return ("bm25", "dense", "hybrid")

    # ---------------------------------------------------------------- search

    def _found(
        self, questions: Sequence[str], k: int, how: RankingOptions, filters: Filters | None, by_document: bool
    ) -> list[list[Hit]]:
        size = k
        if by_document:
            size = min(max(10 * k, 100), self.engine.most)
        ranked = self._ranked(questions, size, self._where(filters), how)
        rows = self._rows_of({key for one in ranked for key, _, _, _ in one})
        return [_hits(one, rows, k, by_document) for one in ranked]

    def _check(self, questions: Sequence[str], k: int, mode: str, fusion: str) -> None:
        super()._check(questions, k, mode, fusion)
        if mode not in self.modes:
            raise UsageError(f"{self.engine.limits}. Use the mode dense.")
        if k > self.engine.most:
            raise UsageError(f"k = {k}: {self.engine.address} gives {self.engine.most} at most")

    def _bm25_with(self, k1: float | None, b: float | None) -> Bm25:
        """The engine's BM25 index has its k1 and b built in."""
        settings = self.manifest.settings
        if super()._bm25_with(k1, b) != settings.bm25:
            raise UsageError(
                f"{self.engine.address} was made with k1 {settings.k1} and b {settings.b}, and ranks with no others. "
                "Leave them out, or build it again with `mundap index --fresh`."
            )
        return settings.bm25

    def _where(self, filters: Filters | None) -> Where:
        if not filters:
            return Where()
        if filters.ranges:
            raise UsageError(
                f"{self.engine.address}: comparisons such as modified>2024 work on an index in a folder only"
            )
        sources: tuple[str, ...] | None = None
        if filters.sources:
            sources = tuple(
                name for name in self._sources if any(fnmatchcase(name, pattern) for pattern in filters.sources)
            )
            if len(sources) > _MOST_SOURCES:
                raise UsageError(f"the sources asked for are {len(sources)} files; the limit is {_MOST_SOURCES}.")
        return Where(documents=filters.documents or None, sources=sources, metadata=filters.metadata)

    @cached_property
    def _sources(self) -> list[str]:
        return [name for name, _ in self.engine.notes() if name != SETTINGS]

    def _ranked(self, questions: Sequence[str], k: int, where: Where, how: RankingOptions) -> "list[list[_Scored]]":
        if how.mode == "bm25":
            found = self._by_bm25(questions, k, where)
            return [[(key, score, score, None) for key, score in one] for one in found]
        if how.mode == "dense":
            found = self.engine.nearest(self._vectors(questions), k, where)
            return [[(key, score, None, score) for key, score in one] for one in found]
        size = min(max(k, how.candidates), self.engine.most)
        lexical = self._by_bm25(questions, size, where)
        dense = self.engine.nearest(self._vectors(questions), size, where)
        joined = []
        for question, left, right in zip(questions, lexical, dense, strict=True):
            joined.append(_joined(left, right, size, how, self._share(question, how))[:k])
        return joined

    def _by_bm25(self, questions: Sequence[str], k: int, where: Where) -> list[Ranked]:
        terms = [" ".join(self.analyzer.question_terms(question)[:_MOST_TERMS]) for question in questions]
        return self.engine.bm25(terms, k, where)

    def _share(self, question: str, how: RankingOptions) -> float:
        """How much the dense score counts."""
        if how.weight is not None:
            return how.weight
        assert self.encoder is not None  # without one there is no hybrid search
        return self.encoder.config.weight_for(question)

    def _rows_of(self, keys: set[str]) -> dict[str, Row]:
        """The passages with these keys. What was just written is looked for again, more slowly."""
        rows: dict[str, Row] = {}
        for newest in (False, True):
            missing = tuple(sorted(keys - rows.keys()))
            if missing:
                rows |= {row.key: row for row in self.engine.rows(Where(keys=missing), newest)}
        return rows

    def rank(self, question: str, k: int = 100, mode: Mode | None = None) -> list[tuple[str, float]]:
        """Passage ids and scores alone."""
        return [(hit.passage.id, hit.score) for hit in self.search(question, k, mode)]

    def _ordered(self, question: str, names: Iterable[str], how: RankingOptions, by_document: bool) -> list[Hit]:
        """Passages without a score come last."""
        rows = {row.key: row for name in names for row in self._named(name)}
        if not rows:
            return []
        size = min(len(rows), self.engine.most)
        where = Where(keys=tuple(sorted(rows)))
        found = self._ranked([question], size, where, replace(how, candidates=size))[0]
        known = {key for key, _, _, _ in found}
        bm25 = None
        if how.mode == "bm25":
            bm25 = 0.0
        found += [(key, 0.0, bm25, None) for key in sorted(rows) if key not in known]
        return _hits(found, rows, len(rows), by_document)

    # ---------------------------------------------------------------- passages and documents

    def passage(self, name: str) -> Passage | None:
        """The passage with this id."""
        for row in self.engine.rows(Where(keys=(key_of(name), key_of(name.removeprefix("wiki:"))))):
            return row.passage
        return None

    def has(self, name: str) -> bool:
        """Whether there is a passage or a document with this id."""
        return bool(self._named(name))

    def passages_of(self, name: str) -> list[Passage]:
        """The passages of the document with this id, in order."""
        return [row.passage for row in self._document_rows(name)]

    def document(self, name: str) -> Document | None:
        """The document with this id, put together from its passages; white space behind the last is not kept."""
        rows = self._document_rows(name)
        if not rows:
            return None
        text = ""
        for row in rows:
            passage = row.passage
            text = f"{text}{row.before}"[: passage.start].ljust(passage.start) + passage.text
        first = rows[0].passage
        return Document(first.document, text, first.title, first.source, first.metadata, rows[0].whole)

    def _document_rows(self, name: str) -> list[Row]:
        for candidate in (name, name.removeprefix("wiki:")):
            if rows := sorted(self.engine.rows(Where(documents=(candidate,))), key=lambda row: row.position):
                return rows
        return []

    def _named(self, name: str) -> list[Row]:
        """A passage by its id, or those of a document."""
        keys = (key_of(name), key_of(name.removeprefix("wiki:")))
        return list(self.engine.rows(Where(keys=keys)))[:1] or self._document_rows(name)

    def matching(self, filters: Filters) -> int:
        """How many passages the filters let through."""
        return self.engine.count(self._where(filters))

    def sample(self, count: int, seed: str) -> list[Passage]:
        """Not supported by an engine."""
        raise UsageError(f"{self.engine.address}: passages cannot be drawn at random from an engine. Use a folder.")

    def passages(self) -> Iterator[Passage]:
        """Every passage, in the order of its key."""
        return (row.passage for row in self.engine.rows(Where()))

    def catalog(self) -> Iterator[Listed]:
        """Every document with what is known of it. All passages are read for it: there is no table of documents."""
        return self._listed(Where())

    def listing(
        self, words: str = "", filters: Filters | None = None, sort: str = "id", most: int = 100, first: int = 0
    ) -> tuple[list[Listed], int]:
        """A page of the catalog, as `Index.listing`."""
        where = self._where(filters)
        number = self.documents
        if where != Where():
            number = self.engine.count(where)
        if number > _MOST_LISTED:
            raise UsageError(
                f"{number:,} documents or passages to look through; up to {_MOST_LISTED:,} can be listed from "
                f"{self.engine.address}. Narrow it with filters."
            )
        return page_of(self._listed(where), words, sort, most, first)

    def _listed(self, where: Where) -> Iterator[Listed]:
        """The documents that have a passage there, put together from all of their passages."""
        skipped = {name: int(note["skipped"]) for name, note in self.engine.notes() if name != SETTINGS}
        found: dict[str, list[Row]] = {}
        for row in self._of_whole_documents(where):
            # Texts are not kept: a list may be of many documents.
            short = replace(row, passage=replace(row.passage, text="", blocks=()), before="")
            found.setdefault(row.passage.document, []).append(short)
        return (_listed(sorted(rows, key=lambda row: row.position), skipped) for rows in found.values())

    def _of_whole_documents(self, where: Where) -> Iterator[Row]:
        if where == Where():
            yield from self.engine.rows(where)
            return
        names = sorted({row.passage.document for row in self.engine.rows(where)})
        for start in range(0, len(names), _AT_ONCE):
            yield from self.engine.rows(Where(documents=tuple(names[start : start + _AT_ONCE])))

    def skipped(self) -> list[Skipped]:
        """Not recorded by an engine."""
        return []

    def facts(self) -> dict[str, dict[str, int]]:
        """Not counted by an engine."""
        return {}

    def info(self) -> dict[str, Any]:
        """Facts about the index."""
        settings = self.manifest.settings
        dense = None
        if settings.model:
            dense = settings.dense
        return {
            "path": self.engine.address,
            "documents": self.documents,
            "passages": len(self),
            "model": settings.model or "none",
            "language": settings.language,
            "hangul": settings.hangul,
            "dense": dense,
            "modes": ", ".join(self.modes),
            "limits": self.engine.limits or "none",
            "unfinished": self.unfinished or "no",
            "generation": self.manifest.generation,
            "settings": asdict(settings),
        }


def _listed(rows: Sequence[Row], skipped: Mapping[str, int]) -> Listed:
    """A document as a list shows it."""
    first = rows[0].passage
    languages = Counter(row.passage.metadata.get("language", "") for row in rows)
    return Listed(
        id=first.document,
        title=first.title,
        source=first.source,
        type=first.metadata.get("type", ""),
        language=languages.most_common(1)[0][0],
        passages=len(rows),
        size=max(row.passage.end for row in rows),
        modified=first.metadata.get("modified", ""),
        skipped=skipped.get(first.source, 0),
        metadata={name: value for name, value in first.metadata.items() if name not in _OF_A_PLACE},
    )


_Scored = tuple[str, float, float | None, float | None]  # key, score, and the BM25 and dense scores behind it


def _joined(left: Ranked, right: Ranked, size: int, how: RankingOptions, share: float) -> list[_Scored]:
    """Two rankings, by BM25 and by vectors, as one.

    A passage that only one list has is given the least score of the other. Where BM25's list is not full, it has every
    passage with a word of the question: then the score of any other is 0.
    """
    keys = sorted(dict(left) | dict(right))
    least = 0.0
    if len(left) == size:
        least = left[-1][1]
    bm25 = _scores_of(keys, left, least)
    lowest = 0.0
    if right:
        lowest = right[-1][1]
    dense = _scores_of(keys, right, lowest)
    if how.fusion == "linear":
        scores = _fusion.linear(bm25, dense, how.scale)
    elif how.fusion == "rrf":
        scores = _fusion.reciprocal_rank(np.arange(len(keys)), (_places(keys, left), _places(keys, right)))
    else:
        tops = np.array([score for _, score in left], np.float32), np.array([score for _, score in right], np.float32)
        scores = _fusion.zscore(bm25, dense, tops, share)
    order = np.lexsort((np.arange(len(keys)), -scores))
    return [(keys[place], float(scores[place]), float(bm25[place]), float(dense[place])) for place in order]


def _scores_of(keys: Sequence[str], ranked: Ranked, otherwise: float) -> np.ndarray:
    known = dict(ranked)
    return np.array([known.get(key, otherwise) for key in keys], np.float32)


def _places(keys: Sequence[str], ranked: Ranked) -> np.ndarray:
    """Where the passages of a ranking stand among the keys."""
    number = {key: place for place, key in enumerate(keys)}
    return np.array([number[key] for key, _ in ranked], np.int64)


def _hits(scored: Sequence[_Scored], rows: dict[str, Row], k: int, by_document: bool) -> list[Hit]:
    """Hits in order; a passage that was deleted since it was found is left out."""
    hits: list[Hit] = []
    seen: set[str] = set()
    for key, score, bm25, dense in scored:
        if key not in rows or len(hits) == k:
            continue
        passage = rows[key].passage
        if by_document and passage.document in seen:
            continue
        seen.add(passage.document)
        hits.append(Hit(len(hits) + 1, score, passage, bm25, dense))
    return hits
