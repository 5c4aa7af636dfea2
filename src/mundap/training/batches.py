"""Examples into batches: the same ones, in the same order, for the same seed, from any step on.

A batch is a matter of the whole run, not of one process: each process takes its part of it.
"""

import hashlib
import json
import os
import queue
import random
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from mundap.documents.split import Splitter
from mundap.errors import MundapError
from mundap.questions import match_for
from mundap.records import Context, Example, Skipped
from mundap.text.answers import Mode, has_answer
from mundap.training import formats
from mundap.training.recipe import DataSet, Recipe, Run

B = TypeVar("B")

_AHEAD = 3  # batches prepared before they are needed
_LOOKED_AT = 200  # examples that tell how answers are to be looked for
_TOGETHER = 512  # texts given to the tokenizer
_WINDOW = 32  # batches among which lengths are sorted: enough to save padding, too few to bias anything


class ExampleFile:
    """Examples by number, of which only the places are in memory.

    Args:
        data: The file.
        scratch: Where a file that cannot be read by number (a JSON array, a compressed file) is rewritten.
    """

    def __init__(self, data: DataSet, scratch: Path) -> None:
        self.label = data.label
        self.weight = data.weight
        self.dropped = 0
        self._path = Path(data.path)
        if formats.detect(data.path) not in ("dpr-jsonl", "tevatron") or _is_packed(self._path):
            self._path = _as_lines(data, scratch)
        self._places = self._scan()
        if not len(self._places):
            raise MundapError(f"{data.path}: no usable example in it. `mundap data check` says why.")
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
                    else:
                        self.dropped += 1
                start += len(line)
        self.answering = np.array(answering, np.int64).reshape(-1, 2)  # which have the same passage, the same article
        return np.array(places, np.int64).reshape(-1, 2)

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


def rewritten(data: DataSet, scratch: Path) -> Path:
    """Where a file is rewritten: two files may have the same name."""
    whole = hashlib.sha256(str(Path(data.path).resolve()).encode()).hexdigest()
    return scratch / f"{data.label}-{whole[:8]}.jsonl"


def _as_lines(data: DataSet, scratch: Path) -> Path:
    path = rewritten(data, scratch)
    if not path.exists():
        with formats.writing(path, "dpr-jsonl") as write:
            for found in formats.read_examples(data.path):
                if isinstance(found, Example):
                    write(found)
    return path


@dataclass(frozen=True, slots=True)
class Batch:
    """The part of a batch that one process encodes, and what all must know of the whole.

    Attributes:
        questions: Token ids of this process's questions.
        passages: Token ids of this process's passages: its positives, then its negatives; of each all chunks.
        owners: For every chunk of the whole batch the number of its passage.
        targets: For every question of the whole batch the number of its positive among all passages.
        left_out: Questions x passages of the whole batch: True where a passage is no negative.
        epoch: Counted from 0.
        examples: Questions in the whole batch.
    """

    questions: list[list[int]]
    passages: list[list[int]]
    owners: np.ndarray
    targets: np.ndarray
    left_out: np.ndarray
    epoch: int
    examples: int


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


class Batches(Stream[Batch]):
    """All batches of a dual encoder's run.

    Args:
        sets: The training files.
        recipe: Sizes, negatives, lengths, seed.
        tokenize: Question and passage texts to token ids.
        rank: This process.
        world: How many there are.
    """

    def __init__(
        self, sets: Sequence[ExampleFile], recipe: Recipe, tokenize: Any, rank: int = 0, world: int = 1
    ) -> None:
        super().__init__(sets, recipe, rank, world)
        self._recipe = recipe
        self._together, self._neighbours = recipe.together, recipe.neighbours
        self._tokenize = tokenize

    def _batch(self, places: list[list[int]], epoch: int) -> Batch:
        examples = [self._sets[a][b] for a, b in places]
        chosen = [self._negatives(example, epoch, place) for example, place in zip(examples, places, strict=True)]
        share = len(examples) // self._world
        columns: list[Context] = []  # all passages of the whole batch, in the order the processes hold them
        owners: list[int] = []
        targets = np.zeros(len(examples), np.int64)
        mine: range = range(0)
        led: set[tuple[str, str]] = set()
        for rank in range(self._world):
            rows = range(rank * share, (rank + 1) * share)
            begin = len(columns)
            placed: dict[tuple[str, str], int] = {}

            def place(passage: Context, row: int, placed: dict[tuple[str, str], int] = placed) -> int:
                """The column of a passage. One that several questions of this process share is encoded once."""
                number = placed.get((passage.title, passage.text)) if self._recipe.in_batch else None
                if number is None:
                    number = placed[passage.title, passage.text] = len(columns)
                    columns.append(passage)
                    owners.append(row)
                return number

            for row in rows:
                targets[row] = place(examples[row].positives[0], row)
            for row in rows:
                positive = (examples[row].positives[0].title, examples[row].positives[0].text)
                if self._together == 1 or positive not in led:
                    led.add(positive)
                    for negative in chosen[row]:
                        place(negative, row)
            if rank == self._rank:
                mine = range(begin, len(columns))
        own = range(self._rank * share, (self._rank + 1) * share)
        cut = [self._tokenize.chunks(column.text) for column in columns]
        return Batch(
            self._tokenize.questions([examples[row].question.text for row in own]),
            self._tokenize.passages([(columns[n].title, text) for n in mine for text in cut[n]]),
            np.repeat(np.arange(len(columns)), list(map(len, cut))),
            targets,
            left_out(examples, columns, owners, targets, self._recipe, [self._sets[a].match for a, _ in places]),
            epoch,
            len(examples),
        )

    def _negatives(self, example: Example, epoch: int, place: list[int]) -> list[Context]:
        """Which negatives of an example are used this time."""
        chance = random.Random(f"{self._recipe.seed} {epoch} {place}")  # noqa: S311
        hard, others = list(example.hard), list(example.negatives)
        chance.shuffle(hard)
        chance.shuffle(others)
        return hard[: self._recipe.hard] + others[: self._recipe.random]


def left_out(
    examples: Sequence[Example],
    columns: Sequence[Context],
    owners: Sequence[int],
    targets: np.ndarray,
    recipe: Recipe,
    matches: Sequence[Mode],
) -> np.ndarray:
    """Which passages of a batch are no negatives of which questions.

    Without in-batch negatives: all but its own. With them: all but one of the copies that several processes have of a
    passage. With masking: any other passage that contains an answer.
    """
    rows = np.arange(len(examples))
    owned = np.array(owners)
    result = np.zeros((len(examples), len(columns)), bool)
    if recipe.in_batch:
        alike: dict[tuple[str, str], int] = {}
        firsts = np.array([alike.setdefault((one.title, one.text), number) for number, one in enumerate(columns)])
        result[:, firsts != np.arange(len(columns))] = True
        result |= firsts[None, :] == firsts[targets][:, None]
    else:
        result = owned[None, :] != rows[:, None]
    if recipe.mask:
        texts = [" ".join(column.text.split()) for column in columns]
        for row, example in enumerate(examples):
            right = {" ".join(one.text.split()) for one in example.positives}
            for column, text in enumerate(texts):
                if not result[row, column]:
                    result[row, column] = text in right or has_answer(text, example.question.answers, matches[row])
    result[rows, targets] = False
    return result


class Tokens:
    """Texts to token ids, cut to their lengths, as the run time does it."""

    def __init__(self, tokenizer: Any, recipe: Recipe) -> None:
        self._raw = tokenizer.backend_tokenizer
        self._raw.no_padding()
        self._lengths = recipe.question_length, recipe.passage_length
        self._splitter = Splitter(recipe.chunk_words, chunks=recipe.chunks) if recipe.chunks > 1 else None
        self.pad = int(tokenizer.pad_token_id or 0)
        self._raw.no_truncation()
        whole = f"{self._raw.to_str()} {self._lengths}"
        self.fingerprint = hashlib.sha256(whole.encode()).hexdigest()  # of all that turns a text into ids
        self._lock = threading.Lock()

    def questions(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of questions; only the right single quote is changed."""
        return self._encode([text.replace("\u2019", "'") for text in texts], self._lengths[0])

    def passages(self, pairs: Sequence[tuple[str, str]]) -> list[list[int]]:
        """Token ids of (title, text) pairs."""
        return self._encode([(title, text) if title else text for title, text in pairs], self._lengths[1])

    def chunks(self, text: str) -> list[str]:
        """The texts of which a passage's vectors are made; most often that is the passage itself."""
        spans = list(self._splitter.spans(text)) if self._splitter else []
        return [text[start:end] for start, end in spans] or [text]

    def _encode(self, texts: Sequence[Any], length: int) -> list[list[int]]:
        with self._lock:
            self._raw.enable_truncation(length, strategy="longest_first")
            # A few at a time: an encoding holds much besides its ids.
            parts = (list(texts[start : start + _TOGETHER]) for start in range(0, len(texts), _TOGETHER))
            return [encoding.ids for part in parts for encoding in self._raw.encode_batch(part)]
