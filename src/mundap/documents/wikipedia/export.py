"""Export dumps to one file of passages, in the format of psgs_w100. A killed run resumes where it was."""

import gzip
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from mundap.disk import apart, disk_errors, sync_folder, write_atomic
from mundap.documents.files import STREAM_ERRORS, SourceFile, explain
from mundap.documents.walk import find
from mundap.documents.wikipedia import is_index
from mundap.documents.wikipedia.articles import Style
from mundap.documents.wikipedia.dump import chunks, head
from mundap.documents.wikipedia.passages import Cut
from mundap.documents.wikipedia.work import Task, run
from mundap.errors import MundapError, UsageError
from mundap.records import Skipped, Skipping
from mundap.version import __version__

_HEADER = b"id\ttext\ttitle\n"
_CHECKPOINT_SECONDS = 5.0


@dataclass(slots=True)
class _Report(Skipping):
    """The result of an export.

    Attributes:
        counts: See `Found`.
        passages: How many were written.
        resumed: Whether an earlier run had begun it.
        seconds: How long this run took.
        rate: Pages a second in this run.
    """

    counts: Counter[str] = field(default_factory=Counter)
    passages: int = 0
    resumed: bool = False
    seconds: float = 0.0
    rate: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The report as `--json` prints it."""
        return {
            **{kind.replace(" ", "_"): self.counts[kind] for kind in KINDS},
            "passages": self.passages,
            "resumed": self.resumed,
            "seconds": round(self.seconds, 3),
            "pages_per_second": round(self.rate, 1),
            **self.skipped_as_dict(),
        }


KINDS = ("pages", "articles", "redirects", "disambiguation", "other namespaces", "empty")
"""What pages are counted as."""

Watcher = Callable[[int, int, int], None]
"""Told the pages of this run, and how many bytes have been read of how many."""


def export(
    paths: Sequence[str | Path],
    out: Path,
    style: Style | None = None,
    cut: Cut | None = None,
    watch: Watcher | None = None,
    processes: int | None = None,
) -> _Report:
    """Write the passages of dumps to a file, which appears when all are written.

    Until then they are in `OUT.part`; `OUT.part.json` says how far it is. The same call goes on from there.

    Args:
        paths: Dumps, and folders with dumps in them.
        out: The file to write; a name that ends in .gz is compressed.
        style: How articles are written.
        cut: How they are cut.
        watch: Called after every chunk.
        processes: How many; by default one per core. The result is the same.

    Raises:
        MundapError: There is no dump, no article, or no room.
    """
    if out.is_dir() or (out.exists() and not out.is_file()):
        raise UsageError(f"{out} is not a file. Choose a name such as psgs.tsv.")
    started = time.monotonic()
    dumps, unread = _dumps(paths)
    apart(out, *(file.path for file, _ in dumps))
    with disk_errors(out), _alone(out):
        job = _Job(out, dumps, style or Style(), cut or Cut())
        if not job.report.resumed:
            for skipped in unread:
                job.report.skip(skipped)
        job.run(watch or (lambda pages, done, total: None), processes)
    job.report.seconds = time.monotonic() - started
    job.report.rate = job.pages / max(job.report.seconds, 1e-9)
    return job.report


def _dumps(paths: Sequence[str | Path]) -> tuple[list[tuple[SourceFile, str]], list[Skipped]]:
    """The dumps there are, with their beginnings, and what is none."""
    dumps: list[tuple[SourceFile, str]] = []
    unread: list[Skipped] = []
    for file in find(paths, Path.cwd()):
        if isinstance(file, Skipped):
            unread.append(file)
        elif not is_index(file.path.name):
            try:
                start = head(file)
                if start:
                    dumps.append((file, start))
                else:
                    unread.append(Skipped(file.source, "not a Wikipedia dump: no <mediawiki> at its beginning"))
            except STREAM_ERRORS as error:
                unread.append(Skipped(file.source, explain(error)))
    if not dumps:
        reasons = "; ".join(f"{one.source}: {one.reason}" for one in unread[:3])
        raise MundapError(
            f"no Wikipedia dump to read{reasons and f': {reasons}'}. Give files named *-pages-articles*.xml.bz2."
        )
    return dumps, unread


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    lock = FileLock(_beside(out, ".part.lock"))
    try:
        lock.acquire(blocking=False)
    except Timeout:
        raise MundapError(f"another process is writing {out}. Wait for it, or write to another file.") from None
    try:
        yield
    finally:
        lock.release()
        Path(lock.lock_file).unlink(missing_ok=True)


def _beside(out: Path, suffix: str) -> Path:
    return out.with_name(out.name + suffix)


class _Job:
    """One run: takes up an earlier one if it was for the same files and options, and keeps notes for a later one."""

    def __init__(self, out: Path, dumps: list[tuple[SourceFile, str]], style: Style, cut: Cut) -> None:
        self.out = out
        self.part = _beside(out, ".part")
        self.notes = _beside(out, ".part.json")
        self.dumps = dumps
        self.style = style
        self.cut = cut
        self.sizes = [file.path.stat().st_size for file, _ in dumps]
        self.key = {
            "version": __version__,
            "files": [[str(file.path), file.path.stat().st_size, file.path.stat().st_mtime_ns] for file, _ in dumps],
            "style": asdict(style),
            "cut": asdict(cut),
        }
        self.report = _Report()
        self.pages = 0  # of this run alone
        self.file = self.position = self.written = 0
        self._take_up()

    def _take_up(self) -> None:
        try:
            notes = json.loads(self.notes.read_bytes())
            if notes["job"] != self.key or self.part.stat().st_size < notes["written"]:
                return
            self.file, self.position, self.written = notes["file"], notes["position"], notes["written"]
            skipped = [Skipped(*one) for one in notes["skipped"]]
            self.report = _Report(
                Counter(notes["counts"]),
                notes["passages"],
                resumed=True,
                skipped=skipped,
                skipped_count=notes["skipped_count"],
            )
        except (OSError, ValueError, KeyError, TypeError):  # no notes, or none that can be used: begin anew
            return

    def run(self, watch: Watcher, processes: int | None) -> None:
        """Do what is left, and put the result in its place."""
        with self.part.open("r+b" if self.report.resumed else "wb") as part:
            part.truncate(self.written)
            part.seek(self.written)
            if not self.written:
                self._write(part, _HEADER)
            saved = time.monotonic()
            for number in range(self.file, len(self.dumps)):
                self.file = number
                before = sum(self.sizes[:number])
                for read in self._one(part, processes):
                    watch(self.pages, before + read, sum(self.sizes))
                    if time.monotonic() - saved >= _CHECKPOINT_SECONDS:
                        self._save(part)
                        saved = time.monotonic()
                self.position = 0
            if not self.report.passages:
                raise self._nothing()
            part.flush()
            os.fsync(part.fileno())
        self.part.replace(self.out)
        sync_folder(self.out.parent)
        self.notes.unlink(missing_ok=True)

    def _one(self, part: IO[bytes], processes: int | None) -> Iterator[int]:
        """Write the passages of one dump; yields how much of it has been read."""
        file, start = self.dumps[self.file]
        tasks = (
            Task(str(file.path), file.source, start, chunk, self.style, self.cut)
            for chunk in chunks(file, self.position)
        )
        for result in run(tasks, processes):
            first = self.report.passages + 1
            self._write(part, b"".join(b"%d\t%s\n" % row for row in enumerate(result.lines, first)))
            self.report.passages += len(result.lines)
            self.report.counts += result.found.counts
            self.pages += result.found.counts["pages"]
            for skipped in result.found.skipped:
                self.report.skip(skipped)
            self.position = result.task.chunk.end
            yield result.task.chunk.read

    def _write(self, part: IO[bytes], data: bytes) -> None:
        if data and self.out.suffix == ".gz":
            data = gzip.compress(data, mtime=0)  # a member of its own, so that a run can go on behind it
        part.write(data)
        self.written += len(data)

    def _save(self, part: IO[bytes]) -> None:
        part.flush()
        os.fsync(part.fileno())
        notes = {
            "job": self.key,
            "file": self.file,
            "position": self.position,
            "written": self.written,
            "passages": self.report.passages,
            "counts": self.report.counts,
            "skipped": [[one.source, one.reason] for one in self.report.skipped],
            "skipped_count": self.report.skipped_count,
        }
        write_atomic(self.notes, json.dumps(notes).encode())

    def _nothing(self) -> MundapError:
        self.part.unlink(missing_ok=True)
        self.notes.unlink(missing_ok=True)
        reasons = "; ".join(f"{one.source}: {one.reason}" for one in self.report.skipped[:3])
        counted = ", ".join(f"{number:,} {kind}" for kind, number in self.report.counts.items()) or "no pages"
        return MundapError(f"no article in it: {counted}. {reasons}".rstrip())
