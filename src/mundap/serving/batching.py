"""Work in batches: what arrives while one batch runs makes up the next."""

import asyncio
import math
from collections import deque
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

    Args:
        name: Of the threads.
        run: The results of some items that have the same key.
        threads: How many batches run at the same time.
        largest: The most items of a batch: it bounds how long the next one waits.
        waiting: The most items that wait.
    """

    def __init__(
        self, name: str, run: Callable[[Hashable, Sequence[T]], Sequence[R]], threads: int, largest: int, waiting: int
    ) -> None:
        self.name = name
        self._run = run
        self._threads = threads
        self._largest = largest
        self._most = waiting
        self._queue: deque[_Waiting] = deque()
        self._running = 0
        self._pool = ThreadPoolExecutor(threads, name)
        self.batches: Callable[[int], None] = lambda size: None

    def __len__(self) -> int:
        """How many items wait."""
        return len(self._queue)

    async def do(self, key: Hashable, items: Sequence[T], seconds: float) -> list[R]:
        """The results of some items, in order.

        Raises:
            Busy: Too many are waiting.
            TooSlow: It took longer than that many seconds.
        """
        if len(self._queue) + len(items) > self._most and (self._queue or len(items) > self._most):
            raise Busy("the server is busy. Try again in a moment.")
        loop = asyncio.get_running_loop()
        mine = [_Waiting(key, item, loop.create_future()) for item in items]
        self._queue.extend(mine)
        self._start()
        try:
            async with asyncio.timeout(seconds):
                return [await one.result for one in mine]
        except TimeoutError:
            raise TooSlow(f"this took longer than {seconds:g} seconds. Ask for less, or try again later.") from None
        finally:
            for one in mine:  # whoever has left is passed over
                one.result.cancel()

    def _start(self) -> None:
        while self._running < self._threads and (batch := self._take()):
            self._running += 1
            self.batches(len(batch))
            asyncio.get_running_loop().create_task(self._finish(batch))

    def _take(self) -> list[_Waiting]:
        """The items that have waited longest and have the same key, but no more than leaves work for other threads."""
        while self._queue and self._queue[0].result.done():
            self._queue.popleft()
        if not self._queue:
            return []
        size = min(self._largest, math.ceil(len(self._queue) / (self._threads - self._running)))
        key = self._queue[0].key
        batch: list[_Waiting] = []
        rest: list[_Waiting] = []
        while self._queue and len(batch) < size:
            one = self._queue.popleft()
            if one.result.done():
                continue
            (batch if one.key == key else rest).append(one)
        self._queue.extendleft(reversed(rest))
        return batch

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
