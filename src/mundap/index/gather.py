"""Vectors out of mapped files, scored against a question: gathered into memory of FAISS, none is copied twice."""

from typing import Any

import numpy as np

_TIES = 16  # looked at beyond those wanted, to see whether the last place is shared


class Gather:
    """A buffer for the vectors of one question at a time, used by one thread.

    FAISS computes with them as they are stored. Numpy would first make floats of them, which takes six times as long.
    """

    def __init__(self, dimension: int, ranges: np.ndarray | None = None) -> None:
        """Vectors are half precision, or bytes if ranges are given: the least values of all dimensions, then widths."""
        import faiss

        kind = faiss.ScalarQuantizer.QT_fp16
        if ranges is not None:
            kind = faiss.ScalarQuantizer.QT_8bit
        self._index: Any = faiss.IndexScalarQuantizer(dimension, kind, faiss.METRIC_INNER_PRODUCT)
        if ranges is not None:
            faiss.copy_array_to_vector(np.ascontiguousarray(ranges, np.float32).ravel(), self._index.sq.trained)
            self._index.is_trained = True

    def room(self, count: int) -> np.ndarray:
        """The buffer for a number of vectors, one row each."""
        import faiss

        width = self._index.sa_code_size()
        self._index.codes.resize(count * width)
        self._index.ntotal = count
        if not count:
            return np.empty((0, width), np.uint8)
        return np.asarray(faiss.rev_swig_ptr(self._index.codes.data(), count * width)).reshape(count, width)

    def best(self, vector: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows and inner products of at least so many of the best, if there are; all that share the last place."""
        count = int(self._index.ntotal)
        limit = min(count, most + _TIES)
        while limit:
            scores, rows = self._index.search(np.ascontiguousarray(vector[None], np.float32), limit)
            if limit == count or scores[0, -1] < scores[0, most - 1]:
                return rows[0], scores[0]
            limit = min(count, 4 * limit)
        return np.empty(0, np.int64), np.empty(0, np.float32)

    def products(self, vector: np.ndarray) -> np.ndarray:
        """The inner products of all, in their order."""
        rows, scores = self.best(vector, int(self._index.ntotal))
        products = np.empty(len(rows), np.float32)
        products[rows] = scores
        return products
