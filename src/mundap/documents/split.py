"""Documents into passages: disjoint blocks of 100 words, as in the papers, and some variations."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice

from mundap.errors import UsageError
from mundap.text.scripts import UNSPACED
from mundap.text.sentences import sentence_spans

Span = tuple[int, int]

_LONGEST_WORD = 100
"""A longer run without a space (a base64 blob, a line of Chinese) counts as several words."""

_WORD = re.compile(r"\S+")
_OVERLONG = re.compile(rf"(?<!\S)\S{{{_LONGEST_WORD + 1}}}")
_RUN_OF_UNSPACED = re.compile(rf"[{UNSPACED}]{{8}}")
_PIECE = re.compile(rf"[{UNSPACED}]{{1,2}}[^\w\s]*|[^{UNSPACED}]{{1,{_LONGEST_WORD}}}")


@dataclass(frozen=True, slots=True)
class Splitter:
    """How documents are cut.

    Attributes:
        words: The most words in a passage.
        overlap: How many words a passage repeats from the one before it.
        sentences: End passages where sentences end, as far as their length allows. Text without spaces
            between words is always cut this way.
        chunks: The most passages of a document, the rest of it being left out; 0 for no limit. 1 is what ANCE calls
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

    def spans(self, text: str) -> Iterator[Span]:
        """Yield (start, end) of every passage, in code points; without a limit all words of the text are covered."""
        return islice(self._all(text), self.chunks or None)

    def _all(self, text: str) -> Iterator[Span]:
        if self.sentences or (not text.isascii() and _RUN_OF_UNSPACED.search(text)):
            yield from self._by_sentence(text)
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

    def _by_sentence(self, text: str) -> Iterator[Span]:
        block: list[tuple[Span, int]] = []
        size = 0
        for start, end in sentence_spans(text):
            length = sum(1 for _ in _units(text, start, end))
            if block and size + length > self.words:
                yield block[0][0][0], block[-1][0][1]
                block = self._carried(block) if length <= self.words else []
                size = sum(count for _, count in block)
                if size + length > self.words:
                    block, size = [], 0
            if length > self.words:
                yield from self._by_word(text, start, end)
                continue
            block.append(((start, end), length))
            size += length
        if block:
            yield block[0][0][0], block[-1][0][1]

    def _carried(self, block: list[tuple[Span, int]]) -> list[tuple[Span, int]]:
        """The last sentences of a block that fit into the overlap."""
        carried: list[tuple[Span, int]] = []
        left = self.overlap
        for sentence in reversed(block):
            left -= sentence[1]
            if left < 0:
                break
            carried.insert(0, sentence)
        return carried


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
