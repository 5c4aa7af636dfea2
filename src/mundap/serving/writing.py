"""Changes to an index, by a process of their own.

Reading a PDF takes a core, and a hostile one may take it for ever. Beside the server's own process that hurts
nobody, and it can be ended. The two speak in lines of JSON: one with the job, then any number with the progress, then
one with the report or the error. As any writer, this one commits by a rename: what was reported is on the disk.
"""

import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mundap import errors
from mundap.errors import IndexLocked, MundapError
from mundap.serving.problems import Busy, TooSlow

_LOCK_SECONDS = 30.0
_PROGRESS_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Job:
    """A change to an index.

    Attributes:
        index: Its folder.
        files: (path, id, source) of what is to be put in.
        delete: The id of a document to take out.
        folder: Where the files are; it is removed when the change is done.
    """

    index: str
    files: tuple[tuple[str, str, str], ...] = ()
    delete: str = ""
    folder: str = ""


class Writing:
    """The writer's process as the server sees it: one change after another.

    Args:
        waiting: How many changes may wait.
        seconds: How long one may take.
    """

    def __init__(self, waiting: int, seconds: float) -> None:
        self._most = waiting
        self._seconds = seconds
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._process: asyncio.subprocess.Process | None = None

    def check(self) -> None:
        """Make sure that one more change can wait.

        Raises:
            Busy: Too many are waiting.
        """
        if len(self._tasks) > self._most:
            raise Busy(f"{self._most} changes are waiting already. Try again in a moment.")

    async def run(self, job: Job) -> AsyncIterator[dict[str, Any]]:
        """Do it; yields the progress, and at last the report. It is done even if nobody waits for that.

        Raises:
            MundapError: It could not be done.
        """
        self.check()
        told: asyncio.Queue[dict[str, Any] | MundapError | None] = asyncio.Queue()
        task = asyncio.create_task(self._do(job, told))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        while (line := await told.get()) is not None:
            if isinstance(line, MundapError):
                raise line
            yield line

    async def close(self) -> None:
        """Finish all changes and end the process."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            await self._process.wait()

    async def _do(self, job: Job, told: "asyncio.Queue[Any]") -> None:
        try:
            if self._turn.locked():
                told.put_nowait({"stage": "waiting", "done": 0, "total": 0})
            async with self._turn, asyncio.timeout(self._seconds):
                await self._until_unlocked(job, told)
        except TimeoutError:
            await self._kill()
            told.put_nowait(TooSlow(f"the change took longer than {self._seconds:g} seconds and was given up"))
        except MundapError as error:
            told.put_nowait(error)
        finally:
            told.put_nowait(None)
            if job.folder:
                await asyncio.to_thread(shutil.rmtree, job.folder, ignore_errors=True)

    async def _until_unlocked(self, job: Job, told: "asyncio.Queue[Any]") -> None:
        """Another program may be writing: wait for it, but not for ever."""
        until = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                return await self._once(job, told)
            except IndexLocked:
                if time.monotonic() > until:
                    raise
                told.put_nowait({"stage": "waiting", "done": 0, "total": 0})
                await asyncio.sleep(0.5)

    async def _once(self, job: Job, told: "asyncio.Queue[Any]") -> None:
        process = await self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(asdict(job)).encode() + b"\n")
        while True:
            line = await process.stdout.readline()
            if not line:
                await self._kill()
                # It may have died after its commit, and before it could say so.
                raise MundapError("the writing process ended before it reported success. The change was made "
                                  "as a whole or not at all: it is safe to try again.")  # fmt: skip
            said = json.loads(line)
            if error := said.get("error"):
                kind = getattr(errors, error["kind"], MundapError)
                raise kind(error["message"])
            told.put_nowait(said)
            if "stage" not in said:
                return

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "mundap.serving.writing",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=64 << 20,  # a report names up to a thousand things that were skipped
                start_new_session=True,  # Ctrl-C is for the server, which lets this one finish
            )
        return self._process

    async def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        self._process = None


def _main() -> None:
    """The writer's process: jobs from standard input until it ends."""
    if hasattr(os, "nice"):
        os.nice(5)  # questions come first
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not get between the lines

    def tell(value: dict[str, Any]) -> None:
        lines.write(json.dumps(value) + "\n")
        lines.flush()

    for line in sys.stdin:
        given = json.loads(line)
        try:
            tell(_done(Job(given["index"], tuple(map(tuple, given["files"])), given["delete"]), tell))
        except MundapError as error:
            tell({"error": {"kind": type(error).__name__, "message": str(error)}})
        except Exception as error:  # a parser's, or the disk's: whatever it is, the next job is not to suffer
            reason = f"the change failed ({type(error).__name__}). Nothing was changed."
            tell({"error": {"kind": "MundapError", "message": reason}})


def _done(job: Job, tell: Any) -> dict[str, Any]:
    from mundap.documents import SourceFile
    from mundap.index import build
    from mundap.index.ingest import Progress

    if job.delete:
        report = build.delete(Path(job.index), [job.delete])
    else:
        last = 0.0

        def watch(now: Progress) -> None:
            nonlocal last
            if time.monotonic() - last >= _PROGRESS_SECONDS:
                last = time.monotonic()
                tell({"stage": "indexing", "done": now.bytes, "total": now.total})

        files = [SourceFile(Path(path), name, source) for path, name, source in job.files]
        report = build.put(files, Path(job.index), watch)
    return report.as_dict()


if __name__ == "__main__":
    _main()
