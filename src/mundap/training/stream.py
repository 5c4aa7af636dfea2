"""Which examples are in which batch: the same ones, in the same order, for the same seed, from any step on."""

import queue
import threading
from collections.abc import Generator, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np

from mundap.errors import MundapError
from mundap.training.examples import ExampleFile
from mundap.training.recipe import Run

B = TypeVar("B")

_AHEAD = 3  # batches prepared before they are needed
_WINDOW = 32  # batches among which lengths are sorted: enough to save padding, too few to bias anything


class Stream(Generic[B]):
    """All batches of a run: which examples are in which, and their preparation by a thread of its own.

    Args:
        sets: The training files.
        recipe: Batch size and seed.
        rank: This process.
        world: How many there are.
    """

    def __init__(self, sets: Sequence[ExampleFile], recipe: Run, rank: int = 0, world: int = 1) -> None:
        if recipe.batch % world:
            raise MundapError(f"a batch of {recipe.batch} cannot be divided among {world} processes")
        self._sets = sets
        self._run = recipe
        self._rank, self._world = rank, world
        self._together = 1  # examples with the same positive that are put beside one another
        self._neighbours = 1  # and those with positives of the same article

    def _batch(self, places: list[list[int]], epoch: int) -> B:
        """The batch of the examples at these (set, number) places."""
        raise NotImplementedError

    @property
    def an_epoch(self) -> int:
        """Batches in an epoch. The last examples of an epoch that do not fill a batch are left out of it."""
        total = sum(self._taken(one, 0) for one in self._sets)
        if total < self._run.batch:
            raise MundapError(f"{total} examples do not fill a batch of {self._run.batch}: make it smaller")
        return total // self._run.batch

    @staticmethod
    def _taken(one: ExampleFile, epoch: int) -> int:
        return round(len(one) * one.weight)

    def _order(self, epoch: int) -> np.ndarray:
        """(set, example) of every place in an epoch, batch after batch."""
        chance = np.random.default_rng([self._run.seed, epoch])
        rows, passages = [], []
        for number, one in enumerate(self._sets):
            whole, rest = divmod(self._taken(one, epoch), len(one))
            chosen = np.concatenate([np.arange(len(one))] * whole + [chance.permutation(len(one))[:rest]])
            rows.append(np.stack([np.full(len(chosen), number), chosen], axis=1))
            # An example that is taken twice is not beside itself: each time is as another passage.
            passages.append(one.answering[chosen] + np.arange(len(chosen))[:, None] // len(one))
        order = np.concatenate(rows)
        shuffled = chance.permutation(len(order))
        keys, leads = np.concatenate(passages), np.arange(len(order))
        for column, most in enumerate((self._together, self._neighbours)):
            if most > 1:
                moved, leads = _beside(keys[shuffled, column], most)
                shuffled = shuffled[moved]
        order = order[shuffled]
        size = self._run.batch
        order = order[: len(order) // size * size]
        if self._run.group:
            lengths = np.array([self._sets[a].size(b) for a, b in order.tolist()])[leads[: len(order)]]
            parts = []
            for start in range(0, len(order), size * _WINDOW):
                part = np.arange(start, min(start + size * _WINDOW, len(order)))
                sorted_part = part[np.argsort(lengths[part], kind="stable")]
                parts.append(chance.permutation(sorted_part.reshape(-1, size)).reshape(-1))
            order = order[np.concatenate(parts)]
        return np.asarray(order)

    def since(self, step: int) -> Generator[B]:
        """Batches from a step on, for ever, prepared by a thread of their own."""
        ready: queue.Queue[B | BaseException] = queue.Queue(_AHEAD)
        gone = threading.Event()

        def prepare() -> None:
            try:
                for batch in self._from(step):
                    while not gone.is_set():
                        try:
                            ready.put(batch, timeout=0.5)
                            break
                        except queue.Full:
                            continue
                    if gone.is_set():
                        return
            except BaseException as error:
                ready.put(error)

        threading.Thread(target=prepare, daemon=True, name="batches").start()
        try:
            while True:
                batch = ready.get()
                if isinstance(batch, BaseException):
                    raise batch
                yield batch
        finally:
            gone.set()

    def _from(self, step: int) -> Iterator[B]:
        per_epoch = self.an_epoch
        while True:
            epoch, first = divmod(step, per_epoch)
            order = self._order(epoch).reshape(per_epoch, self._run.batch, 2)
            for number in range(first, per_epoch):
                yield self._batch(order[number].tolist(), epoch)
            step = (epoch + 1) * per_epoch


def _beside(keys: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """An order in which rows with the same key stand beside the first of them, up to `most`; and the first of each."""
    rows = np.arange(len(keys))
    by_key = np.argsort(keys, kind="stable")
    begins = np.r_[True, np.diff(keys[by_key]) != 0]
    nth = rows - np.maximum.accumulate(np.where(begins, rows, 0))
    leader = by_key[rows - nth % most]
    moved = np.lexsort((by_key, leader))
    return by_key[moved], np.searchsorted(leader[moved], leader[moved])  # leaders are ascending now
