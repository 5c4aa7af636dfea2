"""Files of training examples, of any size, by number.

A file that fits into memory is parsed once. Of a larger one only the places of its rows are kept, and an example is
read when it is drawn.
"""

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mundap.datasets import examples
from mundap.datasets.detect import detect
from mundap.datasets.queries import match_for
from mundap.disk import write_atomic
from mundap.errors import MundapError
from mundap.records import Context, Example, Skipped
from mundap.text.answers import Mode
from mundap.training.recipe import DataSet

Rows = Iterable[Example | Skipped]

_LOOKED_AT = 200  # examples that tell how answers are to be matched
_IN_MEMORY = 256 << 20  # bytes of a file whose examples are kept


class ExampleFile:
    """Training examples by number.

    Args:
        data: The file, and how much of it is used.
        scratch: Where a file that cannot be read by number (a JSON array, a compressed file) is rewritten.
        rows: Reads the rows of a file that is not in one of the formats for training examples.

    Attributes:
        label: Its name in logs.
        weight: How often each example is seen in an epoch.
        left_out: The number of rows that cannot be used, by reason.
        answered: The number of rows with an answer.
        positive_keys: For each example a key of its positive passage and one of that passage's article.
        match: How its answers are matched.
    """

    def __init__(self, data: DataSet, scratch: Path, rows: Callable[[], Rows] | None = None) -> None:
        self.label = data.label
        self.weight = data.weight
        self.left_out: Counter[str] = Counter()
        self.answered = 0
        self._lock = threading.Lock()
        self._path = Path(data.path)
        if rows or detect(data.path).examples not in ("dpr-jsonl", "tevatron") or _is_packed(self._path):
            self._path = self._rewrite(data, scratch, rows or (lambda: examples.read_examples(data.path)))
        self._parsed: list[Example] | None = None
        if self._path.stat().st_size <= _IN_MEMORY:
            self._parsed = []
        self._places, self.positive_keys, self._lengths = self._scan()
        if not len(self._places):
            why = ": it is empty"
            for reason, count in self.left_out.most_common(1):
                why = f": {reason} ({count:,} rows)"
            raise MundapError(f"{data.path}: there is no example in it to train on{why}.")
        if 0 < data.max_examples < len(self._places):
            self._keep(np.random.default_rng(data.sample_seed).permutation(len(self._places))[: data.max_examples])
        self.match: Mode
        if data.match == "auto":
            self.match = self._suggested()
        else:
            self.match = data.match

    def _suggested(self) -> Mode:
        answers: list[str] = []
        for number in range(min(_LOOKED_AT, len(self))):
            answers += self[number].question.answers
        return match_for(answers)

    def _scan(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(first byte, length) of every row that can be trained on, the keys of its positive, and its length."""
        places: list[tuple[int, int]] = []
        keys: list[tuple[int, int]] = []
        lengths: list[int] = []
        start = 0
        with self._path.open("rb") as file:
            for line in file:
                place = (start, len(line))
                start += len(line)
                if not line.strip():
                    continue
                found = _example(line, len(places))
                if isinstance(found, Skipped):
                    self.left_out[found.reason] += 1
                    continue
                places.append(place)
                keys.append(_fingerprints(found.positives[0]))
                lengths.append(_length(found))
                self.answered += bool(found.question.answers)
                if self._parsed is not None:
                    self._parsed.append(found)
        numbers = np.array(places, np.int64).reshape(-1, 2), np.array(keys, np.int64).reshape(-1, 2)
        return *numbers, np.array(lengths, np.int64)

    def _keep(self, rows: np.ndarray) -> None:
        """Use these rows alone."""
        rows = np.sort(rows)
        self._places, self.positive_keys = self._places[rows], self.positive_keys[rows]
        self._lengths = self._lengths[rows]
        if self._parsed is not None:
            self._parsed = [self._parsed[row] for row in rows.tolist()]
        self.answered = sum(bool(self[number].question.answers) for number in range(len(rows)))

    def _rewrite(self, data: DataSet, scratch: Path, rows: Callable[[], Rows]) -> Path:
        """Write one example per line into a file of its own, once for each state of the original."""
        stamp = hashlib.sha256(f"{Path(data.path).resolve()} {_stamp(data.path)}".encode()).hexdigest()
        path = scratch / f"{data.label}-{stamp[:8]}.jsonl"
        known = path.with_suffix(".left-out.json")
        if not path.exists():
            with examples.writing(path, "dpr-jsonl") as write:
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
        if self._parsed is not None:
            return self._parsed[number]
        start, length = self._places[number].tolist()
        with self._lock:  # batches are prepared in a thread of their own
            self._file.seek(start)
            line = self._file.read(length)
        found = _example(line, number)
        assert isinstance(found, Example)
        return found

    def size(self, number: int) -> int:
        """How long the question and its positive are, in characters."""
        return int(self._lengths[number])


def _example(line: bytes, number: int) -> Example | Skipped:
    try:
        return examples.example(json.loads(line), number, "")
    except (ValueError, RecursionError):
        return Skipped("", "not JSON")


def _fingerprints(passage: Context) -> tuple[int, int]:
    """Keys of a passage and of its article; a passage without a title is an article of its own."""
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
    """Name, size and modification time of a file, or of each file in a folder: when they change, so did the content."""
    files = [Path(path)]
    if files[0].is_dir():
        files = sorted(one for one in files[0].rglob("*") if one.is_file())
    return [(one.name, one.stat().st_size, one.stat().st_mtime_ns) for one in files]


def _length(example: Example) -> int:
    positive = example.positives[0]
    return len(example.question.text) + len(positive.title) + len(positive.text)
