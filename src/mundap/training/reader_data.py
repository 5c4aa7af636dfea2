"""Examples into groups for a reader: a question with passages of which one, or none, has the answer."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from mundap import questions
from mundap.documents.files import open_file
from mundap.evaluation.runs import Faults, read_run
from mundap.models.windows import Window, Windows
from mundap.records import Context, Example, Question, Skipped
from mundap.text.answers import Mode, find_answers, has_answer
from mundap.training.examples import ExampleFile
from mundap.training.recipe import DataSet, ReaderRecipe
from mundap.training.stream import Stream

Places = list[tuple[int, int]]


def example_file(data: DataSet, scratch: Path) -> ExampleFile:
    """Examples out of a training file, of SQuAD-shaped data, or of DPR's results."""
    head = b"" if Path(data.path).is_dir() else open_file(data.path).head()
    if b'"positive_ctxs"' in head or b'"positive_passages"' in head or head[:1] not in (b"{", b"["):
        return ExampleFile(data, scratch)
    return ExampleFile(data, scratch, lambda: _examples(data.path, head, data.match))


def _examples(path: str, head: bytes, wanted: str) -> Iterator[Example | Skipped]:
    if b'"ctxs"' in head or b'"contexts"' in head:
        faults = Faults()
        for result in read_run(path, faults):
            right: list[Context] = []
            wrong: list[Context] = []
            texts = [context for context in result.contexts if context.text.strip()]
            for context in texts:
                answers = result.question.answers
                told = has_answer(context.text, answers, questions.match_for(answers) if wanted == "auto" else wanted)  # type: ignore[arg-type]
                (right if told else wrong).append(context)
            if right:
                yield Example(result.question, tuple(right), tuple(wrong))
            else:
                why = "no passage of the question has the answer" if texts else "the passages have no text"
                yield Skipped(result.question.id, why)
        yield from faults.skipped
        return
    for question in questions.read(path):
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
    """A question with its passages, a window of each.

    Attributes:
        windows: What the network reads.
        spans: For each window the right spans, as tokens; empty for passages without the answer.
        target: Which window has the answer; None if none has.
        question: What is asked.
        passages: What the windows are of.
        match: How its answers are looked for.
    """

    windows: list[Window]
    spans: list[Places]
    target: int | None
    question: Question
    passages: list[Context]
    match: Mode


@dataclass(frozen=True, slots=True)
class ReaderBatch:
    """This process's groups of a batch, and how many questions the whole batch has."""

    groups: list[Group]
    examples: int
    epoch: int


class ReaderBatches(Stream[ReaderBatch]):
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

    def _batch(self, places: list[list[int]], epoch: int) -> ReaderBatch:
        examples = [self._sets[a][b] for a, b in places]
        share = len(examples) // self._world
        own = range(self._rank * share, (self._rank + 1) * share)
        groups = [self._group(row, examples, epoch, places[row], self._sets[places[row][0]].match) for row in own]
        return ReaderBatch(groups, len(examples), epoch)

    def _group(self, row: int, examples: list[Example], epoch: int, place: list[int], match: Mode) -> Group:
        recipe, example = self._recipe, examples[row]
        chance = random.Random(f"{recipe.seed} {epoch} {place}")  # noqa: S311
        negatives = self._negatives(row, examples, chance, match)
        none = bool(negatives) and chance.random() < recipe.null
        chosen = negatives[: recipe.passages] if none else negatives[: recipe.passages - 1]
        windows = [chance.choice(row) for row in self._of(example, chosen)]
        spans: list[Places] = [[] for _ in windows]
        if none:
            return Group(windows, spans, None, example.question, list(chosen), match)
        positive = chance.choice(example.positives)
        window, right = self._positive(example, positive, chance, match)
        return Group([window, *windows], [right, *spans], 0, example.question, [positive, *chosen], match)

    def _of(self, example: Example, contexts: Sequence[Context]) -> list[list[Window]]:
        pairs = [(context.title, context.text) for context in contexts]
        return self._windows.of(example.question.text, pairs) if pairs else []

    def _positive(self, example: Example, positive: Context, chance: Any, match: Mode) -> tuple[Window, Places]:
        """A window of the positive that has the answer, with the places of it."""
        rows = self._of(example, [positive])[0]
        if self._recipe.selection_only:
            return rows[0], []
        places = find_answers(positive.text, example.question.answers, match)
        right = [(window, spans) for window in rows if (spans := tokens_of(window, places))]
        return chance.choice(right) if right else (rows[0], [])

    def _negatives(self, row: int, examples: list[Example], chance: Any, match: Mode) -> list[Context]:
        """Enough passages without the answer: the example's own first, then those of its neighbours."""
        example = examples[row]
        own = {one.text for one in example.positives}
        found = [one for one in (*example.hard, *example.negatives) if one.text not in own]
        chance.shuffle(found)
        others = [one.positives[0] for number, one in enumerate(examples) if number != row]
        chance.shuffle(others)
        missing = self._recipe.passages - len(found)
        return found + list(islice(_wrong_for(example, others, match), max(0, missing)))


def _wrong_for(example: Example, others: Iterable[Context], match: Mode) -> Iterator[Context]:
    """Those of other questions' passages that are wrong for this one, each once.

    None has the answer, and none is its own positive, which many questions may share: data for ranking has no answers
    to tell that by.
    """
    seen = {one.text for one in example.positives}
    for one in others:
        if one.text not in seen and not has_answer(one.text, example.question.answers, match):
            seen.add(one.text)
            yield one


def tokens_of(window: Window, places: Sequence[tuple[int, int]]) -> Places:
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
    would always be first. The same ones each time, for figures of different runs are compared.
    """
    rows = [examples[number] for number in range(min(limit, len(examples)))]
    found, wanted = [], max(1, passages - 1)
    for number, one in enumerate(rows):
        others = [*one.hard, *one.negatives][:wanted]
        if not others:
            near = (rows[(number + step) % len(rows)].positives[0] for step in range(1, len(rows)))
            others = list(islice(_wrong_for(one, near, examples.match), wanted))
        found.append(DevQuestion(one.question, (one.positives[0], *others), examples.match))
    return found
