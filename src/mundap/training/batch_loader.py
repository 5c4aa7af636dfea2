"""Sample examples into batches: the same order for the same seed, from any step on."""

import queue
import threading
from collections.abc import Generator, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np

from mundap.errors import MundapError
from mundap.training.examples import ExampleFile
from mundap.training.recipe import TrainingRecipe

B = TypeVar("B")

_AHEAD = 3  # batches prepared before they are needed
_WINDOW = 32  # batches within which lengths are sorted: enough to save padding, too few to bias anything


class BatchLoader(Generic[B]):
    """The batches of a run: sampled here, collated by a subclass, prepared in a thread.

    Args:
        sets: The training files.
        recipe: Batch size and seed.
        rank: This process.
        world: How many there are.
    """

    def __init__(self, sets: Sequence[ExampleFile], recipe: TrainingRecipe, rank: int = 0, world: int = 1) -> None:
        if recipe.batch_size % world:
            raise MundapError(f"a batch of {recipe.batch_size} cannot be divided among {world} processes")
        self._sets = sets
        self._run = recipe
        self._rank, self._world = rank, world
        self._per_passage = 1  # examples with the same positive that are put side by side
        self._per_article = 1  # and those whose positives are of the same article

    def _collate(self, places: list[list[int]], epoch: int) -> B:
        """The batch of the examples at these (set, number) places."""
        raise NotImplementedError

    @property
    def batches_per_epoch(self) -> int:
        """Batches in an epoch. Examples at its end that do not fill a batch are left out."""
        total = sum(_count(one) for one in self._sets)
        if total < self._run.batch_size:
            raise MundapError(f"{total} examples do not fill a batch of {self._run.batch_size}: lower batch_size")
        return total // self._run.batch_size

    def _epoch_order(self, epoch: int) -> np.ndarray:
        """(set, example) of every place in an epoch, batch after batch."""
        rng = np.random.default_rng([self._run.seed, epoch])
        sampled, keys = self._sampled(rng)
        shuffled, leads = self._side_by_side(rng.permutation(len(sampled)), keys)
        size = self._run.batch_size
        order = sampled[shuffled][: len(sampled) // size * size]
        if self._run.group_by_length:
            sizes = np.array([self._sets[a].size(b) for a, b in order.tolist()])
            # A group of examples that stay side by side has the length of its first.
            order = order[_by_length(sizes[leads[: len(order)]], size, rng)]
        return np.asarray(order)

    def _sampled(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The examples of an epoch, each as often as its set's weight says, and the keys of their positives."""
        rows, keys = [], []
        for number, one in enumerate(self._sets):
            whole, rest = divmod(_count(one), len(one))
            chosen = np.concatenate([np.arange(len(one))] * whole + [rng.permutation(len(one))[:rest]])
            rows.append(np.stack([np.full(len(chosen), number), chosen], axis=1))
            # An example drawn twice must not stand beside itself: each draw counts as another passage.
            keys.append(one.positive_keys[chosen] + np.arange(len(chosen))[:, None] // len(one))
        return np.concatenate(rows), np.concatenate(keys)

    def _side_by_side(self, order: np.ndarray, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The order with examples of one passage, and of one article, moved together; and each one's leader."""
        leads = np.arange(len(order))
        for column, most in enumerate((self._per_passage, self._per_article)):
            if most > 1:
                moved, leads = _grouped(keys[order, column], most)
                order = order[moved]
        return order, leads

    def batches_from(self, step: int) -> Generator[B]:
        """Yield batches from a step on, without end, prepared ahead in a thread."""
        ready: queue.Queue[B | BaseException] = queue.Queue(_AHEAD)
        gone = threading.Event()

        def prepare() -> None:
            try:
                for batch in self._iterate(step):
                    if not _put(ready, batch, gone):
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

    def _iterate(self, step: int) -> Iterator[B]:
        per_epoch = self.batches_per_epoch
        while True:
            epoch, first = divmod(step, per_epoch)
            order = self._epoch_order(epoch).reshape(per_epoch, self._run.batch_size, 2)
            for number in range(first, per_epoch):
                yield self._collate(order[number].tolist(), epoch)
            step = (epoch + 1) * per_epoch


def _count(one: ExampleFile) -> int:
    """How many examples of a set an epoch has."""
    return round(len(one) * one.weight)


def _put(ready: "queue.Queue[B | BaseException]", batch: B, gone: threading.Event) -> bool:
    """Wait for room and put a batch there; False if the consumer has gone."""
    while not gone.is_set():
        try:
            ready.put(batch, timeout=0.5)
            return True
        except queue.Full:
            continue
    return False


def _by_length(lengths: np.ndarray, batch_size: int, rng: np.random.Generator) -> np.ndarray:
    """An order in which the examples of a batch have similar lengths, in windows of some batches, batches shuffled."""
    parts = []
    for start in range(0, len(lengths), batch_size * _WINDOW):
        part = np.arange(start, min(start + batch_size * _WINDOW, len(lengths)))
        ascending = part[np.argsort(lengths[part], kind="stable")]
        parts.append(rng.permutation(ascending.reshape(-1, batch_size)).reshape(-1))
    return np.concatenate(parts)


def _grouped(keys: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """An order in which rows with equal keys follow the first of them, up to `most`; and the place of each leader."""
    rows = np.arange(len(keys))
    by_key = np.argsort(keys, kind="stable")
    begins = np.r_[True, np.diff(keys[by_key]) != 0]
    nth = rows - np.maximum.accumulate(np.where(begins, rows, 0))
    leader = by_key[rows - nth % most]
    moved = np.lexsort((by_key, leader))
    return by_key[moved], np.searchsorted(leader[moved], leader[moved])  # leaders ascend now
