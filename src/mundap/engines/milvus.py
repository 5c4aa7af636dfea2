"""Milvus, as a server or as milvus-lite in a folder.

Two collections make an index: NAME has the passages, NAME_mundap the notes (settings, the state of each source).
Everything that is compared with is a short key without odd characters: the clients' own quoting cannot be trusted.
"""

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from mundap.engines.address import Address
from mundap.engines.engine import Ranked, Row, Where, key_of
from mundap.engines.milvus_client import connected, explained
from mundap.engines.milvus_schema import INDEXES, LONGEST, NOTES_FIELDS, SHOWN, Schemas, fields_of, searching
from mundap.engines.state import SETTINGS
from mundap.errors import EngineError, UsageError
from mundap.index.manifest import Settings
from mundap.records import Block, Passage

_T = TypeVar("_T")

_MOST = 16_384  # Milvus gives no more at once
_FULL_TEXT_SINCE = (2, 5)
_LOADING_SECONDS = 600.0
_PAGE = 1000
_MOST_BLOCKS = 200  # of a passage: JSON has a limit too
_QUESTIONS = 64
# What trying again does not mend: unknown or wrong parameters, missing collections, refused log-ins, a full disk quota.
_FINAL = (
    "cannot parse", "invalid", "exceeds the maximum", "length of", "not match", "auth check", "unauthenticated",
    "permission deny", "permission denied", "privilege", "not exist", "can't find collection", "quota",
)  # fmt: skip


class Milvus:
    """An index in Milvus.

    Raises:
        ExtraMissing: pymilvus or milvus-lite is not installed.
        EngineError: There is no answer.
    """

    most = _MOST
    longest = LONGEST

    def __init__(self, address: Address) -> None:
        self.address = address.text
        self._at = address
        self._name = address.collection
        self._notes_name = f"{address.collection}_mundap"
        self._kind = "auto"
        self._loaded: set[str] = set()
        self._client = connected(address)
        with explained(self.address):
            self.version = str(self._client.get_server_version(timeout=address.connecting_seconds))
        self.full_text = _has_full_text(self.version)
        self.limits = ""
        if not self.full_text:
            self.limits = f"the server has Milvus {self.version}, and BM25 came with 2.5: dense search only"

    # ---------------------------------------------------------------- collections

    def settings(self) -> dict[str, Any] | None:
        """The note with the settings, if there is an index; a collection of that name that is not ours is an error."""
        with explained(self.address):
            if not self._client.has_collection(self._name, timeout=self._at.seconds):
                return None
            found = fields_of(self._client.describe_collection(self._name, timeout=self._at.seconds))
        note = None
        if self._has_notes():
            note = self._note(SETTINGS)
        if note is not None:
            self._kind = note.get("dense", "auto")
            self.full_text = "sparse" in found
            wanted = Schemas(self.full_text, int(note.get("dimension", 0))).passages
            if found == fields_of(wanted.to_dict()):
                return note
        raise EngineError(
            f"{self.address}: there is a collection {self._name} already that mundap did not make. It was not touched. "
            "Choose another name."
        )

    def _has_notes(self) -> bool:
        with explained(self.address):
            if not self._client.has_collection(self._notes_name, timeout=self._at.seconds):
                return False
            found = self._client.describe_collection(self._notes_name, timeout=self._at.seconds)
        if {field["name"] for field in found["fields"]} == NOTES_FIELDS:
            return True
        raise EngineError(
            f"{self.address}: there is a collection {self._notes_name} already that mundap did not make. It was not "
            "touched. Choose another name."
        )

    def create(self, settings: Settings, note: Mapping[str, Any]) -> None:
        """Make the two collections; the note comes first: a collection of passages without one is not ours."""
        if not settings.dimension and not self.full_text:
            raise UsageError(f"an index without a model needs BM25, but {self.limits}")
        schemas = Schemas(self.full_text, settings.dimension)
        self._kind = settings.dense
        if not self._has_notes():
            self._create(self._notes_name, schemas.notes, [("vector", "FLAT", "L2", {})])
        self._loaded.discard(self._notes_name)
        self.write_notes({SETTINGS: note})
        indexes = []
        if settings.dimension:
            kind, built, _ = INDEXES[settings.dense]
            indexes.append(("vector", kind, "IP", built))
        if self.full_text:
            weights = {"bm25_k1": settings.k1, "bm25_b": settings.b}
            indexes.append(("sparse", "SPARSE_INVERTED_INDEX", "BM25", weights))
        self._create(self._name, schemas.passages, indexes)

    def _create(self, name: str, schema: Any, indexes: list[tuple[str, str, str, dict[str, Any]]]) -> None:
        with explained(self.address):
            params = self._client.prepare_index_params()
            for field, kind, metric, built in indexes:
                params.add_index(field, index_type=kind, metric_type=metric, params=built)
            self._client.create_collection(
                name, schema=schema, index_params=params, consistency_level="Strong", timeout=_LOADING_SECONDS
            )

    def drop(self) -> None:
        """Drop both collections."""
        if self.settings() is not None:
            with explained(self.address):
                self._client.drop_collection(self._name, timeout=self._at.seconds)
        if self._has_notes():
            with explained(self.address):
                self._client.drop_collection(self._notes_name, timeout=self._at.seconds)
        self._loaded.clear()

    # ---------------------------------------------------------------- writing

    def upsert(self, rows: Sequence[Row]) -> None:
        """Write passages; the same again has no effect, so a lost answer is simply asked for again."""
        self._upsert(self._name, [_stored(row, self.full_text) for row in rows])

    def delete(self, where: Where) -> int:
        """Delete passages."""
        count = self.count(where)
        if count:
            self._delete(self._name, _expression(where))
        return count

    def write_notes(self, notes: Mapping[str, Mapping[str, Any] | None]) -> None:
        """Write notes; those that are None are deleted."""
        gone = [key_of(name) for name, value in notes.items() if value is None]
        kept = [
            {"key": key_of(name), "name": name, "value": dict(value), "vector": [0.0, 0.0]}
            for name, value in notes.items()
            if value is not None
        ]
        self._load(self._notes_name)
        for start in range(0, len(gone), _PAGE):
            self._delete(self._notes_name, _any("key", gone[start : start + _PAGE]))
        for start in range(0, len(kept), _PAGE):
            self._upsert(self._notes_name, kept[start : start + _PAGE])

    def _upsert(self, name: str, rows: list[dict[str, Any]]) -> None:
        self._patiently(lambda: self._client.upsert(name, rows, timeout=self._at.seconds))

    def _delete(self, name: str, wanted: str) -> None:
        self._patiently(lambda: self._client.delete(name, filter=wanted, timeout=self._at.seconds))

    # ---------------------------------------------------------------- reading

    def nearest(self, vectors: np.ndarray, k: int, where: Where) -> list[Ranked]:
        """Search by inner product."""
        return self._search("vector", "IP", searching(self._kind, k), list(vectors), k, where)

    def bm25(self, questions: Sequence[str], k: int, where: Where) -> list[Ranked]:
        """Search by BM25. milvus-lite gives a distance, the negated score: no BM25 score is below 0."""
        # A question without any term would be an error there; here it finds nothing.
        asked = [number for number, question in enumerate(questions) if question]
        found = self._search("sparse", "BM25", {}, [questions[number] for number in asked], k, where)
        result: list[Ranked] = [[] for _ in questions]
        for number, ranked in zip(asked, found, strict=True):
            result[number] = [(key, abs(score)) for key, score in ranked]
        return result

    def _search(
        self, field: str, metric: str, params: dict[str, Any], data: list[Any], k: int, where: Where
    ) -> list[Ranked]:
        self._load(self._name)
        found: list[Ranked] = []
        for start in range(0, len(data), _QUESTIONS):
            with explained(self.address):
                hits = self._client.search(
                    self._name,
                    data=data[start : start + _QUESTIONS],
                    anns_field=field,
                    limit=k,
                    filter=_expression(where),
                    search_params={"metric_type": metric, "params": params},
                    output_fields=["key"],
                    consistency_level=self._at.consistency,
                    timeout=self._at.seconds,
                )
            found += [[(hit["key"], float(hit["distance"])) for hit in one] for one in hits]
        return found

    def rows(self, where: Where, newest: bool = True) -> Iterator[Row]:
        """Passages, page by page."""
        level = "Eventually"
        if newest:
            level = "Strong"
        if where.keys is None:
            found = self._pages(self._name, _expression(where), SHOWN)
        else:
            found = self._keyed(self._name, where.keys, SHOWN, level)
        return map(_restored, found)

    def count(self, where: Where) -> int:
        """How many passages there are."""
        self._load(self._name)
        with explained(self.address):
            found = self._client.query(
                self._name,
                filter=_expression(where),
                output_fields=["count(*)"],
                consistency_level="Strong",
                timeout=self._at.seconds,
            )
        return int(found[0]["count(*)"])

    def notes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Every note."""
        for found in self._pages(self._notes_name, 'key != ""', ["name", "value"]):
            yield found["name"], dict(found["value"])

    def _note(self, name: str) -> dict[str, Any] | None:
        """One note."""
        for found in self._keyed(self._notes_name, [key_of(name)], ["value"], "Strong"):
            return dict(found["value"])
        return None

    def _keyed(self, name: str, keys: Sequence[str], fields: list[str], level: str) -> Iterator[dict[str, Any]]:
        """What has these keys: one call for a thousand of them, where an iterator needs several for any number."""
        self._load(name)
        for start in range(0, len(keys), _PAGE):
            with explained(self.address):
                yield from self._client.query(
                    name,
                    filter=_any("key", keys[start : start + _PAGE]),
                    output_fields=fields,
                    limit=_PAGE,
                    consistency_level=level,
                    timeout=self._at.seconds,
                )

    def _pages(self, name: str, wanted: str, fields: list[str]) -> Iterator[dict[str, Any]]:
        """All that matches, page by page."""
        self._load(name)
        with explained(self.address):
            pages = self._client.query_iterator(
                name,
                batch_size=_PAGE,
                filter=wanted or 'key != ""',
                output_fields=fields,
                consistency_level="Strong",
                timeout=self._at.seconds,
            )
        try:
            while True:
                with explained(self.address):
                    page = pages.next()
                if not page:
                    return
                yield from page
        finally:
            pages.close()

    def close(self) -> None:
        """End the connection."""
        with contextlib.suppress(Exception):
            self._client.close()

    # ---------------------------------------------------------------- housekeeping

    def _load(self, name: str) -> None:
        """A collection answers once the server has loaded it, which one that was restarted may not have done."""
        if name not in self._loaded:
            with explained(self.address):
                self._client.load_collection(name, timeout=_LOADING_SECONDS)
            self._loaded.add(name)

    def _patiently(self, call: Callable[[], _T]) -> _T:
        """Retry an idempotent call while the server is away."""
        deadline = time.monotonic() + self._at.patience
        pause = 0.5
        while True:
            try:
                with explained(self.address):
                    return call()
            except EngineError as error:
                final = any(word in str(error).lower() for word in _FINAL)
                if final or time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 8.0)


def _has_full_text(version: str) -> bool:
    if version.startswith("milvus_lite"):
        return True
    numbers = re.search(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= _FULL_TEXT_SINCE


# ---------------------------------------------------------------- rows and filters


def _stored(row: Row, full_text: bool) -> dict[str, Any]:
    passage = row.passage
    stored: dict[str, Any] = {
        "key": row.key,
        "name": passage.id,
        "document": passage.document,
        "document_key": key_of(passage.document),
        "source": passage.source,
        "source_key": key_of(passage.source),
        "title": passage.title,
        "text": passage.text,
        "before": row.before,
        "metadata": dict(passage.metadata),
        "blocks": {"blocks": [list(block) for block in passage.blocks[:_MOST_BLOCKS]]},
        "position": row.position,
        "start": passage.start,
        "stop": passage.end,
        "whole": row.whole,
        "batch": row.batch,
    }
    if row.vector is not None:
        stored["vector"] = row.vector.astype(np.float32)
    if full_text:
        stored["terms"] = row.terms
    return stored


def _restored(found: Mapping[str, Any]) -> Row:
    passage = Passage(
        id=found["name"],
        document=found["document"],
        title=found["title"],
        text=found["text"],
        source=found["source"],
        start=found["start"],
        end=found["stop"],
        metadata=dict(found["metadata"] or {}),
        blocks=tuple(Block(*block) for block in (found["blocks"] or {}).get("blocks", ())),
    )
    return Row(passage, found["position"], found["whole"], found["before"], "", found["batch"])


def _expression(where: Where) -> str:
    """A filter in Milvus's language; empty for everything."""
    parts = []
    if where.keys is not None:
        parts.append(_any("key", where.keys))
    if where.documents is not None:
        parts.append(_any("document_key", [key_of(name) for name in where.documents]))
    if where.sources is not None:
        parts.append(_any("source_key", [key_of(name) for name in where.sources]))
    for name, value in where.metadata.items():
        parts.append(f"metadata[{_quoted(name)}] == {_quoted(value)}")
    if where.first:
        parts.append("position == 0")
    if where.after is not None:
        parts.append(f"batch > {where.after}")
    return " and ".join(parts)


def _any(field: str, keys: Sequence[str]) -> str:
    """One of these. None at all matches nothing, and no key is empty."""
    if not keys:
        return f'{field} == ""'
    listed = ", ".join(f'"{key}"' for key in keys)
    return f"{field} in [{listed}]"


def _quoted(text: str) -> str:
    """A string for a filter. Control characters have no place in it: metadata with them is not found."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(character for character in escaped if character.isprintable()) + '"'
