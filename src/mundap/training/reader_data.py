"""Examples into groups for a reader: a question with passages of which one, none, or several have the answer."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mundap.datasets import queries
from mundap.datasets.detect import detect
from mundap.datasets.runs import Faults, read_run
from mundap.mining.rule import Candidate, NegativeRule
from mundap.reader.inputs import Window, Windows
from mundap.records import Context, Example, Question, Skipped
from mundap.text.answers import Mode, find_answers, has_answer
from mundap.training.batch_loader import BatchLoader
from mundap.training.examples import ExampleFile
from mundap.training.recipe import DataSet, ReaderRecipe

Places = list[tuple[int, int]]


def example_file(data: DataSet, scratch: Path) -> ExampleFile:
    """Examples out of a training file, of SQuAD-shaped data, or of DPR's results."""
    found = detect(data.path)
    if found.has_positives:
        return ExampleFile(data, scratch)
    return ExampleFile(data, scratch, lambda: _examples(data.path, found.has_results, data.match))


def _examples(path: str, has_results: bool, match: str) -> Iterator[Example | Skipped]:
    if has_results:
        return _from_run(path, match)
    return _from_questions(path)


def _from_run(path: str, wanted: str) -> Iterator[Example | Skipped]:
    """DPR's retrieval results: passages with the answer are positives, the others hard negatives."""
    faults = Faults()
    for result in read_run(path, faults):
        answers = result.question.answers
        match: Any = wanted
        if wanted == "auto":
            match = queries.match_for(answers)
        positives: list[Context] = []
        negatives: list[Context] = []
        for context in result.contexts:
            if not context.text.strip():
                continue
            if has_answer(context.text, answers, match):
                positives.append(context)
            else:
                negatives.append(context)
        if positives:
            yield Example(result.question, tuple(positives), tuple(negatives))
        elif negatives:
            yield Skipped(result.question.id, "no passage of the question has the answer")
        else:
            yield Skipped(result.question.id, "the passages have no text")
    yield from faults.skipped


def _from_questions(path: str) -> Iterator[Example | Skipped]:
    """SQuAD-shaped data: the paragraph that a question was asked about is its positive."""
    for question in queries.read(path):
        if isinstance(question, Skipped):
            yield question
            continue
        gold = tuple(one for one in question.gold if one.text.strip())
        if gold:
            yield Example(Question(question.id, question.text, question.answers), gold)
        else:
            yield Skipped(question.id, "a question without a passage: `mundap data make` finds some in an index")


@dataclass(frozen=True, slots=True)
class Group:
    """A question with its passages, one window of each.

    Attributes:
        windows: The network's inputs.
        spans: For each window the answer spans, as token positions; empty for passages without the answer.
        target: The window with the answer, the first of several; None if there is none.
        question: The question.
        passages: The passages of the windows.
        match: How its answers are matched.
        answering: How many of the passages, the first ones, have the answer.
    """

    windows: list[Window]
    spans: list[Places]
    target: int | None
    question: Question
    passages: list[Context]
    match: Mode
    answering: int


@dataclass(frozen=True, slots=True)
class ReaderBatch:
    """This process's groups of a batch, and how many questions the whole batch has."""

    groups: list[Group]
    examples: int
    epoch: int


class ReaderBatches(BatchLoader[ReaderBatch]):
    """All batches of a reader's run.

    Args:
        sets: The training files.
        recipe: Sizes, shares, seed.
        windows: Texts to windows.
        rank: This process.
        world: How many there are.
    """

    def __init__(
        self, sets: Sequence[ExampleFile], recipe: ReaderRecipe, windows: Windows, rank: int = 0, world: int = 1
    ) -> None:
        super().__init__(sets, recipe, rank, world)
        self._recipe = recipe
        self._windows = windows

    def _collate(self, places: list[list[int]], epoch: int) -> ReaderBatch:
        examples = [self._sets[a][b] for a, b in places]
        share = len(examples) // self._world
        own = range(self._rank * share, (self._rank + 1) * share)
        groups = [self._group(row, examples, epoch, places[row], self._sets[places[row][0]].match) for row in own]
        return ReaderBatch(groups, len(examples), epoch)

    def _group(self, row: int, examples: list[Example], epoch: int, place: list[int], match: Mode) -> Group:
        recipe, example = self._recipe, examples[row]
        rng = random.Random(f"{recipe.seed} {epoch} {place}")  # noqa: S311
        if recipe.span_loss == "global_marginal":
            return self._found_group(row, examples, rng, match)
        negatives = self._negatives(row, examples, rng, match)
        unanswered = bool(negatives) and rng.random() < recipe.no_answer_ratio
        room = recipe.num_passages
        if not unanswered:
            room -= 1  # for the positive
        chosen = negatives[:room]
        windows = [rng.choice(row) for row in self._of(example, chosen)]
        spans: list[Places] = [[] for _ in windows]
        if unanswered:
            return Group(windows, spans, None, example.question, chosen, match, 0)
        positive = rng.choice(example.positives)
        window, right = self._positive(example, positive, rng, match)
        return Group([window, *windows], [right, *spans], 0, example.question, [positive, *chosen], match, 1)

    def _found_group(self, row: int, examples: list[Example], rng: Any, match: Mode) -> Group:
        """A passage with the answer, and others out of all that the question has, with the answer or without."""
        example = examples[row]
        first = rng.randrange(len(example.positives))
        others = [one for number, one in enumerate(example.positives) if number != first]
        negatives = self._negatives(row, examples, rng, match)
        numbers = range(len(others) + len(negatives))
        drawn = rng.sample(numbers, min(self._recipe.num_passages - 1, len(numbers)))
        answering = [example.positives[first], *(others[number] for number in drawn if number < len(others))]
        wrong = [negatives[number - len(others)] for number in drawn if number >= len(others)]
        windows: list[Window] = []
        spans: list[Places] = []
        for passage in answering:
            window, right = self._positive(example, passage, rng, match)
            windows.append(window)
            spans.append(right)
        for choices in self._of(example, wrong):
            windows.append(rng.choice(choices))
            spans.append([])
        return Group(windows, spans, 0, example.question, answering + wrong, match, len(answering))

    def _of(self, example: Example, contexts: Sequence[Context]) -> list[list[Window]]:
        if not contexts:
            return []
        return self._windows.of(example.question.text, [(context.title, context.text) for context in contexts])

    def _positive(self, example: Example, positive: Context, rng: Any, match: Mode) -> tuple[Window, Places]:
        """A window of the positive that contains the answer, with its spans."""
        rows = self._of(example, [positive])[0]
        if self._recipe.selection_only:
            return rows[0], []
        places = find_answers(positive.text, example.question.answers, match)
        right = []
        for window in rows:
            spans = _tokens_of(window, places)
            if spans:
                right.append((window, spans))
        if not right:
            return rows[0], []
        chosen: tuple[Window, Places] = rng.choice(right)
        return chosen

    def _negatives(self, row: int, examples: list[Example], rng: Any, match: Mode) -> list[Context]:
        """Passages without the answer: the example's own first, then positives of other questions in the batch."""
        example = examples[row]
        own = {one.text for one in example.positives}
        found = [one for one in (*example.hard, *example.negatives) if one.text not in own]
        rng.shuffle(found)
        others = [one.positives[0] for number, one in enumerate(examples) if number != row]
        rng.shuffle(others)
        missing = self._recipe.num_passages - len(found)
        return found + list(islice(_negatives_for(example, others, match), max(0, missing)))


def _negatives_for(example: Example, others: Iterable[Context], match: Mode) -> Iterator[Context]:
    """The passages of other questions that are negatives for this one, each once.

    None contains the answer, and none is its own positive, which several questions may share: ranking data has no
    answers to tell by.
    """
    rule = NegativeRule(example.question, example.positives, match, duplicate=None)
    seen: set[str] = set()
    for one in others:
        if one.text not in seen and rule.is_negative(Candidate(one.text)):
            seen.add(one.text)
            yield one


def _tokens_of(window: Window, places: Sequence[tuple[int, int]]) -> Places:
    """Spans of characters as spans of tokens of the window; those not wholly in it are left out."""
    found = []
    begins, stops = window.offsets[:, 0], window.offsets[:, 1]
    for start, end in places:
        inside = ((stops > start) & (begins < end)).nonzero()[0]
        if not len(inside) or begins[inside[0]] > start:
            continue
        # A tokenizer may drop the accent at the end of a word: then the next token begins behind the answer.
        if stops[inside[-1]] >= end or inside[-1] + 1 < len(stops):
            found.append((window.first + int(inside[0]), window.first + int(inside[-1])))
    return sorted(set(found))


@dataclass(frozen=True, slots=True)
class DevQuestion:
    """A question with the passages it is validated on, the one with the answer first."""

    question: Question
    passages: tuple[Context, ...]
    match: Mode


def dev_questions(examples: ExampleFile, limit: int, passages: int) -> list[DevQuestion]:
    """The first questions of a file, each with its first positive and its first negatives.

    Where it has none, as in SQuAD's shape, they are the passages of the questions next to it: without any, the positive
    would always be first. They are the same each time, so that runs can be compared.
    """
    rows = [examples[number] for number in range(min(limit, len(examples)))]
    found, wanted = [], max(1, passages - 1)
    for number, one in enumerate(rows):
        others = [*one.hard, *one.negatives][:wanted]
        if not others:
            near = (rows[(number + step) % len(rows)].positives[0] for step in range(1, len(rows)))
            others = list(islice(_negatives_for(one, near, examples.match), wanted))
        found.append(DevQuestion(one.question, (one.positives[0], *others), examples.match))
    return found
