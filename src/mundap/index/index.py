"""An index, opened for searching."""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mundap.encoder.runtime import Encoder
from mundap.errors import IndexDamaged, ModelError, UsageError
from mundap.index import fusion as _fusion
from mundap.index import locate
from mundap.index.analyzer import Analyzer
from mundap.index.corpus import Corpus, Filters
from mundap.index.dense import Dense, Nearest
from mundap.index.fusion import Fusion
from mundap.index.lexical import Lexical, Ranking
from mundap.index.manifest import Manifest
from mundap.index.model import open_encoder
from mundap.index.modes import MODES, Bm25, Mode, checked_bm25
from mundap.index.sizes import BATCH
from mundap.machine import cores
from mundap.records import Document, Hit, Passage, Skipped

if TYPE_CHECKING:
    from mundap.index.catalog import Listed

MAX_K = 100_000
MAX_QUESTION = 100_000  # characters; far beyond any question, and a bound on the work one can cause


@dataclass(frozen=True, slots=True)
class RankingOptions:
    """How passages are ranked: the options of `Index.search_batch`."""

    mode: Mode
    bm25: Bm25
    fusion: Fusion = "zscore"
    weight: float | None = None
    scale: float = 1.1
    candidates: int = _fusion.CANDIDATES


_Found = tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]


class Index:
    """A snapshot of an index directory. Writers do not disturb it; open again to see what they committed.

    Example:
        >>> index = Index.build(["docs/"], "my-index")
        >>> index.search("Who is the bad guy in Lord of the Rings?")[0].passage.title
    """

    def __init__(self, path: str | Path | None = None) -> None:
        """Open the index at `path`, or `.mundap/` here or in the nearest parent."""
        self.path = locate.to_read(path)
        for _ in range(10):
            self.manifest = Manifest.load(self.path)
            try:
                self._corpus = Corpus(self.path, self.manifest)
                self.analyzer = Analyzer(self.manifest.settings.language, self.manifest.settings.hangul)
                lexical = self.manifest.lexical
                bm25 = self.manifest.settings.bm25
                self._lexical = Lexical(self.path / lexical.folder, self.analyzer, lexical.files, bm25)
                self._lexical.analysed = self._analysed
                self.analyzer.held = self._held()
                self._dense = Dense(self.path, self._corpus, self.manifest.dense)
                failure = None
            except (IndexDamaged, FileNotFoundError) as error:
                failure = error
            # A commit in the meantime may have swept away what we were opening: then simply look again.
            if Manifest.load(self.path).generation == self.manifest.generation:
                break
        if failure is not None:
            raise failure

    @classmethod
    def build(cls, paths: Sequence[str | Path], out: str | Path | None = None, **options: Any) -> Self:
        """Index files and folders and open the result. Options are those of `mundap.index.build.Options`."""
        from mundap.index.build import Options, build  # reading files is not needed for searching

        where = locate.to_write(out)
        build(paths, where, Options(**options))
        return cls(where)

    def _held(self) -> tuple[str, ...]:
        """The languages questions may be in. One passage in a hundred may be mistaken for another language."""
        return tuple(code for code, count in self._lexical.languages() if count * 100 >= len(self._corpus))

    def _analysed(self, numbers: np.ndarray) -> Iterator[list[str]]:
        """The terms of some passages, made anew from their text as for the index."""
        passages = self._corpus.passages_at(numbers)
        texts = [(f"{one.title}\n{one.text}", one.metadata.get("language", "")) for one in passages]
        return self.analyzer.terms_of(texts)

    def reopened(self) -> Self:
        """The index as it is now. The encoder is taken along if it still is the one."""
        new = type(self)(self.path)
        mine, its = self.manifest.settings, new.manifest.settings
        if (mine.model, mine.fingerprint) == (its.model, its.fingerprint):
            new.encoder = self.encoder
        return new

    def __len__(self) -> int:
        """How many passages there are."""
        return len(self._corpus)

    @cached_property
    def encoder(self) -> Encoder | None:
        """The model the index was made with; None if it has no vectors."""
        return open_encoder(self.manifest.settings)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(cores(), "search")

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The ways this index can be searched."""
        if self.manifest.settings.model:
            return tuple(MODES)
        return ("bm25",)

    @property
    def default_mode(self) -> Mode:
        """Hybrid, or BM25 where there are no vectors."""
        if self.manifest.settings.model:
            return "hybrid"
        return "bm25"

    def search(self, question: str, k: int = 10, mode: Mode | None = None, **options: Any) -> list[Hit]:
        """The best passages for a question; see `search_batch` for the options."""
        return self.search_batch([question], k, mode, **options)[0]

    def rank(self, question: str, k: int = 100, mode: Mode | None = None) -> list[tuple[str, float]]:
        """Passage ids and scores alone, as a run file has them; quicker than `search` for a long list."""
        mode = mode or self.default_mode
        self._check([question], k, mode, "zscore")
        vector = None
        if mode != "bm25":
            vector = self._vectors([question])[0]
        how = RankingOptions(mode, self.manifest.settings.bm25)
        numbers, scores, _, _ = self._rank(question, vector, k, None, how)
        return list(zip(self._corpus.names_at(numbers), scores.tolist(), strict=True))

    def search_batch(
        self,
        questions: Sequence[str],
        k: int = 10,
        mode: Mode | None = None,
        *,
        filters: Filters | None = None,
        fusion: Fusion = "zscore",
        weight: float | None = None,
        scale: float = 1.1,
        candidates: int = _fusion.CANDIDATES,
        by_document: bool = False,
        k1: float | None = None,
        b: float | None = None,
    ) -> list[list[Hit]]:
        """The best passages for each question.

        Args:
            questions: Plain text; nothing in it is query syntax.
            k: How many hits.
            mode: `bm25`, `dense` or `hybrid` (the default where there are vectors).
            filters: Only passages that match.
            fusion: How hybrid joins the two: `zscore`, `linear` (BM25 + scale * sim) or `rrf`.
            weight: The dense share of `zscore`; by default the model's own, fitted on dev data.
            scale: The papers' lambda, for `linear`.
            candidates: How many of each list are considered.
            by_document: One hit a document, its best passage.
            k1: Of BM25, term frequency saturation; by default the index's.
            b: Of BM25, length normalisation; by default the index's.
        """
        mode = mode or self.default_mode
        questions = [question.encode("utf-8", "replace").decode() for question in questions]
        self._check(questions, k, mode, fusion)
        if not math.isfinite(scale) or not math.isfinite(weight or 0.0):
            raise UsageError("lambda and weight must be numbers")
        how = RankingOptions(mode, self._bm25_with(k1, b), fusion, weight, scale, candidates)
        return self._found(questions, k, how, filters, by_document)

    def _found(
        self, questions: Sequence[str], k: int, how: RankingOptions, filters: Filters | None, by_document: bool
    ) -> list[list[Hit]]:
        among = None
        if filters:
            among = self._corpus.matching(filters)
        vectors = None
        if how.mode != "bm25":
            vectors = self._vectors(questions)
        size = k
        if by_document:
            size = max(10 * k, 100)
        nearest = self._nearest_batch(vectors, size if how.mode == "dense" else max(size, how.candidates), among)

        def answer(position: int) -> list[Hit]:
            vector = None
            if vectors is not None:
                vector = vectors[position]
            ready = None
            if nearest:
                ready = nearest[position]
            wanted = size
            while True:
                found = self._rank(questions[position], vector, wanted, among, how, ready)
                ready = None
                numbers = found[0]
                enough = not by_document or len(np.unique(self._corpus.document_owners(numbers))) >= k
                if enough or len(numbers) < wanted:
                    return self._hits(found, k, by_document)
                wanted *= 4

        if len(questions) == 1:
            return [answer(0)]
        return list(self._pool.map(answer, range(len(questions))))

    def rerank(
        self,
        question: str,
        names: Iterable[str],
        mode: Mode | None = None,
        *,
        fusion: Fusion = "zscore",
        weight: float | None = None,
        scale: float = 1.1,
        by_document: bool = False,
        k1: float | None = None,
        b: float | None = None,
    ) -> list[Hit]:
        """Order given passages by how well they fit a question; ids that are not in the index are left out.

        A document's id stands for all its passages. With `by_document` only the best of each document is kept.
        """
        mode = mode or self.default_mode
        self._check([question], 1, mode, fusion)
        how = RankingOptions(mode, self._bm25_with(k1, b), fusion, weight, scale)
        return self._ordered(question, names, how, by_document)

    def _ordered(self, question: str, names: Iterable[str], how: RankingOptions, by_document: bool) -> list[Hit]:
        among = np.unique(self._corpus.numbers_named(names))
        vector = None
        if how.mode != "bm25":
            vector = self._vectors([question])[0]
        size = max(1, len(among))
        how = replace(how, candidates=size)
        found = self._rank(question, vector, size, among, how)
        if len(found[0]) < len(among):  # BM25 does not list what has no word of the question in it: those come last
            rest = np.setdiff1d(among, found[0])
            zeros = np.zeros(len(rest), np.float32)
            scores = np.append(found[1], zeros)
            found = np.append(found[0], rest), scores, scores, None
        return self._hits(found, size, by_document)

    def passage(self, name: str) -> Passage | None:
        """The passage with this id."""
        place = self._corpus.find_passage(name)
        if place:
            return place[0].passage(place[1])
        return None

    def has(self, name: str) -> bool:
        """Whether there is a passage or a document with this id."""
        return bool(len(self._corpus.numbers_named([name])))

    def passages_of(self, name: str) -> list[Passage]:
        """The passages of the document with this id, in order; none if there is no such document."""
        for candidate in (name, name.removeprefix("wiki:")):
            if found := self._corpus.find_document(candidate):
                return found[0].passages_at(np.array(found[0].passage_rows(found[1])))
        return []

    def document(self, name: str) -> Document | None:
        """The document with this id, with its whole text."""
        return self._corpus.document(name)

    def matching(self, filters: Filters) -> int:
        """How many passages the filters let through."""
        return len(self._corpus.matching(filters))

    def sample(self, count: int, seed: str) -> list[Passage]:
        """A random sample of passages without repeats; the same seed gives the same sample."""
        return self._corpus.passages_at(self._corpus.sample(count, random.Random(seed)))  # noqa: S311

    def passages(self) -> Iterator[Passage]:
        """Every passage, in order."""
        return (passage for _, passage in self._corpus.passages())

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return self._corpus.documents

    def catalog(self) -> Iterator["Listed"]:
        """Every document with what is known of it: passages, language, date, size; without its text."""
        from mundap.index.catalog import catalog

        return catalog(self._corpus)

    def listing(
        self, words: str = "", filters: Filters | None = None, sort: str = "id", most: int = 100, first: int = 0
    ) -> tuple[list["Listed"], int]:
        """A page of the catalog, and how many documents there are on all pages.

        Args:
            words: Only documents whose id or title has this, in upper or lower case.
            filters: Only documents with a passage that these let through.
            sort: One of `mundap.index.catalog.Sort`.
            most: Documents on a page.
            first: How many to pass over.
        """
        from mundap.index.catalog import listing

        return listing(self._corpus, words, filters or Filters(), sort, most, first)

    def skipped(self) -> list[Skipped]:
        """The files that the last builds could not read, and why."""
        from mundap.index.catalog import load_skipped

        return load_skipped(self.path)

    def facts(self) -> dict[str, dict[str, int]]:
        """Facts to limit a search by, each with its values and how many passages have them."""
        from mundap.index.catalog import facts

        return facts(self._corpus)

    def info(self) -> dict[str, Any]:
        """Facts about the index, as `mundap info --json` shows them."""
        settings = self.manifest.settings
        return {
            "path": str(self.path),
            "documents": self._corpus.documents,
            "passages": len(self),
            "segments": len(self.manifest.segments),
            "deleted": len(self._corpus.deleted),
            "bytes": sum(map(_size, self.path.rglob("*"))),
            "model": settings.model or "none",
            "language": settings.language,
            "languages": [code for code, _ in self._lexical.languages()],
            "hangul": settings.hangul,
            "dense": self.manifest.dense.kind if self.manifest.dense else "exact" if settings.model else None,
            "generation": self.manifest.generation,
            "tool": self.manifest.tool,
            "facts": self.facts(),
            "skipped": len(self.skipped()),
            "settings": asdict(settings),
        }

    def _check(self, questions: Sequence[str], k: int, mode: str, fusion: str) -> None:
        if mode not in MODES:
            raise UsageError(f"mode {mode!r}: choose one of {', '.join(MODES)}")
        if fusion not in _fusion.FUSIONS:
            raise UsageError(f"fusion {fusion!r}: choose one of {', '.join(_fusion.FUSIONS)}")
        if not 1 <= k <= MAX_K:
            raise UsageError("k = {k}: choose between 1 and {most}", k=k, most=MAX_K)
        if mode != "bm25" and not self.manifest.settings.model:
            raise UsageError(
                "the index in {path} has no vectors. Search it by bm25, or rebuild it with a model.", path=self.path
            )
        for question in questions:
            if not question.strip():
                raise UsageError("the question is empty. Type a few words.")
            if len(question) > MAX_QUESTION:
                raise UsageError(
                    "the question has {count} characters; the limit is {limit}",
                    count=len(question),
                    limit=MAX_QUESTION,
                )

    def _vectors(self, questions: Sequence[str]) -> np.ndarray:
        assert self.encoder is not None
        vectors = self.encoder.encode_questions(questions)
        if not np.isfinite(vectors).all():
            raise ModelError(
                f"the model {self.manifest.settings.model} gives vectors that are not numbers. Export it again."
            )
        return vectors

    def _rank(
        self,
        question: str,
        vector: np.ndarray | None,
        k: int,
        among: np.ndarray | None,
        how: RankingOptions,
        ready: Nearest | None = None,
    ) -> _Found:
        """Numbers, scores, and the BM25 and dense scores behind them."""
        if how.mode == "bm25":
            numbers, scores = self._bm25(question, k, among, how.bm25)
            return numbers, scores, scores, None
        assert vector is not None
        if how.mode == "dense":
            numbers, scores = (ready or self._nearest(vector, k, among)).ranking
            return numbers, scores, None, scores
        return self._hybrid(question, vector, k, among, how, ready)

    def _hybrid(
        self,
        question: str,
        vector: np.ndarray,
        k: int,
        among: np.ndarray | None,
        how: RankingOptions,
        ready: Nearest | None,
    ) -> _Found:
        """The two lists as one. Every candidate has its exact dense score; BM25's only where it can matter."""
        size = max(k, how.candidates)
        left, (right, score) = self._bm25(question, size, among, how.bm25), ready or self._nearest(vector, size, among)
        numbers = np.union1d(left[0], right[0])
        dense = _completed(numbers, right, score)
        bm25 = np.zeros(len(numbers), np.float32)
        known = np.searchsorted(numbers, left[0])
        bm25[known] = left[1]
        missing = np.ones(len(numbers), bool)
        missing[known] = False
        # A list that is not full has every passage with a word of the question: no other has a score.
        most = 0.0
        if len(left[0]) >= size:
            most = float(left[1][-1])

        def lexical(places: np.ndarray) -> np.ndarray:
            return self._lexical.scores(question, numbers[places], how.bm25)

        if how.fusion == "rrf":
            scores = _fusion.reciprocal_rank(numbers, (left[0], right[0]))
            order = np.lexsort((numbers, -scores))[:k]
            shown = order[missing[order]]
            if most > 0 and len(shown):
                bm25[shown] = lexical(shown)
            return numbers[order], scores[order], bm25[order], dense[order]
        share = how.weight
        if share is None:
            share = self.encoder.config.weight_for(question)  # type: ignore[union-attr]
        lists = (left[1], right[1])

        def join(values: np.ndarray) -> np.ndarray:
            if how.fusion == "linear":
                return _fusion.linear(values, dense, how.scale)
            return _fusion.zscore(values, dense, lists, share)

        if how.fusion == "zscore" and share > 1:  # then a higher BM25 score makes less: all are needed
            bm25[missing] = lexical(np.flatnonzero(missing)) if most > 0 else 0
            scores = join(bm25)
        else:
            scores = _fusion.complete(join, bm25, missing, most, k, lexical)
        order = np.lexsort((numbers, -scores))[:k]
        return numbers[order], scores[order], bm25[order], dense[order]

    def _bm25_with(self, k1: float | None, b: float | None) -> Bm25:
        """The index's parameters of BM25, or those that a search asks for."""
        return checked_bm25(k1, b, self.manifest.settings.bm25)

    def _bm25(self, question: str, k: int, among: np.ndarray | None, bm25: Bm25) -> Ranking:
        if among is not None:
            return self._lexical.search_among(question, k, among, bm25)
        return self._lexical.search(question, k, self._corpus.alive, bm25)

    def _nearest(self, vector: np.ndarray, k: int, among: np.ndarray | None) -> Nearest:
        if among is not None:
            return Nearest(self._dense.search_among(vector, k, among), partial(self._dense.scores, vector))
        return self._dense.nearest(vector[None], k)[0]

    def _nearest_batch(self, vectors: np.ndarray | None, k: int, among: np.ndarray | None) -> list[Nearest]:
        """Vectors of many questions together: one pass over the corpus serves them all."""
        if vectors is None or among is not None or len(vectors) < 2:
            return []
        return [
            found
            for start in range(0, len(vectors), BATCH)
            for found in self._dense.nearest(vectors[start : start + BATCH], k)
        ]

    def _hits(self, found: _Found, k: int, by_document: bool) -> list[Hit]:
        numbers, scores, bm25, dense = found
        chosen = np.arange(len(numbers))
        if by_document and len(numbers):
            _, first = np.unique(self._corpus.document_owners(numbers), return_index=True)
            chosen = np.sort(first)
        chosen = chosen[:k]
        columns = (_column(part, chosen) for part in (scores, bm25, dense))
        passages = self._corpus.passages_at(numbers[chosen])
        return [
            Hit(rank, score, passage, lexical, inner)  # type: ignore[arg-type]
            for rank, (passage, score, lexical, inner) in enumerate(zip(passages, *columns, strict=True), 1)
        ]


def _size(path: Path) -> int:
    try:
        if path.is_file():
            return path.stat().st_size
        return 0
    except OSError:  # a writer may be at work
        return 0


def _column(values: np.ndarray | None, rows: np.ndarray) -> list[float] | list[None]:
    if values is None:
        return [None] * len(rows)
    return list(map(float, values[rows]))


def _completed(numbers: np.ndarray, known: Ranking, score: Any) -> np.ndarray:
    """Every candidate's score: those already known, and the missing ones computed."""
    result = np.full(len(numbers), np.nan, np.float32)
    result[np.searchsorted(numbers, known[0])] = known[1]
    missing = np.isnan(result)
    if missing.any():
        result[missing] = score(numbers[missing])
    return result
