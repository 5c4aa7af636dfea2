"""The records that all rooms share."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

_MOST_REASONS = 1000
_PAGES = {"pptx": "slide", "odp": "slide", "notebook": "cell", "epub": "part", "subtitles": "minute"}
"""What the `page` of a block counts, by the `type` of the document, if not pages."""
_SHEETS = ("csv", "xlsx", "ods")  # types whose lines are rows
WITH_LINES = ("text", "markdown", "code", "html", "rst", "asciidoc", "man", "latex")
"""Types of documents whose blocks keep the line breaks of the file, as far as they mean anything there."""
LINE_END = re.compile(r"\r\n|\r|\n")
_WRAP = re.compile(r"(?<=\S)[ \t\r]*\n[ \t]*(?=\S)")


def _in_one_line(wrap: re.Match[str]) -> str:
    return wrap[0].replace("\n", " ")


class Block(NamedTuple):
    """A piece of a document that belongs together, as its file marks it.

    Attributes:
        start: Its first character in the document's text.
        end: The one after its last.
        kind: `heading`, `text` (a paragraph), `item` (of a list), `row` (of a table) or `code`.
        section: The headings above it, outermost first, joined by ` > `.
        page: The page, slide or cell it begins on, from 1; 0 where the file has none.
        line: The line (or the row of a sheet) it begins on, from 1; 0 where the file has none.
    """

    start: int
    end: int
    kind: str = "text"
    section: str = ""
    page: int = 0
    line: int = 0


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
        blocks: Its paragraphs, list items, table rows and so on, in order; none where the file has no structure.
    """

    id: str
    text: str
    title: str = ""
    source: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """A slice of a document: `text` is the document's `text[start:end]`, counted in code points.

    Attributes:
        id: Unique within an index.
        document: The document's id.
        title: The document's title and the headings above the passage, as search, encoder and reader see them.
        text: The slice.
        source: The file the document came from.
        start: Its first character in the document's text.
        end: The one after its last.
        metadata: Facts of the document, and of the passage: `section`, `page`, `line`, `language`.
        blocks: What it consists of; offsets are those of the document.
    """

    id: str
    document: str
    title: str
    text: str
    source: str
    start: int
    end: int
    metadata: Mapping[str, str] = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()

    def block_at(self, place: int) -> Block | None:
        """The block in which a character of the document stands."""
        if not self.blocks:
            return None
        for block in reversed(self.blocks):
            if block.start <= place:
                return block
        return self.blocks[0]

    def place(self, start: int | None = None) -> str:
        """Where the passage stands in its file, in words: `page 212`, `slide 3`, `row 7`, `line 40`, or nothing.

        Args:
            start: A character of the document; by default the passage's first.
        """
        if start is None:
            start = self.start
        block = self.block_at(start)
        kind = self.metadata.get("type", "")
        if block is None:
            return ""
        if block.page:
            return f"{_PAGES.get(kind, 'page')} {block.page}"
        if block.line and kind in _SHEETS:
            return f"row {block.line}"
        if not block.line:
            return ""
        line = block.line
        if kind in WITH_LINES and self.start <= block.start:
            line += len(LINE_END.findall(self.text, block.start - self.start, start - self.start))
        return f"line {line}"

    def where(self, start: int | None = None) -> str:
        """The file and where the passage begins in it, such as `handbook.pdf, page 212` or `notes.md:40`.

        Args:
            start: As for `place`.
        """
        place = self.place(start)
        if place.startswith("line "):
            return f"{self.source}:{place.removeprefix('line ')}"
        return ", ".join(filter(None, (self.source, place)))

    def unwrapped(self) -> str:
        """The text, as long as it is, with spaces for the line breaks within its paragraphs and list items.

        Those are where a file is wrapped. What is left are the ends of paragraphs, items, rows and lines of code.
        """
        if not self.blocks:
            return _WRAP.sub(_in_one_line, self.text)
        parts, at = [], 0
        for block in self.blocks:
            start, end = max(block.start - self.start, at), min(block.end - self.start, len(self.text))
            if block.kind in ("text", "item") and start < end:
                parts += [self.text[at:start], _WRAP.sub(_in_one_line, self.text[start:end])]
                at = end
        return "".join([*parts, self.text[at:]])

    def rows(self) -> list[tuple[int, int]]:
        """Where the rows of tables stand in the passage's text."""
        found = []
        for block in self.blocks:
            if block.kind == "row":
                found.append((max(block.start, self.start) - self.start, min(block.end, self.end) - self.start))
        return found

    def as_dict(self) -> dict[str, Any]:
        """The passage as JSON; `rows` are there where it has some."""
        found = {
            "id": self.id,
            "document": self.document,
            "title": self.title,
            "text": self.text,
            "source": self.source,
            "start": self.start,
            "end": self.end,
            "place": self.place(),
            "metadata": dict(self.metadata),
        }
        if rows := self.rows():
            found["rows"] = rows
        return found


@dataclass(frozen=True, slots=True)
class Hit:
    """A found passage. Scores are always higher-is-better.

    Attributes:
        rank: From 1.
        score: Hits are ranked by this.
        passage: The passage.
        bm25: Its BM25 score, where the mode computed one.
        dense: Its inner product with the question, where the mode computed one.
    """

    rank: int
    score: float
    passage: Passage
    bm25: float | None = None
    dense: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """The hit as JSON; scores that were not computed are left out."""
        found: dict[str, Any] = {"rank": self.rank, "score": self.score}
        if self.bm25 is not None:
            found["bm25"] = self.bm25
        if self.dense is not None:
            found["dense"] = self.dense
        found["passage"] = self.passage.as_dict()
        return found


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The passages found for a question.

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
        """The result as JSON."""
        found: dict[str, Any] = {
            "query": self.question,
            "mode": self.mode,
            "hits": [hit.as_dict() for hit in self.hits],
        }
        if self.note:
            found["note"] = self.note
        return found


@dataclass(frozen=True, slots=True)
class Answer:
    """A span of a passage that answers a question.

    Attributes:
        text: Exactly as it stands in the source: the document's `text[start:end]`.
        confidence: How likely it is right, from 0 to 1.
        hit: The passage it stands in, as it was found.
        start: Its first character in the document's text.
        end: The one after its last.
        score: Answers are ranked by this, higher is better.
        selection: The probability that this passage, of those read, has the answer.
        span: The probability of the span in its passage.
        support: Passages that were read in which the same answer was found.
        features: The scores that confidence was computed from, see `mundap.reader.answers`.
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
        """The answer as JSON."""
        return {
            "text": self.text,
            "confidence": round(self.confidence, 4),
            "passage": self.hit.passage.as_dict(),
            "start": self.start,
            "end": self.end,
            "source": self.hit.passage.source,
            "place": self.hit.passage.place(self.start),
            "score": self.score,
            "selection": self.selection,
            "span": self.span,
            "support": self.support,
            "rank": self.hit.rank,
            "retrieval": self.hit.score,
        }


@dataclass(frozen=True, slots=True)
class AskResult:
    """The answers to a question.

    Attributes:
        question: As it was asked.
        answers: Best first; none if no answer is sure enough.
        guess: The best one that is not sure enough, if there is no other.
        hits: The passages that were found to be read.
        note: Why nothing was read, if so.
        more: How many of the answers that were asked for are left out because they are not sure enough; 0 where only
            one was asked for.
        threshold: How sure an answer had to be.
        readings: The reader's scores for each of the first hits, as far as it read, for `mundap.pipeline.explain`.
    """

    question: str
    answers: tuple[Answer, ...]
    guess: Answer | None = None
    hits: tuple[Hit, ...] = ()
    note: str = ""
    more: int = 0
    threshold: float = 0.0
    readings: tuple[Any, ...] = field(default=(), repr=False, compare=False)

    @property
    def no_answer(self) -> bool:
        """Whether there is no answer."""
        return not self.answers

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON, without hits and readings."""
        found: dict[str, Any] = {
            "question": self.question,
            "answers": [answer.as_dict() for answer in self.answers],
            "no_answer": self.no_answer,
            "guess": None,
        }
        if self.guess is not None:
            found["guess"] = self.guess.as_dict()
        if self.note:
            found["note"] = self.note
        return found


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

    @classmethod
    def of(cls, passage: Passage, score: float = 0.0) -> Self:
        """A passage of an index, as a file has it."""
        return cls(passage.id, passage.title, passage.text, score)


@dataclass(frozen=True, slots=True)
class Question:
    """A question with what is known of its answer.

    Attributes:
        id: As the file gives it, or the row's position from 0.
        text: The question.
        answers: Any one is right. Never blank.
        gold: Passages, or documents, known to answer it.
        start: Where the first answer begins in the text of the first gold passage, if that is known.
        unanswerable: The file says that it has no answer, as SQuAD 2.0 does of some.
    """

    id: str
    text: str
    answers: tuple[str, ...] = ()
    gold: tuple[Context, ...] = ()
    start: int | None = None
    unanswerable: bool = False


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
    """Something that could not be read: a file, or one row of it (`source` is then `file:line`).

    Attributes:
        source: What.
        reason: Why.
        expected: It is not a document (a picture, a font, a binary), so it is only counted.
    """

    source: str
    reason: str
    expected: bool = False

    def as_dict(self) -> dict[str, str]:
        """The record as JSON."""
        return {"source": self.source, "reason": self.reason}


@dataclass(slots=True)
class Skipping:
    """A report of work that skips what cannot be read.

    Attributes:
        skipped: What that was; of more than a thousand, the first thousand.
        skipped_count: How many in all.
        left_out: Files that are no documents, such as pictures, by the reason: not missed, and not among the skipped.
    """

    skipped: list[Skipped] = field(default_factory=list, kw_only=True)
    skipped_count: int = field(default=0, kw_only=True)
    left_out: dict[str, int] = field(default_factory=dict, kw_only=True)

    def skip(self, skipped: Skipped) -> None:
        """Note something unreadable."""
        if skipped.expected:
            self.left_out[skipped.reason] = self.left_out.get(skipped.reason, 0) + 1
            return
        self.skipped_count += 1
        if len(self.skipped) < _MOST_REASONS:
            self.skipped.append(skipped)

    def skipped_as_dict(self) -> dict[str, Any]:
        """What was skipped, as JSON."""
        return {"skipped": [one.as_dict() for one in self.skipped], "skipped_count": self.skipped_count}
