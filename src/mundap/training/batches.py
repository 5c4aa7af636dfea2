"""Examples into batches of tokens for a dual encoder. A batch belongs to the whole run: each process takes its part."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mundap.mining.rule import Candidate, NegativeRule, negatives_in_batch
from mundap.records import Context, Example
from mundap.text.answers import Mode
from mundap.training.batch_loader import BatchLoader
from mundap.training.examples import ExampleFile
from mundap.training.recipe import RetrieverRecipe
from mundap.training.tokens import Tokens

_TRIES = 20  # draws for each gold negative


@dataclass(frozen=True, slots=True)
class Batch:
    """The part of a batch that one process encodes, and what all must know of the whole.

    Attributes:
        questions: Token ids of this process's questions.
        passages: Token ids of this process's passages: its positives, then its negatives; all chunks of each.
        owners: For every chunk of the whole batch the number of its passage.
        targets: For every question of the whole batch the number of its positive among all passages.
        excluded: Questions x passages of the whole batch: True where a passage is not a negative of the question.
        epoch: Counted from 0.
        examples: Questions in the whole batch.
    """

    questions: list[list[int]]
    passages: list[list[int]]
    owners: np.ndarray
    targets: np.ndarray
    excluded: np.ndarray
    epoch: int
    examples: int


class RetrieverBatches(BatchLoader[Batch]):
    """All batches of a dual encoder's run.

    Args:
        sets: The training files.
        recipe: Sizes, negatives, lengths, seed.
        tokens: Texts to token ids.
        rank: This process.
        world: How many there are.
    """

    def __init__(
        self, sets: Sequence[ExampleFile], recipe: RetrieverRecipe, tokens: Tokens, rank: int = 0, world: int = 1
    ) -> None:
        super().__init__(sets, recipe, rank, world)
        self._recipe = recipe
        self._per_passage, self._per_article = recipe.questions_per_passage, recipe.questions_per_article
        self._tokens = tokens

    def _collate(self, places: list[list[int]], epoch: int) -> Batch:
        examples = [self._sets[a][b] for a, b in places]
        negatives = [self._all_negatives(example, epoch, row, places) for row, example in enumerate(examples)]
        columns = _Columns(self._recipe.in_batch_negatives)
        targets = np.zeros(len(examples), np.int64)
        own_rows, own_columns = self._place_all(columns, examples, negatives, targets)
        cut = [self._tokens.chunks(passage.text) for passage in columns.passages]
        texts = []
        for number in own_columns:
            texts += [(columns.passages[number].title, text) for text in cut[number]]
        matches = [self._sets[a].match for a, _ in places]
        return Batch(
            questions=self._tokens.questions([examples[row].question.text for row in own_rows]),
            passages=self._tokens.passages(texts),
            owners=np.repeat(np.arange(len(cut)), [len(parts) for parts in cut]),
            targets=targets,
            excluded=excluded_mask(examples, columns.passages, columns.owners, targets, self._recipe, matches),
            epoch=epoch,
            examples=len(examples),
        )

    def _place_all(
        self,
        columns: "_Columns",
        examples: Sequence[Example],
        negatives: Sequence[Sequence[Context]],
        targets: np.ndarray,
    ) -> tuple[range, range]:
        """Give all passages their columns, process by process; gives the rows and columns of this process."""
        share = len(examples) // self._world
        own = range(0), range(0)
        for rank in range(self._world):
            rows = range(rank * share, (rank + 1) * share)
            placed = self._place(columns, rows, examples, negatives, targets)
            if rank == self._rank:
                own = rows, placed
        return own

    def _place(
        self,
        columns: "_Columns",
        rows: range,
        examples: Sequence[Example],
        negatives: Sequence[Sequence[Context]],
        targets: np.ndarray,
    ) -> range:
        """Give the passages of one process's questions their columns: the positives, then the negatives."""
        begin = columns.next_process()
        for row in rows:
            targets[row] = columns.place(examples[row].positives[0], row)
        for row in rows:
            # Of several questions on one passage, the first brings the negatives for all.
            if self._per_passage == 1 or columns.is_first_with(examples[row].positives[0]):
                for negative in negatives[row]:
                    columns.place(negative, row)
        return range(begin, len(columns.passages))

    def _all_negatives(self, example: Example, epoch: int, row: int, places: list[list[int]]) -> list[Context]:
        found = self._negatives(example, epoch, places[row])
        if self._recipe.gold_negatives:
            found = found + self._gold_negatives(example, epoch, places[row], places)
        return found

    def _negatives(self, example: Example, epoch: int, place: list[int]) -> list[Context]:
        """This epoch's negatives out of an example's own lists."""
        rng = random.Random(f"{self._recipe.seed} {epoch} {place}")  # noqa: S311
        hard, others = list(example.hard), list(example.negatives)
        rng.shuffle(hard)
        rng.shuffle(others)
        return hard[: self._recipe.hard_negatives] + others[: self._recipe.random_negatives]

    def _gold_negatives(
        self, example: Example, epoch: int, place: list[int], batch: Sequence[Sequence[int]]
    ) -> list[Context]:
        """Positives of other training questions, none of which is in the batch."""
        rng = random.Random(f"{self._recipe.seed} {epoch} {place} gold")  # noqa: S311
        rule = NegativeRule(example.question, example.positives, self._sets[place[0]].match)
        in_batch = {(a, b) for a, b in batch}
        drawn: set[str] = set()
        sizes = [len(one) for one in self._sets]
        found: list[Context] = []
        for _ in range(_TRIES * self._recipe.gold_negatives):
            if len(found) == self._recipe.gold_negatives:
                break
            number = rng.choices(range(len(sizes)), sizes)[0]
            row = rng.randrange(sizes[number])
            passage = self._sets[number][row].positives[0]
            if (number, row) in in_batch or passage.text in drawn or not rule.is_negative(Candidate(passage.text)):
                continue
            drawn.add(passage.text)
            found.append(passage)
        return found


class _Columns:
    """All passages of a whole batch, in the order in which the processes hold them.

    Args:
        shared: Whether a passage of several questions of a process is encoded once.
    """

    def __init__(self, shared: bool) -> None:
        self.passages: list[Context] = []
        self.owners: list[int] = []
        self._shared = shared
        self._places: dict[tuple[str, str], int] = {}
        self._led: set[tuple[str, str]] = set()

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

    def is_first_with(self, positive: Context) -> bool:
        """Whether no question before had this positive."""
        key = positive.title, positive.text
        if key in self._led:
            return False
        self._led.add(key)
        return True


def excluded_mask(
    examples: Sequence[Example],
    columns: Sequence[Context],
    owners: Sequence[int],
    targets: np.ndarray,
    recipe: RetrieverRecipe,
    matches: Sequence[Mode],
) -> np.ndarray:
    """Which passages of a batch are not negatives of which questions.

    Without in-batch negatives: all passages of other questions. With them: all but one of the copies that several
    processes have of a passage. With masking: any other passage that contains an answer.
    """
    rows = np.arange(len(examples))
    if recipe.in_batch_negatives:
        first_copy: dict[tuple[str, str], int] = {}
        firsts = np.array([first_copy.setdefault((one.title, one.text), n) for n, one in enumerate(columns)])
        copies = firsts != np.arange(len(columns))
        result = np.broadcast_to(copies, (len(examples), len(columns))).copy()
        result |= firsts[None, :] == firsts[targets][:, None]
    else:
        result = np.array(owners)[None, :] != rows[:, None]
    if recipe.mask_false_negatives:
        result = ~negatives_in_batch(examples, columns, matches, ~result)
    result[rows, targets] = False
    return result
