"""Read passages, as `ask` does, to evaluate the answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mundap.datasets.detect import detect
from mundap.datasets.runs import Faults, read_run
from mundap.errors import MundapError
from mundap.evaluation.answer_figures import CUTS, AnswerFigures, AnswerOutcome, AnswersTask, Counted, Rule
from mundap.index.index import Index
from mundap.pipeline.ask import search_depth
from mundap.reader.answering import FIRST_PASSAGES, rank_answers, read_until_sure
from mundap.reader.choice import LanguageReaders, reader_for
from mundap.reader.confidence import FEATURES
from mundap.reader.runtime import Reader, Scored
from mundap.records import Answer, Context, Hit, Passage, Question
from mundap.text.answers import Mode, has_answer
from mundap.text.questions import plain
from mundap.text.scores import judge

_BATCH = 32  # questions read at a time


@dataclass(frozen=True, slots=True)
class _Plan:
    """The passages to read for a question.

    Attributes:
        question: What is asked.
        match: How its answers are matched.
        hits: What was found, best first.
        right: Which of those have the answer.
        reader: Which reader reads them.
        known: Whether the reader knows the script of the question; if not, nothing is read, as in `mundap ask`.
        deepest: How many are read.
        others: Those found when the documents with the answer are removed; as many are read.
    """

    question: Question
    match: Mode
    hits: list[Hit]
    right: list[bool]
    reader: Reader
    known: bool
    deepest: int
    others: list[int]

    @property
    def needed(self) -> list[int]:
        if not self.known:
            return []
        return sorted({*range(min(self.deepest, len(self.hits))), *self.others[: self.deepest]})

    def texts(self) -> list[tuple[str, str]]:
        return [(self.hits[n].passage.title, self.hits[n].passage.text) for n in self.needed]


class PassageReading:
    """Reads passages for questions.

    Args:
        task: Where the passages come from, and which reader reads how many of them.
        found: Gets notes on what could not be read.
        rule: How the answers of a question are matched.
    """

    def __init__(self, task: AnswersTask, found: AnswerFigures, rule: Rule) -> None:
        self._task = task
        self._found = found
        self._rule = rule
        self._readers = LanguageReaders.from_pretrained(
            task.reader, precision=task.precision, ranking=task.ranking, retrieval_weight=task.retrieval_weight
        )
        self._cuts = tuple(sorted(set(task.cuts or CUTS)))
        self._open = bool(task.index or task.run)
        self._without = self._foreign = 0
        self._given: dict[str, list[Context]] = {}

    def all(self, asked: Sequence[Question], counted: Counted) -> list[AnswerOutcome]:
        """The outcome of each question."""
        if self._task.run:
            self._given = self._contexts(self._task.run, {plain(question.text) for question in asked})
        outcomes = list(counted(self._outcomes(asked), "reading", len(asked)))
        self._found.add_note(self._without, "questions have no passage to read: they count as wrong")
        self._found.add_note(
            self._foreign, "questions are in a script that the reader does not know: they count as wrong"
        )
        return outcomes

    def _outcomes(self, asked: Sequence[Question]) -> Iterator[AnswerOutcome]:
        for start in range(0, len(asked), _BATCH):
            some = [self._plan(question, hits) for question, hits in self._passages(asked[start : start + _BATCH])]
            for plan, scored in zip(some, _read(some), strict=True):
                yield self._outcome(plan, dict(zip(plan.needed, scored, strict=True)))

    def _plan(self, question: Question, hits: list[Hit]) -> _Plan:
        reader, known = reader_for(self._readers, question.text, hits)
        self._foreign += not known
        self._without += known and not hits
        match = self._rule(question)
        right = [has_answer(hit.passage.text, question.answers, match) for hit in hits]
        gone = {hit.passage.document for hit, has in zip(hits, right, strict=True) if has}
        kept = [number for number, hit in enumerate(hits) if hit.passage.document not in gone]
        others: list[int] = []
        if self._task.removed and not question.unanswerable:
            others = kept[: search_depth(self._cuts[-1])]
        return _Plan(question, match, hits, right, reader, known, self._cuts[-1], others)

    def _passages(self, asked: Sequence[Question]) -> Iterator[tuple[Question, list[Hit]]]:
        size = search_depth(self._cuts[-1])
        if self._task.removed:
            size *= 3  # enough for as many again when those with the answer are taken away
        if self._task.run:
            for question in asked:
                contexts = self._given.get(plain(question.text), [])
                yield question, [_as_hit(one, place) for place, one in enumerate(contexts[:size], 1)]
        elif self._task.index:
            texts = [question.text for question in asked]
            found = self._index.search_batch(texts, size, self._task.mode, **self._task.fusing)
            yield from zip(asked, found, strict=True)
        else:
            for question in asked:
                yield question, [_as_hit(one, 1) for one in question.gold[:1] if one.text.strip()]

    @cached_property
    def _index(self) -> Index:
        return Index(self._task.index)

    def _contexts(self, path: str, asked: set[str]) -> dict[str, list[Context]]:
        """What a run has to read, by question."""
        if not detect(path).is_json:
            raise MundapError(
                f"{path}: not DPR's json, and nothing else has texts to read: a TREC run names passages only. "
                "Give the .json that `mundap evaluate retrieval` writes, or an index to search."
            )
        faults, found, lost = Faults(), {}, 0
        for result in read_run(path, faults):
            name = plain(result.question.text)
            if name in asked:
                found[name] = [one for one in result.contexts if one.text.strip()]
                lost += len(result.contexts) - len(found[name])
        if not found:
            reason = ""
            for skipped in faults.skipped[:1]:
                reason = f" {skipped.source}: {skipped.reason}."
            raise MundapError(f"{path}: none of the questions is in it.{reason} Give the run of these questions.")
        self._found.skipped += faults.skipped
        self._found.add_note(lost, f"passages of {Path(path).name} have no text: they are left out")
        return found

    def _outcome(self, plan: _Plan, read: Mapping[int, list[Scored]]) -> AnswerOutcome:
        question, match = plan.question, plan.match
        cuts: tuple[int, ...] = ()
        if self._open:
            cuts = self._cuts
        oracle = {k: any(plan.right[:k]) for k in cuts}
        if not plan.needed:
            return AnswerOutcome(question, "", 0.0, 0.0, match, None, (), dict.fromkeys(cuts, 0.0), oracle)
        by_cut: dict[int, float] = {}
        em = f1 = 0.0
        for k in cuts or (1,):
            answer = self._best(plan, read, range(min(search_depth(k), len(plan.hits))), k)
            text, confidence, features = "", 0.0, (0.0,) * len(FEATURES)
            if answer is not None:
                text, confidence, features = answer.text, answer.confidence, answer.features
            em, f1 = judge(text, question.answers, match)
            if self._open:
                by_cut[k] = em
        threshold = plan.reader.config.fitted_for(question.text).threshold
        return AnswerOutcome(
            question,
            text,
            em,
            f1,
            match,
            confidence,
            features,
            by_cut,
            oracle,
            self._best(plan, read, plan.others, plan.deepest),
            (
                self._of_first(plan, read, range(min(search_depth(plan.deepest), len(plan.hits)))),
                self._of_first(plan, read, plan.others),
            ),
            threshold,
        )

    def _best(self, plan: _Plan, read: Mapping[int, list[Scored]], numbers: Sequence[int], k: int) -> Answer | None:
        """The best answer in some of the passages, of which k are read."""
        if not numbers:
            return None
        found = read_until_sure(
            plan.reader,
            plan.question.text,
            [plan.hits[n] for n in numbers],
            lambda part: [read[n] for n in numbers[part]],
            read_all=not self._task.early,
            k=k,
        )
        return next(iter(found), None)

    def _of_first(self, plan: _Plan, read: Mapping[int, list[Scored]], numbers: Sequence[int]) -> Answer | None:
        """The best answer in the first few of these passages."""
        if not numbers:
            return None
        hits, scored = [plan.hits[n] for n in numbers], [read[n] for n in numbers[:FIRST_PASSAGES]]
        found = rank_answers(plan.reader, plan.question.text, hits, scored)
        return next(iter(found), None)


def _read(plans: Sequence[_Plan]) -> list[list[list[Scored]]]:
    """Read the passages of each plan; each reader gets all of its questions at once."""
    found: dict[int, list[list[Scored]]] = {}
    for reader in {id(plan.reader): plan.reader for plan in plans}.values():
        places = [place for place, plan in enumerate(plans) if plan.reader is reader]
        asked = [(plans[place].question.text, plans[place].texts()) for place in places]
        found.update(zip(places, reader.read_batch(asked), strict=True))
    return [found[place] for place in range(len(plans))]


def _as_hit(context: Context, place: int) -> Hit:
    text = context.text
    return Hit(place, context.score, Passage(context.id, context.id, context.title, text, "", 0, len(text)))
