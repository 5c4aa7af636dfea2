"""Read files into an index: skip unchanged ones, resume one that was half read."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mundap.disk import checksum
from mundap.documents import SourceFile
from mundap.documents.walk import STDIN_PREFIX
from mundap.errors import Message
from mundap.index.corpus import Corpus
from mundap.index.files import InputFiles, passage_spans, splitter
from mundap.index.segment import SourceState, key_hash
from mundap.index.writer import Writer
from mundap.records import Document, Skipped, Skipping
from mundap.text.language import passage_languages

UPLOAD = "upload:"
"""How the names of sources begin that were put in from outside: no walk finds them, and none drops them."""

_BATCH = 100  # documents: progress is shown after each batch
_BATCH_SIZE = 1 << 18  # characters
_ALIKE = 100  # rows in one language, after which only every so many is looked at
_SAMPLED = 50
_FIRST_FILES = 20  # of a kind: if none of so many can be read, the user should know
_LAST_TIME = 2**63 - 1  # nanoseconds since 1970


@dataclass(slots=True)
class Report(Skipping):
    """What a build did; `path` is the folder of the index, if it is in one."""

    documents: int = 0
    passages: int = 0
    added: int = 0
    removed: int = 0
    unchanged: int = 0
    renamed: int = 0
    resumed: bool = False
    seconds: float = 0.0
    note: str = ""
    path: Path | None = None

    def as_dict(self) -> dict[str, Any]:
        """The report as `--json` prints it."""
        return {
            "documents": self.documents,
            "passages": self.passages,
            "added": self.added,
            "removed": self.removed,
            "unchanged": self.unchanged,
            "renamed": self.renamed,
            "left_out": sum(self.left_out.values()),
            "resumed": self.resumed,
            **self.skipped_as_dict(),
            "seconds": round(self.seconds, 3),
            **({"note": self.note} if self.note else {}),
        }


@dataclass(slots=True)
class Progress:
    """The progress of a build.

    Attributes:
        bytes: Of the input that have been read, since nobody knows the passages in advance.
        total: Bytes there are to read.
        passages: Added so far.
        doing: The file that is being read.
        skipped: How many files or rows could not be read.
        reason: The most frequent reason for that.
        warning: What a person should know at once; each is said once.
    """

    bytes: int = 0
    total: int = 0
    passages: int = 0
    doing: str = ""
    skipped: int = 0
    reason: str = ""
    warning: str = ""


Watcher = Callable[[Progress], None]


class Ingest:
    """Reads files into a writer: skips unchanged ones, resumes one that was half read."""

    def __init__(self, writer: Writer, files: InputFiles, watch: Watcher | None = None) -> None:
        self.writer = writer
        self.files = files
        self.splitter = splitter(writer.manifest.settings)
        self.report = Report(resumed=writer.resumed)
        self.progress = Progress()
        self._watch = watch or (lambda _: None)
        self._seen: set[int] = set()
        self._unseen_folders: list[str] = []  # could not be looked into
        self._finished_bytes = 0
        self._reasons: Counter[str] = Counter()
        self._rows = self._rows_alike = 0
        self._row_language = ""
        self._outcomes: dict[str, list[bool]] = {}  # whether the first files of each suffix could be read
        self._file: SourceFile | None = None
        self._readers = files.readers

    def look(self) -> None:
        """Delete the documents of changed files. Nothing is read yet."""
        for file in self.files.found:
            if isinstance(file, Skipped):
                self._unseen_folders.append(file.source)
                continue
            self._seen.add(key_hash("source", file.source))
            self.progress.total += _stat(file)[0]
            known = self.writer.corpus.source_state(file.source)
            if known and _changed(file, known):
                self.report.removed += self.writer.delete(self.writer.corpus.numbers_from(file.source))

    def drop_vanished(self) -> None:
        """Delete documents whose files are gone from the given paths, and those of an earlier standard input."""
        roots = set(self.files.roots)
        for source in set(self.writer.corpus.sources()):
            if key_hash("source", source) in self._seen or source.startswith(UPLOAD):
                continue
            path = self.files.base / source
            vanished = not roots.isdisjoint((path, *path.parents)) and not self._is_unseen(source)
            if vanished or (source.startswith(STDIN_PREFIX) and self.files.with_stdin):
                self.report.removed += self.writer.delete(self.writer.corpus.numbers_from(source))

    def _is_unseen(self, source: str) -> bool:
        """Whether a source is in a folder that could not be listed."""
        return any(source == folder or source.startswith(f"{folder}/") for folder in self._unseen_folders)

    def keep_uploads(self, old: Corpus) -> None:
        """Copy uploads from the old index: no folder has them."""
        for source in dict.fromkeys(name for name in old.sources() if name.startswith(UPLOAD)):
            known, state = self.writer.corpus.source_state(source), old.source_state(source)
            if state is None or (known and known.done):
                continue
            self.writer.begin_source(state)
            file = SourceFile(Path(), source.removeprefix(UPLOAD), source)
            self._add(file, list(old.documents_from(source)))
            self.writer.end_source(state.documents, state.skipped, done=True)

    def run(self) -> None:
        """Read all files that are new or have changed."""
        wanted: dict[SourceFile, int] = {}
        for file in self.files.found:
            if isinstance(file, Skipped):
                self.report.skip(file)
                continue
            known = self.writer.corpus.source_state(file.source)
            if known and known.done:  # changed ones were deleted by the first walk and are unknown now
                self._pass_over(file, known)
            else:
                wanted[file] = known.documents if known else 0
        coming = deque(wanted)
        while coming:
            self._file = file = coming.popleft()
            self._read(file, wanted[file], coming)
            self._file = None
            self._finished_bytes += _stat(file)[0]
            self._tick()

    def _pass_over(self, file: SourceFile, known: SourceState) -> None:
        self.report.unchanged += 1
        self._finished_bytes += _stat(file)[0]
        if known.skipped:
            reason = Message("{n} rows of it could not be read", n=known.skipped)
            self.report.skip(Skipped(file.source, reason))

    def _read(self, file: SourceFile, already: int, coming: Iterable[SourceFile]) -> None:
        state = SourceState(file.source, *_stat(file), b"")  # the digest is known when all has been read
        self.writer.begin_source(state)
        before = self.report.skipped_count
        consumed = given = 0
        batch = _Batch()
        for found in self._readers.read(file, coming):
            if self.writer.checkpoint_due():  # before the next one: the last one must not be cut off from `done`
                self._add(file, batch.taken())
                self.writer.end_source(consumed, self.report.skipped_count - before, done=False)
                self.writer.checkpoint()
                self.writer.begin_source(state)
            consumed += 1
            if isinstance(found, Skipped):
                self._skip(file, found)
                continue
            given += 1
            if consumed > already:
                batch.append(found)
            if batch.is_full():
                self._add(file, batch.taken())
                self._tick()
        if not given and state.size and self.report.skipped_count > before and self._keep(file):
            return
        self._add(file, batch.taken())
        self._end_source(file, consumed, self.report.skipped_count - before)

    def _end_source(self, file: SourceFile, consumed: int, skipped: int) -> None:
        with suppress(OSError):  # it went away: the next build will see
            digest = self._readers.digest or file.digest()
            self.writer.end_source(consumed, skipped, done=True, digest=digest)
        self._watch_kind(file, good=skipped == 0)

    @cached_property
    def _old(self) -> Corpus | None:
        """What the index had before; None if it is made anew."""
        committed = self.writer.committed
        if committed is None or self.writer.fresh:
            return None
        return Corpus(self.writer.root, committed)

    def _had(self, file: SourceFile) -> bool:
        return self._old is not None and self._old.source_state(file.source) is not None

    def _keep(self, file: SourceFile) -> bool:
        """Keep what the index had of a file that cannot be read now; it is tried again the next time."""
        old = self._old
        if old is None or (state := old.source_state(file.source)) is None:
            return False
        self.writer.begin_source(state)
        self._add(file, list(old.documents_from(file.source)))
        self.writer.end_source(state.documents, state.skipped, state.done)
        if self.report.skipped[-1].source == file.source:
            reason = Message("{reason}; the version in the index is kept", reason=self.report.skipped[-1].reason)
            self.report.skipped[-1] = Skipped(file.source, reason)
        return True

    def _skip(self, file: SourceFile, skipped: Skipped) -> None:
        if skipped.expected and self._had(file):  # what was a document once is missed
            skipped = replace(skipped, expected=False)
        self.report.skip(skipped)
        if not skipped.expected:
            self._reasons[skipped.reason.split("(")[0].split(":")[0].strip()] += 1
            self.progress.skipped = self.report.skipped_count
            self.progress.reason = self._reasons.most_common(1)[0][0]

    def _watch_kind(self, file: SourceFile, good: bool) -> None:
        """Warn at once when the first files of a kind all fail: something is wrong that is not in the files."""
        outcomes = self._outcomes.setdefault(file.suffix, [])
        if len(outcomes) < _FIRST_FILES:
            outcomes.append(good)
            if len(outcomes) == _FIRST_FILES and not any(outcomes):
                told = "none of the first {n} files without a suffix could be read: {reason}"
                if file.suffix:
                    told = "none of the first {n} {suffix} files could be read: {reason}"
                reason = self.progress.reason
                self.progress.warning = Message(told, n=_FIRST_FILES, suffix=file.suffix, reason=reason)

    def _add(self, file: SourceFile, batch: Sequence[Document]) -> None:
        added = 0
        for document in self._unique(file, batch):
            spans = passage_spans(document, self.splitter)
            texts = [document.text[start:end] for start, end in spans]
            added += self.writer.add(document, spans, self._languages(document, texts))
        self.report.added += added
        self.progress.passages += added

    def _languages(self, document: Document, texts: list[str]) -> list[str]:
        """The language of each passage. Of millions of rows in one language only some are looked at."""
        stated = document.metadata.get("language", "")
        if not document.whole or stated or not document.text.isascii():
            return passage_languages(stated, texts)
        self._rows += 1
        if self._rows_alike >= _ALIKE and self._rows % _SAMPLED:
            return [self._row_language] * len(texts)
        found = passage_languages("", texts)
        if found[0] == self._row_language:
            self._rows_alike += 1
        else:
            self._row_language, self._rows_alike = found[0], 0
        return found

    def _unique(self, file: SourceFile, batch: Sequence[Document]) -> Iterator[Document]:
        """Documents under ids of their own. One whose id another file has already is filed under its file's name."""
        names: set[str] = set()
        for document, owner in zip(batch, self.writer.taken([one.id for one in batch]), strict=True):
            name = self._name(file, document, owner, names)
            if name is None:
                continue
            names.add(name)
            if name == document.id:
                yield document
            else:
                self.report.renamed += 1
                yield replace(document, id=name)

    def _name(self, file: SourceFile, document: Document, owner: str | None, names: set[str]) -> str | None:
        """An id for a document that no other has; None if it is skipped, as one that its file has twice."""
        if owner is None and document.id not in names:
            return document.id
        if owner in (None, file.source):
            told = "duplicate id {id!r}, already in {where}, which has it twice"
            self.report.skip(Skipped(document.source, Message(told, id=document.id, where=file.source)))
            return None
        others = [f"{file.id}#{document.id}", f"{file.source}#{document.id}"]
        if document.id == file.id:
            others = [file.source]
        for name in others:
            if name not in names and self.writer.taken([name]) == [None]:
                return name
        reason = Message("duplicate id {id!r}, already in {where}", id=document.id, where=owner)
        self.report.skip(Skipped(document.source, reason))
        return None

    def _tick(self) -> None:
        self.progress.bytes = self._finished_bytes + (self._readers.position if self._file else 0)
        self.progress.doing = ""
        if self._file:
            self.progress.doing = self._file.source
        self._watch(self.progress)


class _Batch:
    """Documents on their way to the writer: enough for an efficient batch, but no more than memory allows."""

    def __init__(self) -> None:
        self._documents: list[Document] = []
        self._size = 0

    def append(self, document: Document) -> None:
        self._documents.append(document)
        self._size += len(document.text)

    def is_full(self) -> bool:
        return len(self._documents) == _BATCH or self._size > _BATCH_SIZE

    def taken(self) -> list[Document]:
        """The documents; it is empty afterwards."""
        documents, self._documents, self._size = self._documents, [], 0
        return documents


def _stat(file: SourceFile) -> tuple[int, int]:
    try:
        status = file.path.stat()
        # Some file systems keep years before 1677 and after 2262, which in nanoseconds fit no 64 bits.
        return status.st_size, min(max(status.st_mtime_ns, -_LAST_TIME), _LAST_TIME)
    except OSError:
        return 0, 0


def _changed(file: SourceFile, known: SourceState) -> bool:
    """Whether a file is another than it was: by size and time, and if these differ by its digest."""
    if (known.size, known.modified) == _stat(file):
        return False
    try:
        return known.digest.ljust(32, b"\0") != bytes.fromhex(checksum(file.path))
    except OSError:
        return False
