"""Maximum inner product search over the stored vectors: exact, or with an approximate FAISS index.

The approximate index only proposes candidates; every score that leaves this room is the inner product with
the stored vector. It covers the passages up to some number. Newer ones are scanned, so an `add` is cheap.
"""

import errno
import math
import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from mundap.errors import IndexDamaged, UsageError
from mundap.index import eightbit
from mundap.index.ahead import Ahead
from mundap.index.corpus import Corpus
from mundap.index.eightbit import EightBit
from mundap.index.gather import Gather
from mundap.index.lexical import Ranking
from mundap.index.lists import Lists
from mundap.index.manifest import DenseEntry, FileEntry
from mundap.index.segment import VECTOR, Segment
from mundap.index.sizes import (
    EIGHT_BIT_FROM,
    EXACT_UP_TO,
    MOST_TRAINED_ON,
    TRAINED_ON,
    Effort,
    codes_for,
    effort_for,
    lists_for,
    read_for,
)
from mundap.index.tuning import Tuned, tune
from mundap.machine import cores, in_threads, one_blas_thread

KINDS = ("auto", "exact", "ivf", "hnsw")

_FEWEST = 256  # too few to train anything on
_BLOCK = 8192
_CODED_AT_ONCE = 32_768  # in a thread
_CODES_TRAINED_ON = 32_768
_RANGES_FROM = 65_536
_HNSW = Effort(0, 8)


def kind_for(wanted: str, passages: int) -> str:
    """The kind of index for a corpus of this size."""
    if wanted not in KINDS:
        raise UsageError(f"dense index {wanted!r}: choose one of {', '.join(KINDS)}")
    if passages < _FEWEST:
        return "exact"
    if wanted == "auto":
        if passages <= EXACT_UP_TO:
            return "exact"
        return "ivf"
    return wanted


def build(corpus: Corpus, kind: str, path: Path, copy: Path | None = None) -> None:
    """Train and fill an approximate index over all living passages and write it, and its eight-bit copy if wanted."""
    import faiss

    dimension = corpus.segments[0].dimension
    if kind == "ivf":
        index, lists = _trained(corpus, dimension)
    else:
        index, lists = faiss.index_factory(dimension, "IDMap,HNSW32,SQ8", faiss.METRIC_INNER_PRODUCT), None
        _hnsw(index).efConstruction = 200
        index.train(_sample(corpus, 65_536).astype(np.float32))
    if lists is not None and hasattr(index, "pq"):
        _fill(index, corpus, lists)
    else:
        for segment, rows in _in_blocks(corpus):
            index.add_with_ids(_floats(segment.vectors, rows), segment.numbers_at(rows).astype(np.int64))
    try:
        faiss.write_index(index, str(path))
    except RuntimeError as error:
        raise OSError(errno.EIO, f"could not write {path.name}") from error
    if copy is not None:
        until = corpus.segments[-1].entry.last + 1
        eightbit.write(corpus, _ivf(index).invlists, _ivf(index).nlist, _sample(corpus, _RANGES_FROM), until, copy)


def wants_copy(kind: str, passages: int) -> bool:
    """Whether an index of this kind and size has an eight-bit copy of its vectors."""
    return kind == "ivf" and passages >= EIGHT_BIT_FROM


def _trained(corpus: Corpus, dimension: int) -> tuple[Any, Lists]:
    """An index without vectors that knows its lists and how to make codes."""
    import faiss

    count = lists_for(len(corpus))
    sample = _sample(corpus, max(count, min(TRAINED_ON * count, MOST_TRAINED_ON)))
    lists = Lists.train(sample, count)
    index: Any = faiss.index_factory(dimension, f"IVF{count},{codes_for(dimension)}", faiss.METRIC_INNER_PRODUCT)
    index.quantizer.add(lists.centres)
    if hasattr(index, "pq"):
        index.pq.cp.min_points_per_centroid = 1  # or a small corpus is warned of once for every part of a code
    index.train(sample[:: -(-len(sample) // _CODES_TRAINED_ON)].astype(np.float32))
    return index, lists


def _fill(index: Any, corpus: Corpus, lists: Lists) -> None:
    """Add all living vectors: first their codes are made, in threads, then each list is written once."""
    import faiss

    numbers = np.empty(len(corpus), np.int64)
    owners = np.empty(len(corpus), np.int32)
    codes = np.empty((len(corpus), index.code_size), np.uint8)

    def encode(place: tuple[int, Segment, np.ndarray]) -> None:
        start, segment, rows = place
        vectors, here = _floats(segment.vectors, rows), slice(start, start + len(rows))
        numbers[here], owners[here] = segment.numbers_at(rows), lists.of(vectors)
        codes[here] = index.pq.compute_codes(vectors)

    index.pq.sync_transposed_centroids()  # the same codes in two thirds of the time
    for _ in in_threads(encode, _places(corpus)):
        pass
    index.pq.clear_transposed_centroids()
    order = np.argsort(owners, kind="stable")
    bounds = np.searchsorted(owners[order], np.arange(index.nlist + 1))
    lists_of_index = faiss.downcast_InvertedLists(index.invlists)

    def write(number: int) -> None:
        places = order[bounds[number] : bounds[number + 1]]
        _write_list(lists_of_index, number, numbers[places], codes[places])

    for _ in in_threads(write, range(index.nlist)):
        pass
    index.ntotal = len(corpus)


def _write_list(lists: Any, number: int, numbers: np.ndarray, codes: np.ndarray) -> None:
    """Put codes into an empty list, in blocks that are laid out for the registers that scan them."""
    import faiss

    packer, count = lists.packer, -(-len(codes) // lists.packer.nvec)
    flat = np.zeros((count, packer.nvec, codes.shape[1]), np.uint8)
    flat.reshape(-1, codes.shape[1])[: len(codes)] = codes
    packed = np.zeros((count, packer.block_size), np.uint8)
    for one, block in zip(flat, packed, strict=True):
        packer.pack_all(faiss.swig_ptr(one), faiss.swig_ptr(block))
    lists.add_entries(number, len(numbers), faiss.swig_ptr(numbers), faiss.swig_ptr(packed))


def _places(corpus: Corpus) -> Iterator[tuple[int, Segment, np.ndarray]]:
    """The blocks of `_in_blocks`, each with how many vectors come before it."""
    start = 0
    for segment, rows in _in_blocks(corpus, _CODED_AT_ONCE):
        yield start, segment, rows
        start += len(rows)


def _in_blocks(corpus: Corpus, size: int = _BLOCK) -> Iterator[tuple[Segment, np.ndarray]]:
    """The rows of all living vectors, in order."""
    for segment in corpus.segments:
        rows = np.flatnonzero(corpus.living(segment))
        for start in range(0, len(rows), size):
            yield segment, rows[start : start + size]


def _ivf(index: Any) -> Any:
    """The lists of an index, which may stand behind a rotation."""
    import faiss

    return faiss.extract_index_ivf(index)


def _hnsw(index: Any) -> Any:
    import faiss

    below: Any = faiss.downcast_index(index.index)
    return below.hnsw


def _sample(corpus: Corpus, size: int) -> np.ndarray:
    """At most so many living vectors, as they are stored."""
    generator = np.random.default_rng(0)
    parts = []
    for segment in corpus.segments:
        rows = np.flatnonzero(corpus.living(segment))
        share = math.ceil(size * len(rows) / max(len(corpus), 1))
        chosen = np.sort(generator.choice(rows, min(share, len(rows)), replace=False))
        parts.append(segment.vectors[chosen])
    return np.concatenate(parts)[:size]


class Nearest(NamedTuple):
    """The best passages for a question, and the scores of any others."""

    ranking: Ranking
    scores: Callable[[np.ndarray], np.ndarray]


class Dense:
    """Search by vector."""

    def __init__(self, root: Path, corpus: Corpus, entry: DenseEntry | None) -> None:
        self._corpus = corpus
        self._entry = entry
        # Held open and read when first needed: a commit may remove the file, and this snapshot goes on.
        self._file = None
        if entry:
            self._file = _open_checked(root, entry.file)
        self._copy = None
        if entry and entry.copy:
            self._copy = EightBit(root, entry, corpus.segments[0].dimension)
        self._ahead = Ahead()
        self._ann: Any = None
        self._effort = _HNSW
        self._scanned: list[tuple[np.ndarray, np.ndarray]] | None = None

    def search(self, vectors: np.ndarray, k: int) -> list[Ranking]:
        """The best k living passages for each question vector."""
        return [near.ranking for near in self.nearest(vectors, k)]

    def nearest(self, vectors: np.ndarray, k: int) -> "list[Nearest]":
        """The same, each with a way to the scores of other passages: a full scan has them all."""
        if self._entry is None and isinstance(blocks := self._blocks(), list):
            numbers = np.concatenate([np.empty(0, np.uint64), *(part for part, _ in blocks)])
            scores = [np.empty((len(vectors), 0), np.float32), *(vectors @ block.T for _, block in blocks)]
            return [_known(k, numbers, row) for row in np.concatenate(scores, axis=1)]
        rankings = self._scan(vectors, k)
        if self._entry is not None:
            rankings = _merged(k, rankings, self._approximate(vectors, k))
        return [
            Nearest(ranking, partial(self.scores, vector)) for ranking, vector in zip(rankings, vectors, strict=True)
        ]

    def search_among(self, vector: np.ndarray, k: int, numbers: np.ndarray) -> Ranking:
        """The best k out of a given set of passages, exactly."""
        best = _empty()
        for start in range(0, len(numbers), _BLOCK):
            part = numbers[start : start + _BLOCK]
            best = _merge(k, best, (part, self.scores(vector, part)))
        return best

    def scores(self, vector: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The inner product with each of these passages."""
        segments, rows = self._corpus.places(numbers)
        order = np.argsort(segments, kind="stable")
        gather = Gather(len(vector))
        self._corpus.read_vectors(segments[order], rows[order], gather.room(len(rows)).view(VECTOR))
        scores = np.empty(len(numbers), np.float32)
        scores[order] = gather.products(vector)
        return scores

    def _scan(self, vectors: np.ndarray, k: int) -> list[Ranking]:
        best = [_empty() for _ in vectors]
        for numbers, block in self._blocks():
            scores = vectors @ block.T
            for row, ranking in enumerate(best):
                # Most blocks have little that is better than what was found before.
                good = slice(None) if len(ranking[1]) < k else np.flatnonzero(scores[row] >= ranking[1][-1])
                best[row] = _merge(k, ranking, (numbers[good], scores[row, good]))
        return best

    def _blocks(self) -> Any:
        """Living vectors the approximate index does not cover, in float32; kept for the next question if few."""
        if self._scanned is not None:
            return self._scanned
        until = 0
        if self._entry:
            until = self._entry.until
        tail = [segment for segment in self._corpus.segments if segment.entry.last >= until]
        blocks = (
            (segment.numbers_at(rows[start : start + _BLOCK]), _floats(segment.vectors, rows[start : start + _BLOCK]))
            for segment in tail
            for rows in [np.flatnonzero(self._corpus.living(segment) & (segment.numbers() >= until))]
            for start in range(0, len(rows), _BLOCK)
        )
        if sum(map(len, tail)) <= 1.5 * EXACT_UP_TO:
            self._scanned = list(blocks)
            return self._scanned
        return blocks

    def _approximate(self, vectors: np.ndarray, k: int) -> list[Ranking]:
        index = self._open()
        fetch, read = min(self._effort.fetch(k), index.ntotal), index.ntotal
        if self._copy is not None:
            read = read_for(k)
        ivf = None
        if self._effort.probes:
            ivf = _ivf(index)
        try:
            while True:
                rankings = self._refined(vectors, k, fetch, read)
                enough = all(len(numbers) >= k for numbers, _ in rankings)
                if enough or (_looks_everywhere(ivf) and min(fetch, read) >= index.ntotal):
                    return rankings
                fetch, read = min(fetch * 4, index.ntotal), read * 4
                if ivf is not None:
                    # Another thread that searches meanwhile looks into more lists than it must, which does no harm.
                    ivf.nprobe = min(ivf.nprobe * 4, ivf.nlist)
        finally:
            if ivf is not None:
                ivf.nprobe = self._effort.probes

    def _refined(self, vectors: np.ndarray, k: int, fetch: int, read: int) -> list[Ranking]:
        """The candidates of each question, re-ranked. Several questions are shared out among the cores."""

        def search(part: np.ndarray) -> list[Ranking]:
            found = self.candidates(part, fetch)
            if self._copy is not None and read < fetch:
                # Those that were deleted since would take the places of others.
                living = self._corpus.living_places(found.astype(np.uint64).ravel())[0].reshape(found.shape)
                found = self._copy.narrowed(part, np.where(living, found, -1), read)
            return self._rerank(part, found, k)

        if len(vectors) == 1:
            return search(vectors)
        parts = np.array_split(vectors, min(len(vectors), cores()))
        return [ranking for part in in_threads(search, parts) for ranking in part]

    def candidates(self, vectors: np.ndarray, fetch: int) -> np.ndarray:
        """What the approximate index proposes for each question, best first; -1 where there is no more."""
        return np.asarray(self._open().search(np.ascontiguousarray(vectors, np.float32), fetch)[1])

    def _rerank(self, vectors: np.ndarray, found: np.ndarray, k: int) -> list[Ranking]:
        """The best k living candidates of each question by their stored vectors."""
        owners, places = np.nonzero(found >= 0)
        numbers = found[owners, places].astype(np.uint64)
        living, segments, rows = self._corpus.living_places(numbers)
        if not living.all():
            owners, numbers = owners[living], numbers[living]
        order = np.lexsort((segments, owners))
        numbers, segments, rows = numbers[order], segments[order], rows[order]
        bounds = np.searchsorted(owners, np.arange(len(vectors) + 1)).tolist()
        gather = Gather(vectors.shape[1])
        rankings = []

        def take() -> None:
            for vector, (left, right) in zip(vectors, pairwise(bounds), strict=True):
                room = gather.room(right - left).view(VECTOR)
                self._corpus.read_vectors(segments[left:right], rows[left:right], room)
                best, scores = gather.best(vector, k)
                rankings.append(_sorted(k, numbers[left:right][best], scores))

        # All of them at once, if they are read from disk.
        width = VECTOR.itemsize * vectors.shape[1]
        self._ahead.read(lambda: self._corpus.addresses(segments, rows), width, len(rows), take)
        return rankings

    @property
    def effort(self) -> Effort:
        """How much of the approximate index is searched."""
        self._open()
        return self._effort

    @property
    def lists(self) -> int:
        """How many lists it has."""
        return int(_ivf(self._open()).nlist)

    def tune(self, vectors: np.ndarray, k: int, wanted: float) -> Tuned:
        """Find the cheapest effort that reaches the wanted recall on these questions."""
        index = self._open()
        exact = [numbers for numbers, _ in Dense(Path(), self._corpus, None).search(vectors, k)]

        def search(probes: int, fetch: int) -> np.ndarray:
            _ivf(index).nprobe = probes
            return self.candidates(vectors, fetch)

        tuned = tune(search, exact, wanted, _ivf(index).nlist, len(self._corpus))
        self._effort = tuned.effort
        _ivf(index).nprobe = tuned.effort.probes
        return tuned

    def _open(self) -> Any:
        if self._ann is None:
            import faiss

            assert self._file is not None
            # The file that was opened: a later commit may have removed its name, except on Windows.
            self._file.seek(0)  # on macOS this is the same opening, not one more
            opened = f"/dev/fd/{self._file.fileno()}"
            try:
                self._ann = faiss.read_index(opened if Path(opened).exists() else self._file.name)
            except RuntimeError as error:
                name = self._file.name
                raise IndexDamaged(f"{name} cannot be read. Run `mundap compact` to make it again.") from error
            entry = self._entry
            assert entry is not None
            if entry.kind == "ivf":
                lists = _ivf(self._ann).nlist
                tuned = Effort(min(entry.probes, lists), entry.candidates)
                # Of vectors with an odd number of dimensions, and in an index of an earlier version.
                one_bit = isinstance(self._ann, faiss.IndexIVFRaBitQFastScan)
                self._effort = tuned if all(tuned) else effort_for(entry.passages, lists, one_bit)
                _ivf(self._ann).nprobe = self._effort.probes
            else:
                _hnsw(self._ann).efSearch = 200
            for segment in self._corpus.segments:
                if segment.entry.last < entry.until:
                    segment.expect_single_vectors()
            one_blas_thread()
            faiss.omp_set_num_threads(cores())
            # FAISS 1.15 keeps small batches off BLAS by default, which costs a factor of eight.
            faiss.cvar.distance_compute_blas_threshold = 20
        return self._ann


def _open_checked(root: Path, entry: FileEntry) -> BinaryIO:
    path = root / entry.path
    try:
        file = path.open("rb")
    except OSError as error:
        raise IndexDamaged(f"{path}: {error.strerror}. Run `mundap compact` to make it again.") from error
    if os.fstat(file.fileno()).st_size != entry.bytes:
        raise IndexDamaged(f"{path} has the wrong size. Run `mundap compact` to make it again.")
    return file


def _floats(vectors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Some rows as float32; a slice where they are consecutive, which need not be gathered first."""
    together = len(rows) and rows[-1] - rows[0] + 1 == len(rows)
    return np.asarray(vectors[rows[0] : rows[-1] + 1] if together else vectors[rows], np.float32)


def _known(k: int, numbers: np.ndarray, scores: np.ndarray) -> Nearest:
    """The best of all passages, of which numbers, ascending, and scores are known."""
    return Nearest(_merge(k, _empty(), (numbers, scores)), lambda some: scores[np.searchsorted(numbers, some)])


def _empty() -> Ranking:
    return np.empty(0, np.uint64), np.empty(0, np.float32)


def _merge(k: int, left: Ranking, right: Ranking) -> Ranking:
    """The best k of two rankings; ties go to the lower number."""
    numbers = np.concatenate([left[0], right[0]])
    scores = np.concatenate([left[1], right[1]])
    if len(scores) > 4 * k:
        threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
        keep = scores >= threshold
        numbers, scores = numbers[keep], scores[keep]
    return _sorted(k, numbers, scores)


def _looks_everywhere(ivf: Any) -> bool:
    return ivf is None or ivf.nprobe >= ivf.nlist


def _merged(k: int, newer: list[Ranking], older: list[Ranking]) -> list[Ranking]:
    """The best k of both for each question."""
    if not any(len(numbers) for numbers, _ in newer):
        return older
    return [_merge(k, *pair) for pair in zip(newer, older, strict=True)]


def _sorted(k: int, numbers: np.ndarray, scores: np.ndarray) -> Ranking:
    """The best k; ties go to the lower number."""
    order = np.lexsort((numbers, -scores))[:k]
    return numbers[order], scores[order]
