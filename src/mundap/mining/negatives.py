"""Mine negatives: hard ones that BM25, TF-IDF or a dense retriever rank high, and random ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from mundap.errors import UsageError
from mundap.index.index import Index
from mundap.index.sparse import SparseLexical
from mundap.mining.rule import DUPLICATE, Candidate, NegativeRule
from mundap.records import Context, Passage, Question
from mundap.text.answers import Mode

_DEPTH = 100
_LARGEST_MATRIX = 3_000_000


@dataclass(frozen=True, slots=True)
class Counts:
    """How many negatives of each kind a question gets.

    Attributes:
        bm25: The highest by BM25.
        tfidf: The highest by TF-IDF.
        dense: The highest by the index's own encoder.
        random: Any.
    """

    bm25: int = 30
    tfidf: int = 0
    dense: int = 0
    random: int = 0


Ranked = Iterator[tuple[Passage, float]]


class Miner:
    """Finds negatives in an index.

    Args:
        index: The pool.
        counts: How many of each kind.
        mode: How answers are matched.
        duplicate: A passage that shares this part of its text with a positive is left out.
        seed: Chooses the random ones.
    """

    def __init__(self, index: Index, counts: Counts, mode: Mode, duplicate: float = DUPLICATE, seed: int = 0) -> None:
        self._index = index
        self._counts = counts
        self._mode = mode
        self._duplicate = duplicate
        self._seed = seed

    def mine(
        self, questions: Sequence[Question], positives: Sequence[Sequence[Context]]
    ) -> list[tuple[tuple[Context, ...], tuple[Context, ...]]]:
        """(hard, random) negatives of each question."""
        texts = [question.text for question in questions]
        hard: list[dict[str, Context]] = [{} for _ in questions]
        kinds = (
            (self._counts.bm25, self._bm25),
            (self._counts.tfidf, self._tfidf),
            (self._counts.dense, self._dense),
        )
        for count, rank in kinds:
            if not count:
                continue
            for position, ranked in enumerate(rank(texts, max(_DEPTH, 2 * count))):
                taken = hard[position]
                for one in self._wrong(questions[position], positives[position], ranked, count, taken):
                    taken[one.id] = one
        return [
            (tuple(found.values()), self._random(question, right, found))
            for question, right, found in zip(questions, positives, hard, strict=True)
        ]

    def _wrong(
        self,
        question: Question,
        positives: Sequence[Context],
        ranked: Ranked,
        count: int,
        taken: dict[str, Context],
    ) -> list[Context]:
        """The first `count` passages that neither answer the question nor repeat a positive."""
        rule = NegativeRule(question, positives, self._mode, self._duplicate)
        found: list[Context] = []
        for passage, score in ranked:
            if len(found) == count:
                break
            if passage.id not in taken and rule.is_negative(Candidate(passage.text, passage.id)):
                found.append(Context.of(passage, round(score, 4)))
        return found

    def _bm25(self, texts: list[str], depth: int) -> Iterator[Ranked]:
        for hits in self._index.search_batch(texts, depth, "bm25"):
            yield ((hit.passage, hit.score) for hit in hits)

    def _dense(self, texts: list[str], depth: int) -> Iterator[Ranked]:
        for hits in self._index.search_batch(texts, depth, "dense"):
            yield ((hit.passage, hit.score) for hit in hits)

    def _tfidf(self, texts: list[str], depth: int) -> Iterator[Ranked]:
        matrix, names = self._sparse
        for text in texts:
            numbers, scores = matrix.search(text, depth)
            yield self._passages([names[number] for number in numbers], scores.tolist())

    def _passages(self, names: Sequence[str], scores: Sequence[float]) -> Ranked:
        for name, score in zip(names, scores, strict=True):
            passage = self._index.passage(name)
            if passage is not None:
                yield passage, score

    @cached_property
    def _sparse(self) -> tuple[SparseLexical, list[str]]:
        if len(self._index) > _LARGEST_MATRIX:
            raise UsageError(f"TF-IDF is held in memory: at most {_LARGEST_MATRIX:,} passages. Use BM25.")
        names: list[str] = []

        def texts() -> Iterator[str]:
            for passage in self._index.passages():
                names.append(passage.id)
                yield f"{passage.title}\n{passage.text}"

        analyzer = self._index.analyzer
        return SparseLexical.build(texts(), analyzer.terms, "tfidf", ask=analyzer.question_terms), names

    def _random(
        self, question: Question, positives: Sequence[Context], taken: dict[str, Context]
    ) -> tuple[Context, ...]:
        count = self._counts.random
        if not count:
            return ()
        # The question is part of the seed: the draw depends neither on the order of the file nor on its neighbours.
        drawn = self._index.sample(2 * count + 10, f"{self._seed} {question.id} {question.text}")
        return tuple(self._wrong(question, positives, ((passage, 0.0) for passage in drawn), count, taken))
