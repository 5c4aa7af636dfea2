"""BM25 by tantivy: one index over the whole directory, so that document frequencies are global.

It knows passage numbers and nothing else. It is committed before the manifest, so it may hold passages that
the manifest does not list (yet, or any more); whoever searches filters by what is alive.
"""

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tantivy

from mundap.errors import IndexDamaged
from mundap.index.analyzer import Analyzer
from mundap.index.corpus import in_sorted

_HEAP = 256_000_000
_MOST_TERMS = 1024  # of a question; a longer one is cut, far beyond anything a person asks
_SMALL_SET = 20_000
_TIE_MARGIN = 16  # fetched beyond k, to see whether the k-th place is shared
_MOST_TIED = 20_000

Ranking = tuple[np.ndarray, np.ndarray]
"""Passage numbers and scores, best first."""

Alive = Callable[[np.ndarray], np.ndarray]
"""Tells for each passage number whether it may be found."""


class Lexical:
    """The tantivy index, for reading. `SparseLexical` has the same `search` and `scores`."""

    def __init__(self, folder: Path, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self._folder = folder
        self._schema = _schema()
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
                        (Path(self._scratch.name) / path.name).symlink_to(path.resolve())
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
            raise self._damaged(error) from error
        except BaseException as error:
            if type(error).__name__ == "PanicException":
                raise self._damaged(error) from None
            raise

    def _damaged(self, error: BaseException) -> IndexDamaged:
        reason = str(error).split("\n")[0][:200].rstrip(". ")
        return IndexDamaged(
            f"{self._folder} is damaged or cannot be read ({reason}). Build again with `mundap index --fresh`."
        )

    def __len__(self) -> int:
        return int(self._searcher.num_docs)

    def search(self, question: str, k: int, alive: Alive | None = None) -> Ranking:
        """The best k living passages. Ties go to the lower number, so that an order can be repeated."""
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

    def search_among(self, question: str, k: int, numbers: np.ndarray) -> Ranking:
        """The best k out of a given set of passages."""
        if len(numbers) > _SMALL_SET:
            allowed = np.sort(numbers)
            return self.search(question, k, lambda found: in_sorted(allowed, found))
        scores = self.scores(question, numbers)
        order = np.lexsort((numbers, -scores))[:k]
        order = order[scores[order] > 0]
        return numbers[order], scores[order]

    def scores(self, question: str, numbers: np.ndarray) -> np.ndarray:
        """The exact BM25 score of each of these passages, 0 where no term matches."""
        result = np.zeros(len(numbers), np.float32)
        query = self._query(question)
        if query is None or not len(numbers):
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

    def living(self, alive: Alive) -> int:
        """How many of its passages are alive."""
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


class LexicalWriter:
    """Adds to the tantivy index and takes away from it. Nothing is seen by others before `commit`."""

    def __init__(self, folder: Path, analyzer: Analyzer, threads: int, create: bool) -> None:
        self.analyzer = analyzer
        self.folder = folder
        self._schema = _schema()
        try:
            if create:
                folder.mkdir(parents=True, exist_ok=True)
                index = tantivy.Index(self._schema, path=str(folder))
            else:
                index = tantivy.Index.open(str(folder))
            index.register_tokenizer("words", analyzer.words)
            self._writer = index.writer(heap_size=_HEAP, num_threads=min(threads, 8))
        except (ValueError, FileNotFoundError) as error:
            raise IndexDamaged(f"{folder}: {error}. Build again with `mundap index --fresh`.") from error

    def add(self, number: int, title: str, text: str) -> None:
        """Index a passage under its number, its title with its text."""
        document = tantivy.Document()
        document.add_unsigned("number", number)
        document.add_text("body", self.analyzer.prepare(f"{title}\n{text}"))
        try:
            self._writer.add_document(document)
        except ValueError as error:
            raise _as_os_error(error) from error

    def delete(self, numbers: Iterable[int]) -> None:
        """Take passages away."""
        # By query: tantivy-py 0.27 makes a signed term of a Python int, which matches no unsigned field.
        query = tantivy.Query.term_set_query(self._schema, "number", list(numbers))
        self._writer.delete_documents_by_query(query)

    def delete_between(self, first: int, last: int | None = None) -> None:
        """Take away all passages with numbers from `first` to `last`, or from `first` on."""
        query = tantivy.Query.range_query(
            self._schema, "number", tantivy.FieldType.Unsigned, lower_bound=first, upper_bound=last
        )
        self._writer.delete_documents_by_query(query)

    def commit(self) -> None:
        """Make the changes durable.

        Raises:
            OSError: The disk is full or cannot be written.
        """
        try:
            self._writer.commit()
        except ValueError as error:
            raise _as_os_error(error) from error
        # Tantivy makes some of its files for their owner alone; whoever may read the index must read them too.
        mask = os.umask(0)
        os.umask(mask)
        for path in self.folder.iterdir():
            with contextlib.suppress(OSError):  # merged away in the meantime
                path.chmod(0o666 & ~mask)

    def close(self) -> None:
        """Wait for merges and release tantivy's lock; what was not committed is forgotten."""
        with contextlib.suppress(ValueError):  # a merge that failed is tried again by the next writer
            self._writer.wait_merging_threads()


def _as_os_error(error: ValueError) -> OSError:
    """Tantivy's errors arrive as ValueError, whatever they are; while writing they are the disk's."""
    full = "No space left" in str(error)
    return OSError(errno.ENOSPC if full else errno.EIO, f"{'no space left' if full else error}")


def _schema() -> Any:
    builder = tantivy.SchemaBuilder()
    builder.add_unsigned_field("number", stored=False, indexed=True, fast=True)
    builder.add_text_field("body", stored=False, tokenizer_name="words", index_option="freq")
    return builder.build()
