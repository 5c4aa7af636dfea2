"""BM25 by tantivy: one index over the whole directory, so that document frequencies are global.

It knows passage numbers and nothing else. Every committed state has a folder of its own, which nobody writes to any
more. A writer begins with a folder of links to the files of the state before: tantivy never changes a file, it writes
new ones, so that this costs next to nothing. So readers have the document frequencies of their state and of no other.
"""

import contextlib
import errno
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tantivy

from mundap.disk import disk_errors, sync_folder
from mundap.errors import IndexDamaged, MundapError
from mundap.index.analyzer import AUTO, Analyzer
from mundap.index.corpus import in_sorted
from mundap.index.manifest import FileEntry
from mundap.index.modes import TANTIVY, Bm25
from mundap.index.segment import map_file
from mundap.index.terms import Terms, TermsWriter, code_bytes, codes_of, count_codes, terms_files

_NO_MEMORY = ("temporarily unavailable", "allocate memory", "spawn", "memory allocation")
_NO_ROOM = ("No space left", "File too large", "quota exceeded", "Read-only file system")
_HEAP = 256_000_000
_AT_ONCE = 512  # passages analysed together
_MOST_TERMS = 1024  # of a question; a longer one is cut, far beyond anything a person asks
_SMALL_SET = 20_000
_TIE_MARGIN = 16  # fetched beyond k, to see whether the k-th place is shared
_MOST_TIED = 20_000
_RESCORED = 1000  # candidates of tantivy that are scored again for another k1 or b; four times k where that is more
_MOST_ANALYSED = 100_000  # passages whose terms are remembered where the index has not stored them
_META = "meta.json"
_KINDS = ("idx", "pos", "term", "store", "fast", "fieldnorm")

Ranking = tuple[np.ndarray, np.ndarray]
"""Passage numbers and scores, best first."""

Alive = Callable[[np.ndarray], np.ndarray]
"""Tells for each passage number whether it may be found."""

Analysed = Callable[[np.ndarray], Iterable[Sequence[str]]]
"""Gives the terms of each of some passages, made anew from their text."""


class Lexical:
    """The tantivy index, for reading. `SparseLexical` has the same `search` and `scores`.

    Tantivy ranks with its own k1 and b. For others its best candidates are scored again from the frequencies of the
    question's terms in them, which are stored, or else counted by analysing their text again.

    Attributes:
        bm25: The k1 and b of searches that ask for no others.
        analysed: Gives the terms of passages where the index has not stored them.
    """

    def __init__(self, folder: Path, analyzer: Analyzer, files: Sequence[FileEntry] = (), bm25: Bm25 = TANTIVY) -> None:
        """Open the index in a folder, if the files are as they should be."""
        self.analyzer = analyzer
        self.bm25 = bm25
        self.analysed: Analysed | None = None
        self._memory: dict[int, np.ndarray] = {}
        self._totals: tuple[float, float] | None = None
        self._folder = folder
        for entry in files:
            map_file(folder.parent, entry)
        self._schema = _schema()
        self._terms = Terms(folder)
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        with self._damage():
            if not tantivy.Index.exists(str(folder)):
                raise ValueError("there is no lexical index")
            try:
                self._searcher = self._open(folder)
            except ValueError as error:
                if "Lockfile" not in str(error):
                    raise
                # Tantivy locks even to read. Where that is not allowed, links in a folder of our own will do.
                self._scratch = tempfile.TemporaryDirectory(prefix="mundap-")
                for path in folder.iterdir():
                    if path.suffix != ".lock":
                        _borrow(path, Path(self._scratch.name) / path.name)
                self._searcher = self._open(Path(self._scratch.name))

    def _open(self, folder: Path) -> Any:
        index = tantivy.Index.open(str(folder))
        index.register_tokenizer("words", self.analyzer.words)
        return index.searcher()

    @contextlib.contextmanager
    def _damage(self) -> Iterator[None]:
        """Tantivy meets a damaged file with a ValueError or a panic; both mean the same to a user."""
        try:
            yield
        except ValueError as error:
            raise _starved(self._folder, error) or self._damaged(error) from error
        except BaseException as error:
            if type(error).__name__ == "PanicException":
                raise _starved(self._folder, error) or self._damaged(error) from None
            raise

    def _damaged(self, error: BaseException) -> IndexDamaged:
        reason = str(error).split("\n")[0][:200].rstrip(". ")
        return IndexDamaged(
            f"{self._folder} is damaged or cannot be read ({reason}). Build again with `mundap index --fresh`."
        )

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def search(self, question: str, k: int, alive: Alive | None = None, bm25: Bm25 | None = None) -> Ranking:
        """The best k living passages. Ties go to the lower number, so that an order can be repeated."""
        if (bm25 or self.bm25) == TANTIVY:
            return self._search(question, k, alive)
        numbers, _ = self._search(question, max(_RESCORED, 4 * k), alive)
        return _best(k, numbers, self.scores(question, numbers, bm25))

    def _search(self, question: str, k: int, alive: Alive | None) -> Ranking:
        """The best k as tantivy scores them."""
        query = self._query(question)
        limit = k + _TIE_MARGIN
        while query is not None and len(self):
            numbers, scores = self._run(query, min(limit, len(self)))
            exhausted = len(numbers) < limit
            if alive is not None:
                living = alive(numbers)
                numbers, scores = numbers[living], scores[living]
            tied = len(scores) > k and scores[-1] == scores[k - 1] and limit < _MOST_TIED
            if exhausted or (len(numbers) >= k and not tied):
                order = np.lexsort((numbers, -scores))[:k]
                return numbers[order], scores[order]
            limit *= 4
        return np.empty(0, np.uint64), np.empty(0, np.float32)

    def search_among(self, question: str, k: int, numbers: np.ndarray, bm25: Bm25 | None = None) -> Ranking:
        """The best k out of a given set of passages."""
        if len(numbers) > _SMALL_SET:
            allowed = np.sort(numbers)
            return self.search(question, k, lambda found: in_sorted(allowed, found), bm25)
        return _best(k, numbers, self.scores(question, numbers, bm25))

    def scores(self, question: str, numbers: np.ndarray, bm25: Bm25 | None = None) -> np.ndarray:
        """The exact BM25 score of each of these passages, 0 where no term matches."""
        bm25 = bm25 or self.bm25
        if not len(numbers):
            return np.zeros(0, np.float32)
        if bm25 == TANTIVY:
            return self._tantivy_scores(question, numbers)
        return self._own_scores(question, numbers, bm25)

    def _own_scores(self, question: str, numbers: np.ndarray, bm25: Bm25) -> np.ndarray:
        """Scores as tantivy makes them, with another k1 and b and the true lengths of passages."""
        terms = self.analyzer.question_terms(question)[:_MOST_TERMS]
        statistics = self._statistics(question)
        if statistics is None:
            return np.zeros(len(numbers), np.float32)
        passages, average = statistics
        with self._damage():
            found = np.array([self._searcher.doc_freq("body", term) for term in terms], np.float64)
        idf = np.log1p((passages - found + 0.5) / (found + 0.5))
        counts, lengths = self._frequencies(numbers, codes_of(terms))
        discount = bm25.k1 * (1 - bm25.b + bm25.b * lengths / average)
        with np.errstate(invalid="ignore"):  # 0 / 0, where k1 is 0 and the term is not there
            weights = np.where(counts > 0, counts / (counts + discount[:, None]), 0.0)
        return np.asarray((bm25.k1 + 1) * (weights @ idf), np.float32)

    def _statistics(self, question: str) -> tuple[float, float] | None:
        """How many passages tantivy counts, and their mean length: it tells both when it explains a score.

        None if no passage has a word of the question: then there is nothing to explain, and nothing to score.
        """
        if self._totals is None:
            query = self._query(question)
            with self._damage():
                hits = []
                if query is not None:
                    hits = self._searcher.search(query, 1, count=False).hits
                if hits:
                    told = _told(json.loads(query.explain(self._searcher, hits[0][1]).to_json()))
                    self._totals = told["N"], told["avgdl"]
        return self._totals

    def _frequencies(self, numbers: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How often each passage has each term, and its length: as stored, or out of the text."""
        counts, lengths = self._terms.frequencies(numbers, wanted)
        unknown = np.flatnonzero(lengths == 0)
        if len(unknown) and self.analysed is not None:
            codes = self._analysed_codes(numbers[unknown])
            lengths[unknown] = [len(one) for one in codes]
            starts = np.cumsum(lengths[unknown]) - lengths[unknown]
            counts[unknown] = count_codes(np.concatenate(codes), starts, lengths[unknown], wanted)
        return counts, lengths

    def _analysed_codes(self, numbers: np.ndarray) -> list[np.ndarray]:
        assert self.analysed is not None
        known = self._memory  # a search in another thread may begin a new one
        missing = np.array([number for number in numbers.tolist() if number not in known], np.uint64)
        new = {
            number: code_bytes(terms) for number, terms in zip(missing.tolist(), self.analysed(missing), strict=True)
        }
        found = [new[number] if number in new else known[number] for number in numbers.tolist()]
        if len(known) + len(new) > _MOST_ANALYSED:
            known = self._memory = {}
        known.update(new)
        return found

    def _tantivy_scores(self, question: str, numbers: np.ndarray) -> np.ndarray:
        result = np.zeros(len(numbers), np.float32)
        query = self._query(question)
        if query is None:
            return result
        among = tantivy.Query.term_set_query(self._schema, "number", numbers.tolist())
        both = tantivy.Query.boolean_query(
            [
                (tantivy.Occur.Must, tantivy.Query.const_score_query(among, 0.0)),
                (tantivy.Occur.Must, query),
            ]
        )
        found, scores = self._run(both, len(numbers))
        by_number = np.argsort(numbers)
        result[by_number[np.searchsorted(numbers, found, sorter=by_number)]] = scores
        return result

    def languages(self) -> list[tuple[str, int]]:
        """The languages of the passages with the number of each, the most frequent first; none if it was not noted."""
        try:
            found: list[tuple[str, int]] = self._searcher.terms_with_prefix("language", "")
        except ValueError:  # made before languages were noted
            return []
        return found

    def living(self, alive: Alive) -> int:
        """The number of living passages."""
        if not len(self):
            return 0
        numbers, _ = self._run(tantivy.Query.all_query(), len(self))
        return int(alive(np.unique(numbers)).sum())

    def _query(self, question: str) -> Any:
        terms = self.analyzer.question_terms(question)[:_MOST_TERMS]
        if not terms:
            return None
        queries = (tantivy.Query.term_query(self._schema, "body", term, "freq") for term in terms)
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])

    def _run(self, query: Any, limit: int) -> Ranking:
        with self._damage():
            hits = self._searcher.search(query, limit, count=False).hits
            numbers = self._searcher.fast_field_values("number", [address for _, address in hits])
        return np.array(numbers, np.uint64), np.array([score for score, _ in hits], np.float32)


def _best(k: int, numbers: np.ndarray, scores: np.ndarray) -> Ranking:
    """The best k that have a score; ties go to the lower number."""
    order = np.lexsort((numbers, -scores))[:k]
    order = order[scores[order] > 0]
    return numbers[order], scores[order]


def _told(explanation: dict[str, Any]) -> dict[str, float]:
    """The values in tantivy's explanation of a score, by the first word of what it says about them."""
    values = {explanation["description"].split(",")[0]: explanation["value"]}
    for part in explanation.get("details", ()):
        values |= _told(part)
    return values


def _starved(folder: Path, error: BaseException) -> MundapError | None:
    """What to say if tantivy got no memory or no thread, which is no fault of its files."""
    reason = str(error).split("\n")[0][:200].rstrip(". ")
    if not any(word in reason for word in _NO_MEMORY):
        return None
    return MundapError(
        f"too little memory for {folder} ({reason}). Nothing was changed: free some, or raise the limit (ulimit -v, "
        "ulimit -u), and run the same command again."
    )


def _without_room(folder: Path, error: Exception) -> MundapError | None:
    """What to say if tantivy could not write, which is no fault of its files either."""
    if not any(word in str(error) for word in _NO_ROOM):
        return None
    try:
        with disk_errors(folder.parent):
            raise _as_os_error(ValueError(str(error)))
    except MundapError as said:
        return said


@contextlib.contextmanager
def _panics() -> Iterator[None]:
    """Turn a panic of tantivy, which is no ordinary exception, into an error of ours."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        reason = str(error).split("\n")[0][:200].rstrip(". ")
        raise _starved(Path("the lexical index"), error) or MundapError(
            f"the lexical index cannot be written ({reason}). Nothing was changed; run the same command again, and "
            "look at the index with `mundap verify` if that does not help."
        ) from None


class LexicalWriter:
    """Adds passages to a tantivy index that is not yet visible to readers, and deletes from it.

    Args:
        folder: Where it is made; what a dead writer left there, and tantivy does not list, is removed.
        analyzer: Text into terms.
        threads: How many write at the same time.
        base: The folder of the state to begin with, if the folder is new.
        store_terms: Keep the terms of every passage too, for scores with another k1 and b than tantivy's.
    """

    @_panics()
    def __init__(
        self, folder: Path, analyzer: Analyzer, threads: int, base: Path | None = None, store_terms: bool = False
    ) -> None:
        self.analyzer = analyzer
        self._waiting: list[tuple[int, str, str]] = []
        self.folder = folder
        self._schema = _schema()
        self._terms = None
        if store_terms:
            self._terms = TermsWriter(folder)
        existing = folder.exists() or base is not None
        try:
            if folder.exists():
                _remove_unlisted(folder)
            else:
                folder.mkdir(parents=True)
            if base is not None:
                _link(base, folder)
            if existing:
                index = tantivy.Index.open(str(folder))
            else:
                index = tantivy.Index(self._schema, path=str(folder))
            index.register_tokenizer("words", analyzer.words)
            self._writer = index.writer(heap_size=_HEAP, num_threads=min(threads, 8))
        except (ValueError, FileNotFoundError) as error:
            damaged = IndexDamaged(f"{folder}: {error}. Build again with `mundap index --fresh`.")
            raise _starved(folder, error) or _without_room(folder, error) or damaged from error

    def add(self, number: int, title: str, text: str, language: str = "") -> None:
        """Index a passage under its number, its title with its text."""
        self._waiting.append((number, f"{title}\n{text}", language))
        if len(self._waiting) >= _AT_ONCE:
            self._add_waiting()

    @_panics()
    def _add_waiting(self) -> None:
        """Analyse what has come in, many at a time so that the cores can share it, and give it to tantivy."""
        analysed = self.analyzer.terms_of([(text, language) for _, text, language in self._waiting])
        for (number, _, language), terms in zip(self._waiting, analysed, strict=True):
            document = tantivy.Document()
            document.add_unsigned("number", number)
            document.add_text("body", " ".join(terms))
            if language and self.analyzer.language == AUTO:
                document.add_text("language", language)
            try:
                self._writer.add_document(document)
            except ValueError as error:
                raise _as_os_error(error) from error
            if self._terms is not None:
                self._terms.add(number, terms)
        self._waiting.clear()

    def delete(self, numbers: Iterable[int]) -> None:
        """Take passages away."""
        # By query: tantivy-py 0.27 makes a signed term of a Python int, which matches no unsigned field.
        self._delete(tantivy.Query.term_set_query(self._schema, "number", list(numbers)))

    def delete_between(self, first: int, last: int | None = None) -> None:
        """Take away all passages with numbers from `first` to `last`, or from `first` on."""
        query = tantivy.Query.range_query(
            self._schema, "number", tantivy.FieldType.Unsigned, lower_bound=first, upper_bound=last
        )
        self._delete(query)

    def drop_terms_from(self, number: int) -> None:
        """Remove the stored terms of passages from this number on, which a writer left that died before its commit."""
        if self._terms is not None:
            self._terms.drop_from(number)

    @_panics()
    def _delete(self, query: Any) -> None:
        try:
            self._writer.delete_documents_by_query(query)
        except ValueError as error:
            raise _as_os_error(error) from error

    @_panics()
    def commit(self) -> None:
        """Make the changes durable.

        Raises:
            OSError: The disk is full or cannot be written.
        """
        self._add_waiting()
        if self._terms is not None:
            self._terms.flush()
        try:
            self._writer.commit()
        except ValueError as error:
            raise _as_os_error(error) from error

    def close(self) -> None:
        """Wait for merges and release tantivy's lock; what was not committed is forgotten."""
        # A merge that failed is tried again by the next writer. A writer whose disk was full is closed already.
        with contextlib.suppress(ValueError, RuntimeError):
            self._writer.wait_merging_threads()

    def finish(self) -> list[Path]:
        """Close the index for good; returns its files, which never change again."""
        self.close()
        if self._terms is not None:
            self._terms.join()
        _remove_unlisted(self.folder)
        files = [self.folder / name for name in listed(self.folder)]
        if hasattr(os, "fchmod"):
            for path in files:
                _let_read(path)
        return files


def _let_read(path: Path) -> None:
    """Tantivy makes some of its files for their owner alone; whoever may read the index must read them too."""
    mask = os.umask(0)
    os.umask(mask)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != 0o666 & ~mask:
            with contextlib.suppress(PermissionError):  # a link to a file of somebody else's: it was as it is
                os.fchmod(descriptor, 0o666 & ~mask)
    finally:
        os.close(descriptor)


def _borrow(path: Path, borrowed: Path) -> None:
    """A link to a file, or a copy where links are not allowed, as on most Windows machines."""
    try:
        borrowed.symlink_to(path.resolve())
    except OSError:
        shutil.copyfile(path, borrowed)


def listed(folder: Path) -> list[str]:
    """The names of the files that tantivy's own list names, with that of the list, and of those with stored terms.

    Raises:
        IndexDamaged: The list is missing or broken.
    """
    names = [_META]
    for segment, deletes in _segments(folder):
        names += [f"{segment}.{kind}" for kind in _KINDS]
        if deletes:
            names.append(f"{segment}.{deletes['opstamp']}.del")
    return sorted(names + [file.path.name for file in terms_files(folder)])


def count(folder: Path) -> int:
    """How many passages the lexical index in a folder knows.

    Raises:
        IndexDamaged: Its list is missing or broken.
    """
    total = 0
    for segment in _meta(folder)["segments"]:
        total += segment["max_doc"] - (segment["deletes"] or {}).get("num_deleted_docs", 0)
    return total


def _remove_unlisted(folder: Path) -> None:
    """Remove what tantivy does not list: a writer that died left it, and a new one would stumble over it."""
    known = set(listed(folder))
    for path in folder.iterdir():
        if path.name not in known:
            path.unlink()


def _segments(folder: Path) -> list[tuple[str, Any]]:
    return [(one["segment_id"].replace("-", ""), one["deletes"]) for one in _meta(folder)["segments"]]


def _meta(folder: Path) -> Any:
    path = folder / _META
    try:
        meta = json.loads(path.read_bytes())
        for segment in meta["segments"]:  # as far as we rely on it
            good = isinstance(segment["segment_id"], str) and "/" not in segment["segment_id"]
            numbers = [segment["max_doc"]]
            if segment["deletes"]:
                numbers += [segment["deletes"]["opstamp"], segment["deletes"]["num_deleted_docs"]]
            if not good or not all(isinstance(number, int) for number in numbers):
                raise ValueError("no list of segments")
        return meta
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = "broken or cannot be read"
        if isinstance(error, FileNotFoundError):
            reason = "missing"
        raise IndexDamaged(
            f"{path} is {reason}. Make the lexical index again with `mundap verify --repair`, or everything with "
            "`mundap index --fresh`."
        ) from error


def _link(base: Path, folder: Path) -> None:
    """Fill a new folder with links to the files of another; copies where a disk knows no links."""
    for name in listed(base):
        path = base / name
        if not stat.S_ISREG(path.lstat().st_mode):
            raise ValueError(f"{path} is not a regular file")
        if name == _META:
            shutil.copyfile(path, folder / name)
            continue
        try:
            os.link(path, folder / name)
        except OSError:
            shutil.copyfile(path, folder / name)
    sync_folder(folder)


def _as_os_error(error: ValueError) -> OSError:
    """Tantivy's errors arrive as ValueError, whatever they are; while writing they are the disk's."""
    full = "No space left" in str(error)
    return OSError(errno.ENOSPC if full else errno.EIO, f"{'no space left' if full else error}")


def _schema() -> Any:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("number", stored=False, indexed=True, fast=True)
    builder.add_text_field("body", stored=False, tokenizer_name="words", index_option="freq")
    builder.add_text_field("language", stored=False, tokenizer_name="raw", index_option="basic")
    return builder.build()
