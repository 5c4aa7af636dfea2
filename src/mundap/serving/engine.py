"""Answers as bytes: from the cache, or from an index and a reader, in batches."""

import asyncio
import contextlib
import hashlib
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from fastapi import Request

from mundap.disk import json_bytes
from mundap.errors import MundapError, UsageError
from mundap.index.corpus import Filters
from mundap.machine import cores
from mundap.pipeline.ask import NUM_PASSAGES, search_depth
from mundap.pipeline.search import RERANK_DEPTH, search
from mundap.reader.answering import answer_from
from mundap.reader.choice import LanguageReaders
from mundap.serving.batching import Lane
from mundap.serving.indexes import Indexes, Served
from mundap.serving.metrics import Metrics
from mundap.serving.schema import AskBody, SearchBody
from mundap.serving.settings import Settings
from mundap.serving.writing import Writing

_WARM_SECONDS = 600.0
_ENTRY = 300  # bytes that an entry of the cache takes beside its value


@dataclass(frozen=True, slots=True)
class _Job:
    """What questions that are dealt with together have in common.

    Attributes:
        k: Passages found, or read.
        mode: How to search.
        filters: Where to look.
        rerank: Whether the reader reranks what was found.
        answers: How many at most; 0 if only passages are wanted.
        threshold: Minimum confidence of an answer.
    """

    k: int
    mode: Any
    filters: Filters
    rerank: bool = False
    answers: int = 0
    threshold: float | None = None


class _Cache:
    """The newest answers, up to so many bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()

    def get(self, key: bytes) -> bytes | None:
        """What is kept under a key."""
        if (found := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: bytes, value: bytes) -> None:
        """Keep it; the oldest make room."""
        if key in self._kept:
            self._size -= len(self._kept.pop(key)) + _ENTRY
        self._kept[key] = value
        self._size += len(value) + _ENTRY
        while self._size > self._most:
            self._size -= len(self._kept.popitem(last=False)[1]) + _ENTRY


class Engine:
    """What answers requests."""

    def __init__(self, settings: Settings, metrics: Metrics | None = None) -> None:
        self.settings = settings
        self.metrics = metrics or Metrics()
        self.metrics.watch(self)
        self.indexes = Indexes(settings)
        self.reader = None
        if settings.reader != "":
            self.reader = LanguageReaders.from_pretrained(settings.reader)
        waiting = settings.limits.waiting
        self.searching: Lane[str, bytes] = Lane("search", self._search, cores(), 32, waiting)
        self.reading: Lane[str, bytes] = Lane("read", self._read, cores(), 4, waiting, _cost_of)
        self.embedding: Lane[str, tuple[np.ndarray, int]] = Lane("embed", _embed, 1, 32, settings.limits.texts)
        self.listing: Lane[Callable[[], bytes], bytes] = Lane("list", _looked, 1, 1, waiting)
        self.writing = Writing(settings.limits.writes, settings.limits.write_seconds)
        self.lanes: tuple[Lane[Any, Any], ...] = (
            self.searching,
            self.reading,
            self.embedding,
            self.listing,
        )
        for lane in self.lanes:
            lane.batches = self.metrics.batches.labels(lane.name).observe
        self._cache = _Cache(settings.limits.cache)

    async def warm(self) -> None:
        """Load what is loaded when first used, in every thread, so that the first question is as quick as any."""
        for served in self.indexes:
            try:
                index = served.index()
            except MundapError:
                if not self.settings.restarted:
                    raise
                continue
            for lane, answers in ((self.searching, 0), (self.reading, 1)):
                job = _Job(NUM_PASSAGES, None, Filters(), answers=answers)
                if lane is self.searching or self.reader is not None:
                    questions = [f"who or what is {number}" for number in range(cores())]
                    await asyncio.gather(*(lane.do((index, job), [one], _WARM_SECONDS) for one in questions))

    async def ask(self, body: AskBody, index: str | None, client: str = "") -> bytes:
        """Answer a question, as JSON."""
        served = self._served(body, index)
        if self.reader is None:
            raise UsageError("this server was started without a reader: it can search, but not answer")
        self._check([body.question], body.k)
        job = _Job(body.k, body.mode, body.filters.filters(), answers=body.n, threshold=body.threshold)
        return (await self._done(self.reading, served, job, [body.question], client))[0]

    async def search(self, body: SearchBody, index: str | None, client: str = "") -> bytes:
        """Search for a question, or for several, as JSON."""
        served = self._served(body, index)
        if (body.question is None) == (body.questions is None):
            raise UsageError("give either `question` or `questions`")
        if body.rerank and self.reader is None:
            raise UsageError("this server was started without a reader: it cannot rerank")
        if body.question is not None:
            questions = [body.question]
        else:
            questions = body.questions or []
        self._check(questions, body.k)
        job = _Job(body.k, body.mode, body.filters.filters(), body.rerank)
        found = await self._done(self.reading if body.rerank else self.searching, served, job, questions, client)
        if body.question is not None:
            return found[0]
        return b"[" + b",".join(found) + b"]"

    async def look(self, served: Served, what: tuple[object, ...], work: Callable[[], bytes], client: str) -> bytes:
        """Run work that looks at every document: one at a time, and its result is cached.

        Args:
            served: The index.
            what: A name for the work; the same one always has the same result.
            work: Does it.
            client: For whom.
        """
        key = _key(served.name, served.version, *what)
        found = self._cache.get(key)
        if found is None:
            found = (await self.listing.do("list", [work], self.settings.limits.seconds, client))[0]
            served.index()  # as in `_done`: a file may have been cut short meanwhile
            self._cache.put(key, found)
        return found

    def _served(self, body: AskBody | SearchBody, index: str | None) -> Served:
        if body.index is not None and index is not None and body.index != index:
            raise UsageError("the body and the query name two indexes: give one")
        return self.indexes.get(body.index if body.index is not None else index)

    def _check(self, questions: Sequence[str], k: int) -> None:
        limits = self.settings.limits
        if k > limits.k:
            raise UsageError(f"k = {k}: choose between 1 and {limits.k}")
        if len(questions) > limits.questions:
            raise UsageError(f"{len(questions)} questions; the limit is {limits.questions}")
        for question in questions:
            if not question.strip():
                raise UsageError("the question is empty. Type a few words.")
            if len(question) > limits.question:
                raise UsageError(f"the question has {len(question)} characters; the limit is {limits.question}")

    async def _done(
        self, lane: Lane[str, bytes], served: Served, job: _Job, questions: Sequence[str], client: str
    ) -> list[bytes]:
        """The answers, those that are not known in batches."""
        index = served.index()
        if job.mode in ("dense", "hybrid") and not index.manifest.settings.model:
            raise UsageError(f"the index {served.name} has no vectors. Use the mode bm25.")
        keys = {question: _key(served.name, served.version, job, question) for question in questions}
        found: dict[str, bytes] = {}
        missing: list[str] = []
        for question, key in keys.items():
            known = self._cache.get(key)
            if known is None:
                missing.append(question)
            else:
                found[question] = known
        self.metrics.cache.labels("yes").inc(len(found))
        self.metrics.cache.labels("no").inc(len(missing))
        if missing:
            done = await lane.do((index, job), missing, self.settings.limits.seconds, client)
            served.index()  # what was read of a file that was cut short meanwhile counts for nothing
            for question, answer in zip(missing, done, strict=True):
                found[question] = answer
                self._cache.put(keys[question], answer)
        return [found[question] for question in questions]

    def _search(self, key: Any, questions: Sequence[str]) -> list[bytes]:
        index, job = key
        found = search(index, questions, job.k, job.mode, filters=job.filters)
        return [json_bytes(one.as_dict()) for one in found]

    def _read(self, key: Any, questions: Sequence[str]) -> list[bytes]:
        assert self.reader is not None
        index, job = key
        if not job.answers:
            found = search(index, questions, job.k, job.mode, self.reader, filters=job.filters)
            return [json_bytes(one.as_dict()) for one in found]
        found = search(index, questions, search_depth(job.k), job.mode, filters=job.filters)
        done = [answer_from(self.reader, one.question, one.hits, job.answers, job.threshold, job.k) for one in found]
        return [json_bytes(one.as_dict()) for one in done]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Warm up, follow the indexes while the block runs, then close."""
        await self.warm()
        watching = asyncio.create_task(self.indexes.watch())
        try:
            yield
        finally:
            watching.cancel()
            await self.close()

    async def close(self) -> None:
        """Finish what is being done."""
        await self.writing.close()
        for lane in self.lanes:
            await asyncio.to_thread(lane.close)


def cost(k: int, rerank: bool = False) -> int:
    """The cost of reading k passages, or so many as are read to rerank them, in units of an ordinary question."""
    if rerank:
        k = max(k, RERANK_DEPTH)
    return max(1, math.ceil(k / NUM_PASSAGES))


def _cost_of(key: Any) -> int:
    return cost(key[1].k, key[1].rerank)


def _key(*parts: object) -> bytes:
    """A short key for a request: its filters alone may fill a whole body."""
    return hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _looked(_: Any, work: Sequence[Callable[[], bytes]]) -> list[bytes]:
    return [one() for one in work]


def _embed(key: Any, texts: Sequence[str]) -> list[tuple[np.ndarray, int]]:
    """Vector and number of tokens of each text, as a question or as a passage. The encoder uses all cores by itself."""
    encoder, side = key
    if side == "query":
        rows = encoder.encode_questions(texts)
    else:
        rows = encoder.encode_passages([("", one) for one in texts])
    return list(zip(rows, encoder.count_tokens(texts), strict=True))


async def engine(request: Request) -> Engine:
    """The engine of the server a request came to. Not a plain function: FastAPI would run that in another thread."""
    found: Engine = request.app.state.engine
    return found
