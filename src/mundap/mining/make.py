"""From question-answer pairs and an index to training examples."""

import hashlib
import itertools
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from mundap.datasets.beir import Qrels
from mundap.datasets.queries import UNANSWERABLE
from mundap.errors import UsageError
from mundap.index.index import MAX_QUESTION, Index
from mundap.mining.gold import find_gold
from mundap.mining.negatives import Counts, Miner
from mundap.mining.positives import EvidenceRules, search_text, select_evidence
from mundap.mining.rule import DUPLICATE
from mundap.records import Context, Example, Hit, Passage, Question, Skipped
from mundap.text.answers import Mode, looks_like_pattern
from mundap.text.scores import normalize

_BATCH = 256
_MOST_POSITIVES = 10
_NOT_IN_POOL = "no passage of the pool is the gold passage and has the answer in it"
_NO_ANSWER = "neither an answer nor a gold passage"
_REPEATED = "the same question and answers again"
_EXCLUDED = "the question is in an excluded file"
_LONG = f"the question is longer than {MAX_QUESTION:,} characters"


@dataclass(frozen=True, slots=True)
class Rules:
    """How examples are made.

    Attributes:
        match: How answers are matched in passages.
        counts: How many negatives of each kind.
        evidence: The rules for positives that had to be searched for.
        duplicate: How much of its text a negative may share with a positive.
        seed: Chooses the random negatives.
    """

    match: Mode = "string"
    counts: Counts = field(default_factory=Counts)
    evidence: EvidenceRules = field(default_factory=EvidenceRules)
    duplicate: float = DUPLICATE
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.duplicate <= 1:
            raise UsageError(f"a duplicate threshold of {self.duplicate}: choose between 0 and 1")


@dataclass(slots=True)
class MiningReport:
    """How many questions became examples, and why the others did not.

    Attributes:
        questions: How many there were.
        kept: How many became examples.
        from_gold: Of these, with the gold passage that the file gives.
        from_search: Of these, with evidence that was searched for.
        dropped: Why the others were not kept, and how often.
        skipped: Rows, or parts of them, that could not be read.
        hard: Hard negatives in all.
        negatives: Random negatives in all.
        few: Examples with fewer hard negatives than were asked for.
        patterns: Questions whose answers look like regular expressions.
        unchecked: Examples without answers: whether a negative answers them cannot be told.
        seconds: How long it took.
    """

    questions: int = 0
    kept: int = 0
    from_gold: int = 0
    from_search: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    skipped: list[Skipped] = field(default_factory=list)
    hard: int = 0
    negatives: int = 0
    few: int = 0
    patterns: int = 0
    unchecked: int = 0
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The report as `--json` prints it."""
        return {
            "questions": self.questions,
            "kept": self.kept,
            "from_gold": self.from_gold,
            "from_search": self.from_search,
            "dropped": dict(self.dropped.most_common()),
            "hard_negatives": self.hard,
            "random_negatives": self.negatives,
            "fewer_negatives_than_asked": self.few,
            "without_answers": self.unchecked,
            "answers_like_patterns": self.patterns,
            "skipped": [one.as_dict() for one in self.skipped[:1000]],
            "skipped_count": len(self.skipped),
            "seconds": round(self.seconds, 3),
        }


def make(
    index: Index,
    questions: Iterable[Question | Skipped],
    rules: Rules,
    report: MiningReport,
    dropped: Callable[[Question, str], None] = lambda question, why: None,
    excluded: Collection[str] = (),
) -> Iterator[Example]:
    """Yield an example for each question that has a passage to learn from.

    Args:
        index: The pool of passages.
        questions: As `mundap.datasets.queries.read` gives them.
        rules: How.
        report: Filled in on the way.
        dropped: Told of each question that is left out, and why.
        excluded: Questions, normalised by `normalize`, that must not be trained on: those of test sets.
    """
    started = time.monotonic()
    miner = Miner(index, rules.counts, rules.match, rules.duplicate, rules.seed)
    asked = rules.counts.bm25 + rules.counts.tfidf + rules.counts.dense
    stream = _usable(questions, report, dropped, excluded)
    while batch := list(itertools.islice(stream, _BATCH)):
        kept: list[Question] = []
        positives: list[tuple[Context, ...]] = []
        for question, found in zip(batch, _positives(index, batch, rules), strict=True):
            if isinstance(found, str):
                report.dropped[found] += 1
                dropped(question, found)
                continue
            kept.append(question)
            positives.append(tuple(Context.of(passage) for passage in found))
        for question, right, (hard, others) in zip(kept, positives, miner.mine(kept, positives), strict=True):
            report.kept += 1
            report.from_gold += bool(question.gold)
            report.from_search += not question.gold
            report.hard += len(hard)
            report.negatives += len(others)
            report.few += len(hard) < asked
            report.unchecked += not question.answers
            report.seconds = time.monotonic() - started
            yield Example(question, right[:_MOST_POSITIVES], hard, others)
    report.seconds = time.monotonic() - started


def _usable(
    questions: Iterable[Question | Skipped],
    report: MiningReport,
    dropped: Callable[[Question, str], None],
    excluded: Collection[str],
) -> Iterator[Question]:
    seen: set[bytes] = set()
    for found in questions:
        if isinstance(found, Skipped):
            report.skipped.append(found)
            continue
        report.questions += 1
        report.patterns += any(map(looks_like_pattern, found.answers))
        key = _key(found)
        why = _why_unusable(found, key in seen, excluded)
        if why:
            report.dropped[why] += 1
            dropped(found, why)
            continue
        seen.add(key)
        yield found


def _key(question: Question) -> bytes:
    """A hash that two questions with the same text, answers and gold passage share."""
    parts = [question.text, *question.answers, ""]
    if question.gold:
        parts[-1] = question.gold[0].id + question.gold[0].text
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=12).digest()


def _why_unusable(question: Question, repeated: bool, excluded: Collection[str]) -> str:
    """Why no example can be made of a question; empty if one can."""
    if repeated:
        return _REPEATED
    if len(question.text) > MAX_QUESTION:
        return _LONG
    if question.unanswerable:
        return UNANSWERABLE
    if not question.answers and not question.gold:
        return _NO_ANSWER
    if excluded and normalize(question.text) in excluded:
        return _EXCLUDED
    return ""


def with_gold(questions: Iterable[Question | Skipped], qrels: Qrels, level: int = 1) -> Iterator[Question | Skipped]:
    """The questions with the passages that judgements call relevant as their gold passages.

    A question that is not judged keeps what it has.
    """
    for question in questions:
        if isinstance(question, Question) and question.id in qrels:
            judged = qrels[question.id]
            relevant = [Context(id=name) for name, grade in judged.items() if grade >= level]
            question = replace(question, gold=question.gold + tuple(relevant), unanswerable=False)
        yield question


def _positives(index: Index, batch: list[Question], rules: Rules) -> Iterator[list[Passage] | str]:
    """The positives of each question, the best first, or why it has none."""
    rankings: Iterator[list[Hit]] = iter(())
    texts = [search_text(one, rules.match, index.analyzer)[:MAX_QUESTION] for one in batch if not one.gold]
    if texts:
        rankings = iter(index.search_batch(texts, rules.evidence.depth, "bm25"))
    for question in batch:
        if question.gold:
            yield find_gold(index, question, rules.match) or _NOT_IN_POOL
            continue
        ranked = [hit.passage for hit in next(rankings)]
        best = select_evidence(question, ranked, rules.match, rules.evidence, index.analyzer)
        if isinstance(best, str):
            yield best
        else:
            yield [best]
