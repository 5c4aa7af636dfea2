"""Writes passages into an engine, for `mundap.index.ingest.Ingest`, which reads the files.

Engines have no commit over many rows. So each row carries the number of its checkpoint, and the last complete one
stands in the note with the settings, which is written last. Whoever opens the index for writing first takes away what
belongs to a checkpoint that was never completed: then everything is there exactly once, however often a build was
interrupted.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mundap.engines.engine import Engine, Row, Where
from mundap.engines.state import SETTINGS, refuse_second_writer, settings_from, settings_note
from mundap.engines.vectors import ReadyVectors
from mundap.index.analyzer import Analyzer
from mundap.index.manifest import LexicalEntry, Manifest, Settings
from mundap.index.model import open_encoder
from mundap.index.segment import SourceState, place_facts, source_facts
from mundap.records import Document, Passage, Skipped, Skipping
from mundap.text.sections import passage_blocks, passage_titles, section_of

CHECKPOINT_SECONDS = 15.0
CHECKPOINT_PASSAGES = 50_000
_ENCODE_AT_ONCE = 512
_ROWS = 1000
_BYTES = 8 << 20


class _Sources:
    """What is known of each source; takes the place of a `Corpus` for whoever reads files."""

    def __init__(self, states: dict[str, SourceState]) -> None:
        self.states = states

    def source_state(self, source: str) -> SourceState | None:
        """How a source was last read."""
        return self.states.get(source)

    def sources(self) -> Iterator[str]:
        """The name of every source."""
        return iter(list(self.states))

    def numbers_from(self, source: str) -> str:
        """What `EngineWriter.delete` takes for all passages of a source: its name."""
        return source


class EngineWriter:
    """The one writer of an index in an engine.

    Args:
        engine: Where.
        settings: What to make a new index with; None to change an existing one.
        job: What is being done.
        fresh: Start from nothing, unless the same job was interrupted and goes on.
        skipping: Is told of passages that do not fit.
        vectors: Vectors that are there already, if so.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings | None,
        job: dict[str, Any],
        fresh: bool,
        skipping: Skipping,
        vectors: Path | None = None,
    ) -> None:
        self.engine = engine
        self.root = Path(engine.address)
        self.committed = None  # an engine has no state beside the one that is written
        self.fresh = fresh
        self._job = job
        self._skipping = skipping
        self._ready: ReadyVectors | None = None
        if vectors is not None and settings is not None:
            self._ready = ReadyVectors(vectors, settings)  # before anything is changed
        note = engine.settings()
        if note is not None:
            refuse_second_writer(note, engine.address)
        self.resumed = self._goes_on(note)
        if note is None or (fresh and not self.resumed):
            assert settings is not None
            engine.drop()
            note = settings_note(settings, 0, 0, job, {})
            engine.create(settings, note)
        self._open(note)

    def _goes_on(self, note: dict[str, Any] | None) -> bool:
        """Whether the same job was interrupted, and can be taken up."""
        same = note is not None and note["job"] == self._job
        if self._ready is None:
            return same
        self._ready.begin_at(0, new=note is None or self.fresh)
        # Nobody knows how many rows without ids were taken before a build broke off.
        return same and not self._ready.ordered

    def _open(self, note: dict[str, Any]) -> None:
        settings = settings_from(note)
        self.manifest = Manifest(settings, LexicalEntry(""), int(note["generation"]))
        self.analyzer = Analyzer(settings.language, settings.hangul)
        self.encoder = open_encoder(settings)
        self._batch = int(note["batch"])
        self._languages: dict[str, int] = dict(note["languages"])
        self._rows: list[Row] = []  # without vectors yet
        self._ids: dict[str, str] = {}  # of documents since the last checkpoint, and their sources
        self._state: SourceState | None = None
        self._changed: dict[str, SourceState] = {}  # since the last checkpoint
        self._deleting: set[str] = set()
        self._since = 0
        self._checkpointed = time.monotonic()
        self._claim()
        self.corpus = _Sources(self._recovered())

    def _claim(self) -> None:
        note = settings_note(self.manifest.settings, self.manifest.generation, self._batch, self._job, self._languages)
        self.engine.write_notes({SETTINGS: note})

    def _recovered(self) -> dict[str, SourceState]:
        """The state of each source, after what was left half done is taken away."""
        states: dict[str, SourceState] = {}
        broken: list[str] = []
        for name, note in self.engine.notes():
            if name == SETTINGS:
                continue
            batch = note.pop("batch")
            state = _state_of(note)
            if batch > self._batch or (not state.done and not state.documents):
                broken.append(name)
            else:
                states[name] = state
        for name in broken:
            self.engine.delete(Where(sources=(name,)))
        self.engine.delete(Where(after=self._batch))
        self.engine.write_notes(dict.fromkeys(broken))
        return states

    # ---------------------------------------------------------------- documents in

    def begin_source(self, state: SourceState) -> None:
        """Documents added from here on come from this source."""
        self._state = state

    def end_source(self, documents: int, skipped: int, done: bool, digest: bytes = b"") -> None:
        """Record how many documents of the source were read, how many were unusable, and whether it is finished."""
        if self._state is not None:
            state = self._state._replace(documents=documents, skipped=skipped, done=done)
            state = state._replace(digest=digest or state.digest)
            self._changed[state.source] = state

    def taken(self, names: Sequence[str]) -> list[str | None]:
        """For each document id the source that has it already, or None."""
        known = {row.passage.document: row.passage.source for row in self._first_rows(names)} | self._ids
        return [known.get(name) for name in names]

    def _first_rows(self, names: Sequence[str]) -> Iterator[Row]:
        for start in range(0, len(names), _ROWS):
            yield from self.engine.rows(Where(documents=tuple(names[start : start + _ROWS]), first=True))

    def add(self, document: Document, spans: Iterable[tuple[int, int]], languages: Sequence[str] = ()) -> int:
        """Add a document with its passages; returns how many there are."""
        spans = list(spans)
        languages = languages or [""] * len(spans)
        state = self._state or SourceState("", 0, 0, b"")
        rows = list(_cut(document, spans, languages, state, self._batch + 1))
        if reason := self._too_long(rows):
            self._skipping.skip(Skipped(document.source, f"{document.id}: {reason}"))
            return 0
        self._ids[document.id] = rows[0].passage.source if rows else ""
        self._rows += rows
        self._since += len(rows)
        for language in languages:
            self._languages[language] = self._languages.get(language, 0) + 1
        while len(self._rows) >= _ENCODE_AT_ONCE:
            self._write(_ENCODE_AT_ONCE)
        return len(rows)

    def _too_long(self, rows: Sequence[Row]) -> str:
        for row in rows:
            passage = row.passage
            for text in (passage.id, passage.title, passage.text, passage.source, row.before):
                if len(text) * 4 > self.engine.longest and len(text.encode()) > self.engine.longest:
                    return f"a text of {len(text.encode()):,} bytes; {self.engine.longest:,} fit. Use smaller passages"
        return ""

    def _write(self, count: int) -> None:
        """Encode some of the waiting passages and send them."""
        rows = [replace(row, terms=self._terms(row.passage)) for row in self._rows[:count]]
        if self.encoder is not None:
            if self._ready is not None:
                self._ready.expect([row.passage.id for row in rows])
            source = self._ready or self.encoder
            vectors = source.encode_passages([(row.passage.title, row.passage.text) for row in rows])
            rows = [replace(row, vector=vector) for row, vector in zip(rows, vectors, strict=True)]
        for part in _parts(rows):
            self.engine.upsert(part)
        del self._rows[:count]

    def _terms(self, passage: Passage) -> str:
        terms = " ".join(self.analyzer.terms(f"{passage.title}\n{passage.text}", passage.metadata.get("language", "")))
        return terms.encode()[: self.engine.longest].decode("utf-8", "ignore")

    # ---------------------------------------------------------------- changes

    @property
    def deleting(self) -> bool:
        """Whether there are deletions that have not been made yet."""
        return bool(self._deleting)

    def delete(self, source: Any) -> int:
        """Delete all passages of a source."""
        self._deleting.add(source)
        return self.engine.count(Where(sources=(source,)))

    def delete_documents(self, names: Sequence[str]) -> int:
        """Delete documents; a source without documents is forgotten, and read again if it comes back."""
        sources = {row.passage.source for row in self._first_rows(names)}
        removed = 0
        for start in range(0, len(names), _ROWS):
            removed += self.engine.delete(Where(documents=tuple(names[start : start + _ROWS])))
        empty = [source for source in sources if not self.engine.count(Where(sources=(source,)))]
        self.engine.write_notes(dict.fromkeys(empty))
        return removed

    def checkpoint_due(self) -> bool:
        """Whether a checkpoint is due: enough work was done since the last one."""
        late = time.monotonic() - self._checkpointed >= CHECKPOINT_SECONDS
        return self._since >= CHECKPOINT_PASSAGES or (late and bool(self._since))

    def checkpoint(self) -> None:
        """Send what is waiting, and note how far each source was read."""
        self._delete_sources()
        while self._rows:
            self._write(_ENCODE_AT_ONCE)
        notes = {name: {**_note_of(state), "batch": self._batch + 1} for name, state in self._changed.items()}
        self.engine.write_notes(notes)
        self._batch += 1
        self._claim()
        self.corpus.states |= self._changed
        self._changed.clear()
        self._ids.clear()
        self._since = 0
        self._checkpointed = time.monotonic()

    def _delete_sources(self) -> None:
        """Noted before it is done: a source that was half deleted is deleted by the next writer."""
        going = {
            name: {**_note_of(state._replace(documents=0, done=False)), "batch": self._batch}
            for name in self._deleting
            if (state := self.corpus.source_state(name))
        }
        self.engine.write_notes(going)
        for name in self._deleting:
            self.engine.delete(Where(sources=(name,)))
            self.corpus.states.pop(name, None)
        self.engine.write_notes(dict.fromkeys(self._deleting))
        self._deleting.clear()

    def finish(self) -> None:
        """The last checkpoint: everything is done, and nobody is writing any more."""
        self.checkpoint()
        if self._ready is not None:
            self._ready.finished()
        note = settings_note(self.manifest.settings, self.manifest.generation + 1, self._batch, None, self._languages)
        self.engine.write_notes({SETTINGS: note})


def _cut(
    document: Document, spans: Sequence[tuple[int, int]], languages: Sequence[str], state: SourceState, batch: int
) -> Iterator[Row]:
    """The rows of a document, named, titled and described as an index in a folder does it."""
    end_before = 0
    titles = passage_titles(document, spans)
    blocks = passage_blocks(document, spans)
    for position, (start, end) in enumerate(spans):
        mine = blocks[position]
        name = document.id
        if len(spans) > 1:
            name = f"{document.id}#{position + 1}"
        passage = Passage(
            id=name,
            document=document.id,
            title=titles[position],
            text=document.text[start:end],
            source=state.source,
            start=start,
            end=end,
            metadata={
                **source_facts(state),
                **place_facts(mine, section_of(mine), languages[position]),
                **document.metadata,
            },
            blocks=mine,
        )
        yield Row(passage, position, document.whole, document.text[end_before:start], "", batch)
        end_before = max(end, end_before)


def _parts(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Batches that fit into a message."""
    part: list[Row] = []
    size = 0
    for row in rows:
        length = 2 * len(row.passage.text.encode()) + 4096
        if part and (len(part) == _ROWS or size + length > _BYTES):
            yield part
            part, size = [], 0
        part.append(row)
        size += length
    if part:
        yield part


def _note_of(state: SourceState) -> dict[str, Any]:
    """The note that records how a source was last read."""
    return {**state._asdict(), "digest": state.digest.hex()}


def _state_of(note: dict[str, Any]) -> SourceState:
    """How a source was last read, from its note."""
    return SourceState(**{**note, "digest": bytes.fromhex(note["digest"])})
