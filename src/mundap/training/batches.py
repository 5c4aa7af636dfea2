"""Examples into batches of tokens. A batch is a matter of the whole run: each process takes its part of it."""

import hashlib
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mundap.documents.split import Splitter
from mundap.records import Context, Example
from mundap.text.answers import Mode, has_answer
from mundap.training.examples import ExampleFile
from mundap.training.recipe import Recipe
from mundap.training.stream import Stream

_TOGETHER = 512  # texts given to the tokenizer


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
        columns = _Columns(self._recipe.in_batch)
        targets = np.zeros(len(examples), np.int64)
        mine: range = range(0)
        led: set[tuple[str, str]] = set()
        for rank in range(self._world):
            rows = range(rank * share, (rank + 1) * share)
            begin = columns.next_process()
            for row in rows:
                targets[row] = columns.place(examples[row].positives[0], row)
            for row in rows:
                positive = examples[row].positives[0]
                if self._together == 1 or (positive.title, positive.text) not in led:
                    led.add((positive.title, positive.text))
                    for negative in chosen[row]:
                        columns.place(negative, row)
            if rank == self._rank:
                mine = range(begin, len(columns.passages))
        own = range(self._rank * share, (self._rank + 1) * share)
        passages, matches = columns.passages, [self._sets[a].match for a, _ in places]
        cut = [self._tokenize.chunks(passage.text) for passage in passages]
        return Batch(
            self._tokenize.questions([examples[row].question.text for row in own]),
            self._tokenize.passages([(passages[n].title, text) for n in mine for text in cut[n]]),
            np.repeat(np.arange(len(passages)), list(map(len, cut))),
            targets,
            left_out(examples, passages, columns.owners, targets, self._recipe, matches),
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


class _Columns:
    """All passages of a whole batch, in the order the processes hold them.

    Args:
        shared: Whether one that several questions of a process have is encoded once.
    """

    def __init__(self, shared: bool) -> None:
        self.passages: list[Context] = []
        self.owners: list[int] = []
        self._shared = shared
        self._places: dict[tuple[str, str], int] = {}

    def next_process(self) -> int:
        """Where the passages of the next process begin."""
        self._places = {}
        return len(self.passages)

    def place(self, passage: Context, row: int) -> int:
        """The column of a question's passage."""
        key = passage.title, passage.text
        if not self._shared or key not in self._places:
            self._places[key] = len(self.passages)
            self.passages.append(passage)
            self.owners.append(row)
        return self._places[key]


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
