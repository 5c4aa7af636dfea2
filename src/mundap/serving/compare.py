"""Rankings side by side: of one question (`/v1/rankings`) and of a file of questions (`/v1/compare`)."""

import asyncio
import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Event, Lock
from typing import Annotated, Any

from fastapi import APIRouter, File, Form, Response, UploadFile
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict

from mundap.disk import json_bytes
from mundap.errors import MundapError, UsageError
from mundap.index.index import Index
from mundap.index.modes import Mode
from mundap.serving import schema
from mundap.serving.ask import JSON, ThisEngine, WhichIndex
from mundap.serving.problems import Busy, TooLarge, failure, status_of

DEPTH = 100
"""How far down a passage is looked for in the other rankings."""

MAX_QUESTIONS = 2000
QUESTION_BYTES = 4 << 20
RUN_BYTES = 12 << 20
CUTS = (1, 5, 20)
SECONDS = 300.0
"""How long a comparison may take."""

_MOST_CASES = 500
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")
_NDJSON = "application/x-ndjson"
_BUSY = "another comparison is running. Try again when it is done."
_turn = Lock()  # one comparison at a time, and one thread for explanations: the cores are for those who ask
_explaining = ThreadPoolExecutor(1, "explain")

router = APIRouter(prefix="/v1", tags=["comparison"])

Tell = Callable[[dict[str, Any]], None]
"""Takes one line of the answer."""


class RankingsBody(BaseModel):
    """A question for every ranking of an index."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: schema.Text
    k: schema.K = 10
    filters: schema.FilterBody | None = None
    index: schema.Name | None = None


@router.post("/rankings", responses=schema.failures(404, 422))
async def rankings(body: RankingsBody, engine: ThisEngine, index: WhichIndex = None) -> Response:
    """What each ranking finds for a question, and why.

    Each hit has its `places` and `scores` in all rankings (null below the first `depth`), where the question's `words`
    stand in its title and text, and one word for each of the question's `terms` that it shares.
    """
    snapshot = engine.indexes.get(body.index if body.index is not None else index).index()
    depth = max(body.k, min(DEPTH, engine.settings.limits.k))
    asked = {**body.model_dump(exclude_none=True), "k": depth}
    bodies = [schema.SearchBody.model_validate({**asked, "mode": mode}) for mode in snapshot.modes]
    found = await asyncio.gather(*(engine.search(one, index) for one in bodies))
    hits: dict[str, Any] = {mode: json.loads(one)["hits"] for mode, one in zip(snapshot.modes, found, strict=True)}
    work = asyncio.get_running_loop().run_in_executor(
        _explaining, _explained, snapshot, body.question, body.k, depth, hits
    )
    return Response(await work, media_type=JSON)


def _explained(index: Index, question: str, k: int, depth: int, hits: dict[str, list[dict[str, Any]]]) -> bytes:
    by_id = {mode: {hit["passage"]["id"]: hit for hit in found} for mode, found in hits.items()}
    analyzer = index.analyzer

    @cache  # a passage is in several rankings
    def why(title: str, text: str) -> dict[str, Any]:
        words: dict[str, list[tuple[int, int]]] = {}
        written: dict[str, str] = {}
        for name, part in (("title", title), ("text", text)):
            shared = analyzer.shared(part, question)
            words[name] = [(match.start, match.end) for match in shared]
            for match in shared:
                for term in match.terms:
                    written.setdefault(term, part[match.start : match.end])
        return {"words": words, "shared": list(written.values())}

    def row(hit: dict[str, Any]) -> dict[str, Any]:
        passage = hit["passage"]
        known = {mode: found.get(passage["id"]) for mode, found in by_id.items()}
        return {
            "rank": hit["rank"],
            "score": hit["score"],
            "passage": passage,
            "places": {mode: one and one["rank"] for mode, one in known.items()},
            "scores": {mode: one and one["score"] for mode, one in known.items()},
            **why(passage["title"], passage["text"]),
        }

    modes = {mode: [row(hit) for hit in found[:k]] for mode, found in hits.items()}
    return json_bytes(
        {"query": question, "terms": len(analyzer.question_terms(question)), "depth": depth, "modes": modes}
    )


@router.post(
    "/compare",
    responses={200: {"content": {_NDJSON: {}}, "description": "Lines of JSON"}, **schema.failures(404, 422)},
    response_class=StreamingResponse,
)
async def compare(
    engine: ThisEngine,
    questions: Annotated[UploadFile, File(description="Questions with their answers.")],
    modes: Annotated[list[Mode] | None, Form(description="Two rankings of the index.")] = None,
    runs: Annotated[list[UploadFile] | None, File(description="Or two files of results.")] = None,
    k: Annotated[int, Form(ge=1, le=20, description="Within how many passages a question must be answered.")] = 5,
    index: WhichIndex = None,
) -> StreamingResponse:
    """Compare two rankings, or two files of results, on a file of questions.

    The answer is lines of JSON: `{"stage", "done", "total"}` while it works, at the end one with the `result`, or with
    the `error`. The result is what `mundap compare --json` prints, with at most 500 of the questions that changed.
    """
    files = [questions, *(runs or [])]
    if len(set(modes or [])) + len(runs or []) != 2 or (modes and runs):
        raise UsageError("give two different modes, or two runs")
    for file, most in zip(files, (QUESTION_BYTES, RUN_BYTES, RUN_BYTES), strict=False):
        await _check(file, most)
    snapshot = engine.indexes.get(index).index()
    if _turn.locked():
        raise Busy(_BUSY)

    def work(tell: Tell, stopped: Event) -> None:
        if not _turn.acquire(blocking=False):
            raise Busy(_BUSY)
        try:
            with tempfile.TemporaryDirectory(prefix="mundap-") as folder:
                tell({"result": _compared(snapshot, Path(folder), files, modes or [], k, tell, stopped)})
        finally:
            _turn.release()

    return StreamingResponse(_lines(work, engine.indexes.public), media_type=_NDJSON)


async def _check(file: UploadFile, most: int) -> None:
    """A file that is small enough, and not compressed: nobody knows how much that would become."""
    if (file.size or 0) > most:
        raise TooLarge(f"{file.filename}: larger than {most >> 20} MB. Compare it with the command `mundap compare`.")
    head = await file.read(8)
    await file.seek(0)
    if head.startswith(_PACKED):
        raise UsageError(f"{file.filename}: compressed. Send it as it was before.")


def _compared(
    index: Index, folder: Path, files: list[UploadFile], modes: list[Any], k: int, tell: Tell, stopped: Event
) -> dict[str, Any]:
    from mundap.datasets import queries
    from mundap.evaluation.compare import comparison
    from mundap.evaluation.retrieval import RetrievalTask, measure

    paths = [str(folder / name) for name in ("questions", "first", "second")[: len(files)]]
    for path, file in zip(paths, files, strict=True):
        with Path(path).open("wb") as target:
            shutil.copyfileobj(file.file, target)
    cuts = tuple(sorted({*CUTS, k}))
    until = time.monotonic() + SECONDS

    def counted(items: Iterable[Any], what: str, total: int) -> Iterator[Any]:
        for done, item in enumerate(items, 1):
            if stopped.is_set():
                raise _Stopped
            if time.monotonic() > until:
                raise UsageError(f"it took more than {SECONDS:.0f} seconds. Use fewer questions.")
            if done % 16 == 0 or done == total:
                tell({"stage": what, "done": done, "total": total})
            yield item

    try:
        asked, _ = queries.read_all(paths[0])
        if len(asked) > MAX_QUESTIONS:
            raise UsageError(f"{len(asked):,} questions; the limit is {MAX_QUESTIONS:,}")
        match = queries.choose_match(paths[0])
        if match == "regex":  # a pattern can be made to take for ever
            raise UsageError("the answers are regular expressions. Use the command `mundap evaluate retrieval`.")
        task = RetrievalTask(
            index, paths[0], modes=tuple(modes), runs=tuple(paths[1:]), cuts=cuts, match=match, gold=False
        )
        measured = measure(task, counted)
        tell({"stage": "significance", "done": 0, "total": 0})
        found = comparison(measured.systems, cuts, k, measured.differences)
    except MundapError as error:
        # What is wrong with the files is the client's to repair. Where we keep them is not: that says nothing to it.
        kind = type(error)
        if kind is MundapError:
            kind = UsageError
        raise kind(str(error).replace(f"{folder}/", "")) from error
    changed = found["changed"]
    facts = {"match": match, "notes": measured.notes, "changed_count": len(changed)}
    return {**found, "changed": changed[:_MOST_CASES], **facts}


class _Stopped(Exception):
    """Nobody waits for the rest any more."""


async def _lines(work: Callable[[Tell, Event], None], public: Callable[[MundapError], str]) -> AsyncIterator[bytes]:
    """What a thread tells, as lines of JSON. It is asked to stop when the client goes away."""
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
    stopped = Event()

    def tell(line: dict[str, Any] | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone, and with it whoever waited
            loop.call_soon_threadsafe(lines.put_nowait, line)

    def run() -> None:
        try:
            work(tell, stopped)
        except _Stopped:
            pass
        except MundapError as error:
            tell(failure(public(error), status_of(error)))
        except Exception:
            tell(failure("the comparison failed: see the server's log", 500))
            raise
        finally:
            tell(None)

    task = asyncio.create_task(asyncio.to_thread(run))
    try:
        while (line := await lines.get()) is not None:
            yield json_bytes(line) + b"\n"
        await task
    finally:
        stopped.set()
