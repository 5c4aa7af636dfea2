"""Files of training examples, of any size: an example is read when it is needed."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mundap.disk import write_atomic
from mundap.errors import MundapError
from mundap.questions import match_for
from mundap.records import Context, Example, Skipped
from mundap.text.answers import Mode
from mundap.training import formats
from mundap.training.recipe import DataSet

Rows = Iterable[Example | Skipped]

_LOOKED_AT = 200  # examples that tell how answers are to be looked for


class ExampleFile:
    """Examples by number, of which only the places are in memory.

    Args:
        data: The file.
        scratch: Where a file that cannot be read by number (a JSON array, a compressed file) is rewritten.
        rows: What is in a file that has no examples but can be read as such.
    """

    def __init__(self, data: DataSet, scratch: Path, rows: Callable[[], Rows] | None = None) -> None:
        self.label = data.label
        self.weight = data.weight
        self.left_out: Counter[str] = Counter()  # rows, by what is wrong with them
        self.answered = 0  # rows with an answer
        self._path = Path(data.path)
        if rows or formats.detect(data.path) not in ("dpr-jsonl", "tevatron") or _is_packed(self._path):
            self._path = self._rewrite(data, scratch, rows or (lambda: formats.read_examples(data.path)))
        self._places = self._scan()
        if not len(self._places):
            why = "".join(f": {reason} ({count:,} rows)" for reason, count in self.left_out.most_common(1))
            raise MundapError(f"{data.path}: there is no example in it to train on{why or ': it is empty'}.")
        self.match: Mode = data.match if data.match != "auto" else self._suggested()

    def _suggested(self) -> Mode:
        first = (self[number] for number in range(min(_LOOKED_AT, len(self))))
        return match_for([answer for one in first for answer in one.question.answers])

    def _scan(self) -> np.ndarray:
        """The first byte of every row that can be trained on."""
        places, answering, start = [], [], 0
        with self._path.open("rb") as file:
            for line in file:
                if line.strip():
                    found = _example(line, 0)
                    if isinstance(found, Example):
                        places.append((start, len(line)))
                        answering.append(_fingerprints(found.positives[0]))
                        self.answered += bool(found.question.answers)
                    else:
                        self.left_out[found.reason] += 1
                start += len(line)
        self.answering = np.array(answering, np.int64).reshape(-1, 2)  # which have the same passage, the same article
        return np.array(places, np.int64).reshape(-1, 2)

    def _rewrite(self, data: DataSet, scratch: Path, rows: Callable[[], Rows]) -> Path:
        """A file with an example a line, made once for what the file is now, and what was left out on the way."""
        stamp = hashlib.sha256(f"{Path(data.path).resolve()} {_stamp(data.path)}".encode()).hexdigest()
        path = scratch / f"{data.label}-{stamp[:8]}.jsonl"
        known = path.with_suffix(".left-out.json")
        if not path.exists():
            with formats.writing(path, "dpr-jsonl") as write:
                for found in rows():
                    if isinstance(found, Example):
                        write(found)
                    else:
                        self.left_out[found.reason] += 1
                write_atomic(known, json.dumps(self.left_out).encode())
        elif known.exists():
            self.left_out.update(json.loads(known.read_text("utf-8")))
        return path

    @cached_property
    def _file(self) -> Any:
        return self._path.open("rb")

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, number: int) -> Example:
        start, length = self._places[number].tolist()
        # Not by a position that is shared: batches are prepared by a thread of their own.
        found = _example(os.pread(self._file.fileno(), length, start), number)
        assert isinstance(found, Example)
        return found

    def size(self, number: int) -> int:
        """Roughly how long an example is, without reading it."""
        return int(self._places[number, 1])


def _example(line: bytes, number: int) -> Example | Skipped:
    try:
        return formats.example(json.loads(line), number, "")
    except (ValueError, RecursionError):
        return Skipped("", "not JSON")


def _fingerprints(passage: Context) -> tuple[int, int]:
    """Of a passage and of its article; a passage without a title is an article of its own."""
    whole = f"{passage.title}\n{passage.text}"
    first, second = (
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for text in (whole, passage.title or whole)
    )
    return int.from_bytes(first, "big", signed=True), int.from_bytes(second, "big", signed=True)


def _is_packed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{"


def size_of(path: str) -> int:
    """The bytes of a file, or of all files in a folder."""
    return sum(size for _, size, _ in _stamp(path))


def _stamp(path: str) -> list[tuple[str, int, int]]:
    """Name, size and time of change of a file, or of each in a folder: other ones mean that it has other content."""
    whole = Path(path)
    files = sorted(one for one in whole.rglob("*") if one.is_file()) if whole.is_dir() else [whole]
    return [(one.name, one.stat().st_size, one.stat().st_mtime_ns) for one in files]
