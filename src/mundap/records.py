"""The language of the house: small frozen records that every room speaks and none of them owns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_MOST_REASONS = 1000


@dataclass(frozen=True, slots=True)
class Document:
    """One text with a name, as it came out of its file.

    Attributes:
        id: Unique within an index.
        text: The extracted text; passages are slices of it.
        title: Shown with each passage and searched with it.
        source: The file it came from.
        metadata: Further facts, for filters.
        whole: The text already is a passage (a row of psgs_w100, BEIR, MS MARCO) and is never split.
    """

    id: str
    text: str
    title: str = ""
    source: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Passage:
    """A slice of a document: `text` is the document's `text[start:end]`, counted in code points."""

    id: str
    document: str
    title: str
    text: str
    source: str
    start: int
    end: int
    metadata: Mapping[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The passage as it stands in `--json` output."""
        return {
            "id": self.id,
            "document": self.document,
            "title": self.title,
            "text": self.text,
            "source": self.source,
            "start": self.start,
            "end": self.end,
            "metadata": dict(self.metadata),
        }


@dataclass(frozen=True, slots=True)
class Hit:
    """A found passage. Scores are always higher-is-better.

    Attributes:
        rank: From 1.
        score: What the ranking was made by.
        passage: What was found.
        bm25: Its BM25 score, where the mode computed one.
        dense: Its inner product with the question, where the mode computed one.
    """

    rank: int
    score: float
    passage: Passage
    bm25: float | None = None
    dense: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """The hit as it stands in `--json` output; scores that were not computed are left out."""
        scores = {"bm25": self.bm25, "dense": self.dense}
        return {
            "rank": self.rank,
            "score": self.score,
            **{name: score for name, score in scores.items() if score is not None},
            "passage": self.passage.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for a question.

    Attributes:
        question: As it was asked.
        mode: How it was searched.
        hits: Best first.
        note: Why they are not in the order that was asked for, if so.
    """

    question: str
    mode: str
    hits: tuple[Hit, ...]
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The result as it stands in `--json` output."""
        return {
            "query": self.question,
            "mode": self.mode,
            "hits": [hit.as_dict() for hit in self.hits],
            **({"note": self.note} if self.note else {}),
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """A span of a passage that answers a question.

    Attributes:
        text: Exactly as it stands in the source: the document's `text[start:end]`.
        confidence: From 0 to 1: how likely it is right.
        hit: The passage it stands in, as it was found.
        start: Its first character in the document's text.
        end: The one behind its last.
        score: What answers are ranked by, higher is better.
        selection: The probability that this passage, of those read, has the answer.
        span: The probability of the span in its passage.
        support: Passages that were read in which the same answer was found.
        features: What confidence was computed from, see `mundap.reader.answers`.
    """

    text: str
    confidence: float
    hit: Hit
    start: int
    end: int
    score: float
    selection: float
    span: float
    support: int = 1
    features: tuple[float, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The answer as it stands in `--json` output."""
        return {
            "text": self.text,
            "confidence": round(self.confidence, 4),
            "passage": self.hit.passage.as_dict(),
            "start": self.start,
            "end": self.end,
            "source": self.hit.passage.source,
            "score": self.score,
            "selection": self.selection,
            "span": self.span,
            "support": self.support,
            "rank": self.hit.rank,
            "retrieval": self.hit.score,
        }


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of a question.

    Attributes:
        question: As it was asked.
        answers: Best first; none if no answer is likely enough.
        guess: The best one that was not likely enough, if there is no other.
        hits: What was found.
        note: Why nothing was read, if so.
        more: How many of the answers that were asked for are not given because they are not likely enough. Where one
            answer was asked for, nobody looked.
    """

    question: str
    answers: tuple[Answer, ...]
    guess: Answer | None = None
    hits: tuple[Hit, ...] = ()
    note: str = ""
    more: int = 0

    @property
    def no_answer(self) -> bool:
        """Whether there is none."""
        return not self.answers

    def as_dict(self) -> dict[str, Any]:
        """The result as it stands in `--json` output."""
        return {
            "question": self.question,
            "answers": [answer.as_dict() for answer in self.answers],
            "no_answer": self.no_answer,
            "guess": self.guess.as_dict() if self.guess else None,
            **({"note": self.note} if self.note else {}),
        }


@dataclass(frozen=True, slots=True)
class Context:
    """A passage as training files and result files know it. Parts they do not give are empty.

    Attributes:
        id: Of the passage, in whatever corpus the file was made from.
        title: Its title.
        text: Its text.
        score: Higher is better.
        has_answer: What the file says; None if it does not.
    """

    id: str = ""
    title: str = ""
    text: str = ""
    score: float = 0.0
    has_answer: bool | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """A question with what is known of its answer.

    Attributes:
        id: As the file gives it, or the row's position from 0.
        text: The question.
        answers: Any one is right. Never blank.
        gold: Passages, or documents, known to answer it.
        start: Where the first answer begins in the text of the first gold passage, if that is known.
    """

    id: str
    text: str
    answers: tuple[str, ...] = ()
    gold: tuple[Context, ...] = ()
    start: int | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """What a retriever is trained on: a question, passages that answer it and passages that do not.

    Attributes:
        question: With its answers.
        positives: The first is the best.
        hard: Negatives that some retriever ranks high.
        negatives: Any others, such as random ones.
    """

    question: Question
    positives: tuple[Context, ...]
    hard: tuple[Context, ...] = ()
    negatives: tuple[Context, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What some retriever found for a question, best first."""

    question: Question
    contexts: tuple[Context, ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that could not be read: a file, or one row of it (`source` is then `file:line`)."""

    source: str
    reason: str

    def as_dict(self) -> dict[str, str]:
        """The record as it stands in `--json` output."""
        return {"source": self.source, "reason": self.reason}


@dataclass(slots=True)
class Skipping:
    """A report of work that passes over what cannot be read.

    Attributes:
        skipped: What that was; of more than a thousand, the first thousand.
        skipped_count: How many in all.
    """

    skipped: list[Skipped] = field(default_factory=list, kw_only=True)
    skipped_count: int = field(default=0, kw_only=True)

    def skip(self, skipped: Skipped) -> None:
        """Note something unreadable."""
        self.skipped_count += 1
        if len(self.skipped) < _MOST_REASONS:
            self.skipped.append(skipped)

    def skipped_as_dict(self) -> dict[str, Any]:
        """This part of `--json` output."""
        return {"skipped": [one.as_dict() for one in self.skipped], "skipped_count": self.skipped_count}
