"""TF-IDF and BM25 as sparse matrices in memory: exact over all passages, for experiments and to compare with."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal, Self

import numpy as np
from scipy.sparse import csc_matrix

from mundap.index.lexical import Alive, Ranking

Terms = Callable[[str], list[str]]


class SparseLexical:
    """A matrix of term weights, passages x terms; a question's score is the sum of its terms' columns.

    The same interface as tantivy's `Lexical`. Passage numbers are positions in the corpus.

    Attributes:
        terms: Column of each term.
        idf: The inverse document frequency of each column.
    """

    def __init__(self, matrix: csc_matrix, terms: dict[str, int], idf: np.ndarray, ask: Terms) -> None:
        self.matrix = matrix
        self.terms = terms
        self.idf = idf
        self._ask = ask

    @classmethod
    def build(
        cls,
        texts: Iterable[str],
        analyze: Terms = str.split,
        weighting: Literal["bm25", "tfidf"] = "bm25",
        k1: float = 0.9,
        b: float = 0.4,
        ask: Terms | None = None,
    ) -> Self:
        """Weigh every term of every passage.

        Args:
            texts: The passages.
            analyze: Text to terms, such as `Analyzer().terms`; white space by default.
            weighting: `tfidf` is TF x ln(N / DF). `bm25` is Lucene's form.
            k1: How quickly repeated terms stop counting (BM25).
            b: Length normalisation (BM25).
            ask: Questions to terms, such as `Analyzer().question_terms`; as passages by default.
        """
        terms: dict[str, int] = {}
        columns: list[np.ndarray] = []
        counts: list[np.ndarray] = []
        lengths: list[int] = []
        for text in texts:
            words = Counter(analyze(text))
            columns.append(np.array([terms.setdefault(word, len(terms)) for word in words], np.int32))
            counts.append(np.fromiter(words.values(), np.float32, len(words)))
            lengths.append(sum(words.values()))
        rows = np.repeat(np.arange(len(columns)), [len(column) for column in columns])
        column, count = (np.concatenate(parts) if parts else np.empty(0) for parts in (columns, counts))
        frequency = np.bincount(column.astype(np.int64), minlength=len(terms))
        total = len(lengths)
        if weighting == "tfidf":
            idf = np.log(total / np.maximum(frequency, 1))
            weights = count * idf[column.astype(np.int64)]
        else:
            length = np.array(lengths, np.float32)
            idf = np.log(1 + (total - frequency + 0.5) / (frequency + 0.5))
            discount = length
            if total:
                discount = k1 * (1 - b + b * length / max(length.mean(), 1e-9))
            weights = idf[column.astype(np.int64)] * count / (count + discount[rows])
        shape = (total, len(terms))
        matrix = csc_matrix((weights.astype(np.float32), (rows, column.astype(np.int64))), shape=shape)
        return cls(matrix, terms, idf, ask or analyze)

    def search(self, question: str, k: int, alive: Alive | None = None) -> Ranking:
        """The best k passages that have a term of the question in them."""
        scores = self._all_scores(question)
        numbers = np.flatnonzero(scores > 0)
        if alive is not None:
            numbers = numbers[alive(numbers.astype(np.uint64))]
        if len(numbers) > k:
            # Everything that ties with the k-th stays in, so that ties are broken by number and not by chance.
            threshold = np.partition(scores[numbers], len(numbers) - k)[len(numbers) - k]
            numbers = numbers[scores[numbers] >= threshold]
        order = np.lexsort((numbers, -scores[numbers]))[:k]
        return numbers[order].astype(np.uint64), scores[numbers[order]]

    def scores(self, question: str, numbers: np.ndarray) -> np.ndarray:
        """The score of each of these passages; 0 if no term matches."""
        return self._all_scores(question)[numbers.astype(np.int64)]

    def _all_scores(self, question: str) -> np.ndarray:
        scores = np.zeros(self.matrix.shape[0], np.float32)
        for term, count in Counter(self._ask(question)).items():
            column = self.terms.get(term)
            if column is not None:
                left, right = self.matrix.indptr[column], self.matrix.indptr[column + 1]
                scores[self.matrix.indices[left:right]] += count * self.matrix.data[left:right]
        return scores
