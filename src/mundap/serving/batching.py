"""Dynamic batching: what arrives while one batch runs makes up the next. Clients take turns."""

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mundap.serving.problems import Busy, TooSlow

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Waiting:
    key: Hashable
    item: Any
    result: "asyncio.Future[Any]"


class Lane(Generic[T, R]):
    """Threads that take work in batches. Nobody waits for a batch to fill: an idle thread starts at once.

    Every client has its own queue, and the queues are served in turn: a client that asks for much delays only itself.

    Args:
        name: Of the threads.
        run: The results of some items that have the same key.
        threads: How many batches run at the same time.
        largest: The most items of a batch: it bounds how long the next one waits.
        waiting: The most items that wait.
        cost: How many ordinary items one with this key is worth; fewer costly ones make up a batch.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[Hashable, Sequence[T]], Sequence[R]],
        threads: int,
        largest: int,
        waiting: int,
        cost: Callable[[Any], float] = lambda key: 1.0,
    ) -> None:
        self.name = name
        self._run = run
        self._threads = threads
        self._largest = largest
        self._most = waiting
        self._cost = cost
        self._queues: OrderedDict[str, deque[_Waiting]] = OrderedDict()  # the client whose turn it is comes first
        self._waiting = 0
        self._running = 0
        self._pool = ThreadPoolExecutor(threads, name)
        self.batches: Callable[[int], None] = lambda size: None

    def __len__(self) -> int:
        """How many items wait."""
        return self._waiting

    async def do(self, key: Hashable, items: Sequence[T], seconds: float, client: str = "") -> list[R]:
        """The results of some items, in order.

        Raises:
            Busy: Too many are waiting.
            TooSlow: It took longer than that many seconds.
        """
        if not self._has_room(client, len(items)):
            raise Busy("the server is busy. Try again in a moment.")
        loop = asyncio.get_running_loop()
        mine = [_Waiting(key, item, loop.create_future()) for item in items]
        self._queues.setdefault(client, deque()).extend(mine)
        self._waiting += len(mine)
        self._start()
        try:
            async with asyncio.timeout(seconds):
                return [await one.result for one in mine]
        except TimeoutError:
            raise TooSlow(f"this took longer than {seconds:g} seconds. Ask for less, or try again later.") from None
        finally:
            for one in mine:  # whoever has left is passed over
                one.result.cancel()

    def _has_room(self, client: str, more: int) -> bool:
        """Whether so many items of a client may wait: as long as there is room, or it has less than its share."""
        if self._waiting + more <= self._most or (not self._waiting and more <= self._most):
            return True
        clients = len(self._queues) + (client not in self._queues)
        mine = len(self._queues.get(client, ()))
        return mine + more <= self._most // clients and clients > 1

    def _start(self) -> None:
        while self._running < self._threads and (batch := self._take()):
            self._running += 1
            self.batches(len(batch))
            asyncio.get_running_loop().create_task(self._finish(batch))

    def _take(self) -> list[_Waiting]:
        """Items with the same key: the first of the client whose turn it is, then those of all in turn.

        No more than leaves work for other threads, and no more than costs what the largest batch may.
        """
        first = self._next(None)
        if first is None:
            return []
        share = math.ceil((self._waiting + 1) / (self._threads - self._running))
        size = min(int(self._largest / self._cost(first.key)), share)
        batch = [first]
        while len(batch) < size and (one := self._next(first.key)) is not None:
            batch.append(one)
        return batch

    def _next(self, key: Hashable | None) -> _Waiting | None:
        """The next item in turn, of any key or of this one; its client then goes to the end of the line."""
        for client in list(self._queues):
            queue = self._queues[client]
            while queue and queue[0].result.done():  # whoever has left is passed over
                queue.popleft()
                self._waiting -= 1
            if not queue:
                del self._queues[client]
                continue
            for position, one in enumerate(queue):
                if (key is None or one.key == key) and not one.result.done():
                    del queue[position]
                    self._waiting -= 1
                    self._queues.move_to_end(client)
                    return one
        return None

    async def _finish(self, batch: Sequence[_Waiting]) -> None:
        try:
            await self._answer(batch)
        finally:
            self._running -= 1
            self._start()

    async def _answer(self, batch: Sequence[_Waiting]) -> None:
        loop = asyncio.get_running_loop()
        try:
            items = [one.item for one in batch]
            results = await loop.run_in_executor(self._pool, self._run, batch[0].key, items)
        except Exception as error:
            if len(batch) > 1:  # one that fails must not take the others with it
                for one in batch:
                    await self._answer([one])
            elif not batch[0].result.done():
                batch[0].result.set_exception(error)
            return
        for one, result in zip(batch, results, strict=True):
            if not one.result.done():
                one.result.set_result(result)

    def close(self) -> None:
        """End the threads; what they are doing is finished."""
        self._pool.shutdown(wait=True, cancel_futures=True)
