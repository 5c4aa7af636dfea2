"""Evaluate retrieval: search an index, or read runs, and judge the results."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mundap.datasets import beir, queries
from mundap.datasets.detect import detect
from mundap.datasets.runs import Faults, read_run, writing
from mundap.disk import apart
from mundap.errors import UsageError
from mundap.evaluation.compare import Differences, against_first
from mundap.evaluation.outcomes import CUTS, QREL_CUTS, System, aligned, by_answers, by_qrels, summary
from mundap.index.index import Index
from mundap.mining.gold import find_gold
from mundap.pipeline.retrieve import retrieve, retrieve_among
from mundap.pipeline.search import rerank_order
from mundap.reader.choice import LOOKED_AT, LanguageReaders
from mundap.records import Context, Question, Result, Skipped
from mundap.text.answers import Mode, broken_patterns, looks_like_pattern

Counted = Callable[[Iterable[Any], str, int], Iterator[Any]]
"""Passes items on and shows progress: (items, what is done, how many there are)."""


@dataclass(frozen=True, slots=True)
class RetrievalTask:
    """What to measure.

    Attributes:
        index: Where to search, or where the texts of a run's passages are: a folder, or an index that is open.
        questions: A file of questions.
        form: Its format, if that cannot be told from it.
        folder: A BEIR folder, instead.
        split: Which of its judgements.
        qrels: A file of judgements.
        level: The lowest grade that counts as relevant.
        modes: How to search; each is a system.
        runs: Files of results to judge instead of searching.
        candidates: A file of results whose passages are put in order instead of searching.
        cuts: The k.
        match: How answers are matched; None: what the questions suggest.
        gold: Whether to judge by gold passage too.
        limit: How many of the questions.
        seed: Which of them.
        fusing: Options of hybrid search.
        rerank: Whether a reader reranks what was found.
        reader: Which one; by default the installed one that knows the language.
        out: Where to write the results.
    """

    index: str | Index | None = None
    questions: str | None = None
    form: str | None = None
    folder: str | None = None
    split: str | None = None
    qrels: str | None = None
    level: int = 1
    modes: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    candidates: str | None = None
    cuts: tuple[int, ...] = ()
    match: Mode | None = None
    gold: bool = True
    limit: int | None = None
    seed: int = 0
    fusing: Mapping[str, Any] = field(default_factory=dict)
    rerank: bool = False
    reader: str | None = None
    out: str | None = None

    def __post_init__(self) -> None:
        if self.folder and any((self.qrels, self.questions)):
            raise UsageError("a BEIR folder has queries and qrels of its own: give no others")
        if self.runs and any((self.modes, self.candidates, self.rerank, self.out)):
            raise UsageError(
                "runs hold what was found before: give no modes, candidates, reranking or output with them"
            )
        if not any((self.runs, self.questions, self.folder)):
            raise UsageError("nothing to evaluate: give a file of questions, a BEIR folder or a run")

    @property
    def judged(self) -> bool:
        """Whether results are judged by qrels, not by answers."""
        return bool(self.folder or self.qrels)


@dataclass(slots=True)
class RetrievalFigures:
    """The figures of an evaluation of retrieval.

    Attributes:
        systems: The first is what the others are compared with.
        cuts: The k.
        match: How answers were matched, if they were.
        notes: What affects the figures, one line each.
        skipped: Rows that could not be read.
        unmapped: Questions whose gold passage is not in the index.
    """

    systems: list[System]
    cuts: tuple[int, ...]
    match: Mode | None = None
    notes: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    unmapped: int | None = None
    _differences: Differences | None = None

    @property
    def differences(self) -> Differences:
        """How each further system differs from the first. Computed once, because it takes seconds."""
        if self._differences is None:
            self._differences = against_first(self.systems, self.cuts)
        return self._differences

    def as_dict(self) -> dict[str, Any]:
        """The figures as `--json` prints them."""
        first = self.systems[0]
        found = {system.name: summary(system, self.cuts) for system in self.systems}
        facts: dict[str, Any] = {}
        if self.match:
            facts["match"] = self.match
        if self.unmapped is not None:
            facts["gold_not_in_pool"] = self.unmapped
        facts["notes"] = self.notes
        facts["skipped"] = [one.as_dict() for one in self.skipped[:1000]]
        facts["skipped_count"] = len(self.skipped)
        if len(self.systems) == 1:
            return {"mode": first.name, **found[first.name], **facts}
        differences = {}
        for name, row in self.differences.items():
            differences[name] = {figure: one.as_dict(first.scale) for figure, one in row.items()}
        return {"questions": len(first.outcomes), "modes": found, f"against_{first.name}": differences, **facts}


def measure(task: RetrievalTask, counted: Counted = lambda items, what, total: iter(items)) -> RetrievalFigures:
    """Search, or read runs, and judge what was found.

    Args:
        task: What to measure.
        counted: Shows progress.
    """
    job = _Job(task, counted)
    if task.judged:
        systems = job.by_qrels()
    else:
        systems = job.by_answers()
    for system in systems:
        job.add_note(system.missing, f"questions have no result in {system.name}: they count as wrong")
        job.add_note(
            system.without_text, f"passages of {system.name} have no text here and count as wrong: give the index too"
        )
        job.add_note(system.disagreements, f"passages of {system.name} are judged otherwise than its has_answer says")
        job.add_note(system.unmatched, f"results of {system.name} are of questions not asked, or come twice: left out")
    job.found.systems = systems
    return job.found


class _Job:
    def __init__(self, task: RetrievalTask, counted: Counted) -> None:
        self._task = task
        self._counted = counted
        cuts: tuple[int, ...] = CUTS
        if task.judged:
            cuts = QREL_CUTS
        self.found = RetrievalFigures([], tuple(sorted(set(task.cuts or cuts))))
        self._given: list[list[str]] | None = None

    def add_note(self, number: int, what: str) -> None:
        """Add a note on something that affects the figures, if it occurred at all."""
        text = f"{number:,} {what}"
        if number and text not in self.found.notes:
            self.found.notes.append(text)

    @cached_property
    def _index(self) -> Index:
        given = self._task.index
        if isinstance(given, Index):
            return given
        return Index(given)

    def by_answers(self) -> list[System]:
        task = self._task
        if task.questions:
            asked = self._sample(self._asked())
        else:
            asked = self._sample(self._asked_in_runs())
        match = self.found.match = task.match or self._suggested_match(asked)
        self._doubts(asked, match)
        if task.runs and not task.index:  # without an index, neither texts nor gold passages can be looked up
            return [by_answers(name, asked, results, match) for name, results in self._runs()]
        gold = self._gold(asked, match)
        if task.runs:
            return [by_answers(name, asked, results, match, self._lookup, gold) for name, results in self._runs()]
        systems = []
        for mode in self._modes:
            with self._watching(mode) as watch:
                results = self._results(asked, mode, by_document=False)
                systems.append(by_answers(mode, asked, results, match, None, gold, watch))
        return systems

    def _suggested_match(self, asked: Sequence[Question]) -> Mode:
        if self._task.questions:
            return queries.choose_match(self._task.questions, self._task.form)
        return queries.match_for(_answers(asked))

    def by_qrels(self) -> list[System]:
        task = self._task
        asked: dict[str, Question] = {}
        if task.folder or task.questions:
            asked = {question.id: question for question in self._asked()}
        qrels = self._qrels(asked)
        options = (self.found.cuts, task.level, asked)
        if task.runs:
            lookup = None
            if task.index:
                lookup = self._lookup
            return [by_qrels(name, qrels, results, *options, lookup) for name, results in self._runs()]
        wanted = [question for question in asked.values() if question.id in qrels]
        self.add_note(len(qrels) - len(wanted), "judged questions are not among the questions: they count as 0")
        by_document = self._judges_documents(qrels)
        systems = []
        for mode in self._modes:
            with self._watching(mode) as watch:
                results = self._results(wanted, mode, by_document)
                systems.append(by_qrels(mode, qrels, results, *options, self._lookup, watch))
        return systems

    def _qrels(self, asked: Mapping[str, Question]) -> beir.Qrels:
        """The judgements, of as many questions as the task wants."""
        task = self._task
        path: str | Path = str(task.qrels)
        if task.folder:
            path = beir.qrels_path(Path(task.folder), task.split)
        qrels, skipped = beir.read_qrels(path)
        self.found.skipped += skipped
        if not task.limit:
            return qrels
        chosen = self._sample([asked.get(name) or Question(name, "") for name in qrels])
        names = {question.id for question in chosen}
        return {name: grades for name, grades in qrels.items() if name in names}

    def _judges_documents(self, qrels: Mapping[str, Mapping[str, int]]) -> bool:
        """Whether the qrels are of documents, not of passages; where each document is one passage they are the same."""
        relevant: set[str] = set()
        for grades in qrels.values():
            relevant.update(name for name, grade in grades.items() if grade >= self._task.level)
        known = [name for name in relevant if self._index.has(name)]
        missing = len(relevant) - len(known)
        self.add_note(missing, f"of {len(relevant):,} relevant ids are not in the index")
        return any(self._index.passage(name) is None for name in known)

    def _asked(self) -> list[Question]:
        task = self._task
        path: str | Path = str(task.questions)
        form = task.form
        if task.folder:
            path, form = beir.queries_path(Path(task.folder)), "jsonl"
        elif form is None and task.qrels and not detect(path).is_json:
            form = "queries"
        found, skipped = queries.read_all(path, form, unanswerable=True)
        self.found.skipped += skipped
        if not task.judged:
            known = [question for question in found if not question.unanswerable]
            self.add_note(len(found) - len(known), "questions have no answer, says the file: they are left out")
            found = known
        return found

    def _sample(self, asked: list[Question]) -> list[Question]:
        return queries.sample(asked, self._task.limit, self._task.seed)

    def _asked_in_runs(self) -> list[Question]:
        """The questions of DPR result files: each as often as the file that has it most often."""
        found: dict[tuple[str, int], Question] = {}
        for path in self._task.runs:
            times: Counter[str] = Counter()
            if not detect(path).is_json:
                raise UsageError(f"{path} has no relevance judgements: give qrels, or the questions and the index")
            for result in read_run(path):
                times[result.question.text] += 1
                found.setdefault((result.question.text, times[result.question.text]), result.question)
        return list(found.values())

    def _doubts(self, asked: Sequence[Question], match: Mode) -> None:
        self.add_note(sum(not question.answers for question in asked), "questions have no answer: they count as wrong")
        repeated = sum(number - 1 for number in Counter(question.text for question in asked).values())
        self.add_note(repeated, "questions stand in the file before: each counts")
        answers = _answers(asked)
        if match == "regex":
            broken = broken_patterns(answers)
            self.add_note(len(broken), f"answers are no regular expressions and match nothing, such as {broken[:1]}")
            return
        patterns = sum(map(looks_like_pattern, answers))
        if 10 * patterns > len(answers):
            self.add_note(patterns, "answers look like regular expressions: match them as such if they are")

    def _gold(self, asked: Sequence[Question], match: Mode) -> list[list[str]] | None:
        if not self._task.gold or not any(question.gold for question in asked):
            return None
        found = []
        for question in self._counted(asked, "finding gold passages", len(asked)):
            found.append([passage.id for passage in find_gold(self._index, question, match)])
        known = sum(bool(question.gold) for question in asked)
        self.found.unmapped = known - sum(map(bool, found))
        left_out = "questions have a gold passage that is not in the index: accuracy by gold is that of the others"
        self.add_note(self.found.unmapped, left_out)
        return found

    def _runs(self) -> Iterator[tuple[str, Iterator[Result]]]:
        for name, path in zip(_short(self._task.runs), self._task.runs, strict=True):
            yield name, self._run(path)

    def _run(self, path: str) -> Iterator[Result]:
        faults = Faults()
        yield from read_run(path, faults)
        self.found.skipped += faults.skipped
        name = Path(path).name
        self.add_note(faults.duplicates, f"passages stand twice under a question in {name}: the best place counts")
        self.add_note(faults.ties, f"questions have passages with equal scores in {name}: ordered as trec_eval does")

    @cached_property
    def _modes(self) -> list[Any]:
        return list(dict.fromkeys(self._task.modes)) or [self._index.default_mode]

    def _results(self, asked: Sequence[Question], mode: Any, by_document: bool) -> Iterator[Result]:
        if self._task.candidates:
            found = retrieve_among(self._index, asked, self._candidates(asked), mode, by_document, **self._task.fusing)
        else:
            found = retrieve(self._index, asked, self.found.cuts[-1], mode, by_document, **self._task.fusing)
        if self._task.folder:
            found = map(_without_itself, found)
        if self._task.rerank:
            found = self._reranked(found)
        return self._counted(found, mode, len(asked))

    @cached_property
    def _readers(self) -> LanguageReaders:
        return LanguageReaders.from_pretrained(self._task.reader)

    def _reranked(self, results: Iterable[Result]) -> Iterator[Result]:
        """All that was found, reranked by the reader that `mundap search --rerank` would take."""
        foreign = 0
        for result in results:
            contexts = result.contexts
            languages = [self._language(one.id) for one in contexts[:LOOKED_AT]]
            reader, known = self._readers.choose(result.question.text, languages)
            if not known:
                foreign += 1
                yield result
                continue
            passages = [(one.title, one.text) for one in contexts]
            order = rerank_order(reader, result.question.text, passages, [one.score for one in contexts])
            yield replace(result, contexts=tuple(replace(contexts[place], score=score) for place, score in order))
        self.add_note(foreign, "questions are in a script that the reader does not know: not reranked")

    def _language(self, name: str) -> str:
        """The language of a passage, or of a document's first one."""
        passage = self._index.passage(name) or next(iter(self._index.passages_of(name)), None)
        return passage.metadata.get("language", "") if passage else ""

    def _candidates(self, asked: Sequence[Question]) -> list[list[str]]:
        if self._given is None:
            self._given = [[] for _ in asked]
            for position, result in aligned(asked, self._run(str(self._task.candidates))):
                if position is not None:
                    self._given[position] = [context.id for context in result.contexts]
            lost = sum(not names for names in self._given)
            self.add_note(lost, "questions have no candidates: they count as wrong")
            names = set(itertools.chain.from_iterable(self._given))
            unmatched = sum(not self._index.has(name) for name in names)
            self.add_note(unmatched, f"of {len(names):,} candidates are not in the index")
        return self._given

    def _lookup(self, name: str) -> Context | None:
        found = self._index.passage(name) or self._index.document(name)
        if found is None:
            return None
        return Context(name, found.title, found.text)

    @contextmanager
    def _watching(self, mode: str) -> Iterator[Callable[[Result], None]]:
        """What takes each result of a mode: writes it, if the task has an output."""
        task = self._task
        if not task.out:
            yield lambda result: None
            return
        path = Path(task.out)
        if len(self._modes) > 1:
            stem, dot, rest = path.name.partition(".")
            path = path.with_name(f"{stem}.{mode}{dot}{rest}")
        apart(path, task.questions, task.qrels, task.candidates)
        with writing(path, f"mundap-{mode}") as write:
            yield write


def _answers(asked: Sequence[Question]) -> list[str]:
    answers: list[str] = []
    for question in asked:
        answers += question.answers
    return answers


def _without_itself(result: Result) -> Result:
    """Leave out the question itself: in some BEIR sets questions are documents too, and BEIR does not count those."""
    contexts = tuple(one for one in result.contexts if one.id != result.question.id)
    return replace(result, contexts=contexts)


def _short(paths: Sequence[str]) -> list[str]:
    """Names for runs, different from each other."""
    short = [Path(path).name.removesuffix(".gz").rsplit(".", 1)[0] for path in paths]
    if len(set(short)) < len(short):
        return [str(path) for path in paths]
    return short
