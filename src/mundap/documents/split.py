"""Documents into passages: whole sentences, list items and table rows, or the papers' disjoint 100-word blocks."""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import NamedTuple

from mundap.errors import UsageError
from mundap.records import Block
from mundap.text.scripts import UNSPACED
from mundap.text.sentences import sentence_spans

Span = tuple[int, int]

_LONGEST_WORD = 100
"""A longer run without a space (a base64 blob, a line of Chinese) counts as several words."""

_WORD = re.compile(r"\S+")
_PARAGRAPH = re.compile(r"\S[^\n]*+(?:\n[^\S\n]*+\S[^\n]*+)*+")
_LINE = re.compile(r"\S(?:[^\n]*\S)?")
_OVERLONG = re.compile(rf"(?<!\S)\S{{{_LONGEST_WORD + 1}}}")
_RUN_OF_UNSPACED = re.compile(rf"[{UNSPACED}]{{8}}")
_PIECE = re.compile(rf"[{UNSPACED}]{{1,2}}[^\w\s]*|[^{UNSPACED}]{{1,{_LONGEST_WORD}}}")
_WHOLE = 2  # times the size of a passage: what belongs together is cut only if it is longer than this
_ENOUGH = 0.4  # of the size: a passage that has so much ends where a section ends
_REST = 0.2  # of the size: a passage with less than this joins the one before it
_FULL = 1.25  # times the size: the most that such a join may give


class _Unit(NamedTuple):
    """What is never cut: a sentence, a heading, a list item, a table row, a block of code."""

    start: int
    end: int
    size: int
    heading: bool = False
    section: str = ""


@dataclass(frozen=True, slots=True)
class Splitter:
    """How documents are cut.

    Attributes:
        words: Maximum words per passage. With `sentences` about so many: one long sentence, list item, table row
            or block of code may have twice as many.
        overlap: How many words a passage repeats from the one before it.
        sentences: Cut only between sentences, list items, table rows and blocks of code, and never between a heading
            and what follows it. Otherwise every passage has exactly `words` words, as in the papers. Text without
            spaces between words is always cut at sentences.
        chunks: Maximum passages per document, the rest of it being left out; 0 for no limit. 1 is what ANCE calls
            FirstP, 4 its MaxP.
    """

    words: int = 100
    overlap: int = 0
    sentences: bool = False
    chunks: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.words <= 10_000:
            raise UsageError(f"passages of {self.words} words: choose between 1 and 10000")
        if not 0 <= self.overlap < self.words:
            raise UsageError(f"an overlap of {self.overlap} words must be smaller than {self.words}")
        if self.chunks < 0:
            raise UsageError(f"{self.chunks} chunks: choose 1 or more, or 0 for all of a document")

    def spans(self, text: str, blocks: Sequence[Block] = ()) -> list[Span]:
        """The (start, end) of every passage, in code points; without a limit all words of the text are covered.

        Args:
            text: Of a document.
            blocks: What it consists of, if that is known; otherwise empty lines are taken for ends of paragraphs.
        """
        return list(islice(self._all(text, blocks), self.chunks or None))

    def _all(self, text: str, blocks: Sequence[Block]) -> Iterator[Span]:
        if self.sentences or (not text.isascii() and _RUN_OF_UNSPACED.search(text)):
            yield from self._by_unit(text, blocks)
        elif self.overlap or _OVERLONG.search(text):
            yield from self._by_word(text, 0, len(text))
        else:
            # The common case in one compiled pattern: ten times faster than counting words one by one.
            for match in _block(self.words).finditer(text):
                yield match.span()

    def texts(self, text: str) -> Iterator[str]:
        """Yield the passages themselves, with one space between words."""
        words = text.split()
        plain = not (self.sentences or self.overlap or self.chunks) and max(map(len, words), default=0) <= _LONGEST_WORD
        if plain and (text.isascii() or not _RUN_OF_UNSPACED.search(text)):
            for start in range(0, len(words), self.words):
                yield " ".join(words[start : start + self.words])
        else:
            for start, end in self.spans(text):
                yield " ".join(text[start:end].split())

    def _by_word(self, text: str, start: int, end: int) -> Iterator[Span]:
        window: deque[Span] = deque(maxlen=self.words)
        fresh, needed = 0, self.words  # words that no passage has covered yet, and how many make the next one
        for unit in _units(text, start, end):
            window.append(unit)
            fresh += 1
            if fresh == needed:
                yield window[0][0], window[-1][1]
                fresh, needed = 0, self.words - self.overlap
        if fresh:
            keep = min(len(window), fresh + self.overlap)
            yield window[len(window) - keep][0], window[-1][1]

    def _by_unit(self, text: str, blocks: Sequence[Block]) -> Iterator[Span]:
        """Fill passages with units. The last one is held back until it is known that no small rest joins it."""
        held: list[_Unit] = []
        for group in self._groups(text, blocks):
            size = _size(group)
            small = size < _REST * self.words and _size(held) + size <= _FULL * self.words
            if held and not self.overlap and small and held[-1].section == group[-1].section:
                held += group
                continue
            if held:
                yield held[0].start, held[-1].end
            held = group
        if held:
            yield held[0].start, held[-1].end

    def _groups(self, text: str, blocks: Sequence[Block]) -> Iterator[list[_Unit]]:
        group: list[_Unit] = []
        size = 0
        fresh = False  # whether the group has more than what it repeats from the one before
        for unit in self._cut(text, blocks):
            section_ends = fresh and unit.section != group[-1].section and size >= _ENOUGH * self.words
            full = fresh and size + unit.size > self.words
            if (full or section_ends) and _has_words(group):
                done, headings = _without_last_headings(group)
                yield done
                group = headings
                if not section_ends:
                    group = self._carried(done, unit.size + _size(headings)) + headings
                size = _size(group)
            group.append(unit)
            size += unit.size
            fresh = True
        if fresh:
            yield group

    def _cut(self, text: str, blocks: Sequence[Block]) -> Iterator[_Unit]:
        """The units of a text."""
        most = _WHOLE * self.words
        for block in blocks or (Block(0, len(text)),):
            start, end, kind, section = block[:4]
            if kind != "text":
                size = _count(text[start:end])
                if size <= most:
                    yield _Unit(start, end, size, kind == "heading", section)
                    continue
            pieces = _paragraphs(text, start, end) if kind == "code" else _sentences(text, start, end)
            for left, right in pieces:
                size = _count(text[left:right])
                if size <= most:
                    yield _Unit(left, right, size, False, section)
                else:
                    yield from self._cut_long(text, left, right, section)

    def _cut_long(self, text: str, start: int, end: int, section: str) -> Iterator[_Unit]:
        """Units of a sentence that is too long for a passage: its lines, and of a line that is too long its words."""
        for left, right in _lines(text, start, end):
            size = _count(text[left:right])
            if size <= self.words:
                yield _Unit(left, right, size, False, section)
                continue
            for one in self._by_word(text, left, right):
                yield _Unit(*one, self.words, False, section)

    def _carried(self, group: list[_Unit], needed: int) -> list[_Unit]:
        """The last units of a passage that fit into the overlap, and into the next passage with what it must have."""
        carried: list[_Unit] = []
        left = min(self.overlap, self.words - needed)
        for unit in reversed(group):
            left -= unit.size
            if left < 0:
                break
            carried.insert(0, unit)
        return carried


def _size(units: Sequence[_Unit]) -> int:
    return sum(unit.size for unit in units)


def _has_words(group: list[_Unit]) -> bool:
    """Whether a group has more than headings."""
    return not all(unit.heading for unit in group)


def _without_last_headings(group: list[_Unit]) -> tuple[list[_Unit], list[_Unit]]:
    """A group, and the headings at its end: they belong to what follows."""
    last = len(group)
    while group[last - 1].heading:
        last -= 1
    return group[:last], group[last:]


def _count(piece: str) -> int:
    """How many words; two characters of a script without spaces count as one."""
    if not piece.isascii() and _RUN_OF_UNSPACED.search(piece):
        return sum(1 for _ in _units(piece, 0, len(piece)))
    words = piece.split()
    if len(piece) > _LONGEST_WORD and max(map(len, words), default=0) > _LONGEST_WORD:
        return sum(1 for _ in _units(piece, 0, len(piece)))
    return len(words)


def _sentences(text: str, start: int, end: int) -> Iterator[Span]:
    for left, right in sentence_spans(text[start:end]):
        yield start + left, start + right


def _paragraphs(text: str, start: int, end: int) -> Iterator[Span]:
    """What stands between empty lines: functions, and paragraphs of text that is set as code."""
    for match in _PARAGRAPH.finditer(text, start, end):
        yield match.start(), match.start() + len(match.group().rstrip())


def _lines(text: str, start: int, end: int) -> Iterator[Span]:
    for match in _LINE.finditer(text, start, end):
        yield match.span()


@cache
def _block(words: int) -> re.Pattern[str]:
    return re.compile(rf"\S+(?:\s+\S+){{0,{words - 1}}}")


def _units(text: str, start: int, end: int) -> Iterator[Span]:
    """Words; an overlong one, or one in a script without spaces, in pieces."""
    for match in _WORD.finditer(text, start, end):
        left, right = match.span()
        if right - left < 8 or not (right - left > _LONGEST_WORD or _RUN_OF_UNSPACED.search(text, left, right)):
            yield left, right
        else:
            for piece in _PIECE.finditer(text, left, right):
                yield piece.span()
