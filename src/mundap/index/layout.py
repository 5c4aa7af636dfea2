"""The layout of a segment's documents: blocks, their sections, and the language of each passage.

Four files beside those of `segment.py`. An older index has none of them, and no layout.

    layout.bin      for each document: its first block and its first section
    blocks.bin      for each block: where it stands, what it is, its section (counted from the document's first)
    sections.bin    the section paths, and sections.idx where each begins
    languages.bin   for each passage: a two-letter code, empty if it is not known
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from mundap.records import Block

KINDS = ("text", "heading", "item", "row", "code")
LAYOUT = np.dtype([("block", "<u4"), ("section", "<u4")])
BLOCK = np.dtype(
    [("start", "<u4"), ("end", "<u4"), ("kind", "u1"), ("section", "<u4"), ("page", "<u4"), ("line", "<u4")]
)
LANGUAGE = np.dtype("S3")
_CODES = {kind: code for code, kind in enumerate(KINDS)}


class Layout:
    """The layout of a segment, opened for reading.

    Args:
        table: Gives a file of the segment as an array; an empty one if there is no such file.
        strings: The bytes of sections.bin.
    """

    def __init__(self, table: Callable[[str, Any], np.ndarray], strings: Any) -> None:
        self.documents = table("layout.bin", LAYOUT)
        self.blocks = table("blocks.bin", BLOCK)
        self.languages = table("languages.bin", LANGUAGE)
        self.section_offsets = table("sections.idx", "<u8")
        self.strings = strings

    def range_of(self, document: int) -> tuple[int, int]:
        """The rows of a document's blocks."""
        if document >= len(self.documents):
            return 0, 0
        first = int(self.documents["block"][document])
        is_last = document + 1 == len(self.documents)
        return first, len(self.blocks) if is_last else int(self.documents["block"][document + 1])

    def blocks_of(self, document: int, start: int = 0, end: int = 1 << 32) -> tuple[Block, ...]:
        """The blocks of a document that have a character of the slice."""
        first, until = self.range_of(document)
        if first == until:
            return ()
        rows = self.blocks[first:until]
        left = int(np.searchsorted(rows["end"], start, "right"))
        right = int(np.searchsorted(rows["start"], end, "left"))
        base = int(self.documents["section"][document])
        found = []
        for begins, ends, kind, section, page, line in rows[left:right].tolist():
            found.append(Block(begins, ends, KINDS[kind], self.section(base + section), page, line))
        return tuple(found)

    def section(self, number: int) -> str:
        """A section path."""
        left, right = self.section_offsets[number : number + 2].tolist()
        return bytes(self.strings[left:right]).decode()

    def language(self, passage: int) -> str:
        """The language of a passage; empty if it is not known."""
        if passage >= len(self.languages):
            return ""
        return bytes(self.languages[passage]).decode()


class LayoutWriter:
    """Collects the layout of a segment that is being written."""

    def __init__(self) -> None:
        self._documents: list[tuple[int, int]] = []
        self._blocks: list[np.ndarray] = []
        self._block_count = 0
        self._sections: list[bytes] = []
        self._languages: list[np.ndarray] = []

    def add(self, blocks: Sequence[Block], languages: Sequence[str]) -> None:
        """Add a document with its blocks, and the languages of its passages."""
        self._documents.append((self._block_count, len(self._sections)))
        self._languages.append(np.array(languages, LANGUAGE))
        if not blocks:
            return
        sections: dict[str, int] = {}
        rows = []
        for block in blocks:
            section = sections.setdefault(block.section, len(sections))
            rows.append((block.start, block.end, _CODES[block.kind], section, block.page, block.line))
        self._append(np.array(rows, BLOCK))
        self._sections += [section.encode() for section in sections]

    def copy(self, layout: Layout, documents: Iterable[int], passages: np.ndarray) -> None:
        """Append documents of another segment, and the languages of the passages in the mask.

        A segment without a layout gives documents without blocks.
        """
        for document in documents:
            self._documents.append((self._block_count, len(self._sections)))
            first, until = layout.range_of(document)
            if first == until:
                continue
            rows = layout.blocks[first:until]
            base = int(layout.documents["section"][document])
            count = int(rows["section"].max()) + 1
            offsets = layout.section_offsets[base : base + count + 1].tolist()
            self._sections += [bytes(layout.strings[left:right]) for left, right in pairwise(offsets)]
            self._append(rows)
        if len(layout.languages):
            self._languages.append(layout.languages[passages])
        else:
            self._languages.append(np.zeros(int(passages.sum()), LANGUAGE))

    def _append(self, rows: np.ndarray) -> None:
        self._blocks.append(rows)
        self._block_count += len(rows)

    def tables(self) -> dict[str, np.ndarray]:
        """The files to write."""
        offsets = np.zeros(len(self._sections) + 1, "<u8")
        np.cumsum([len(section) for section in self._sections], out=offsets[1:])
        return {
            "layout.bin": np.array(self._documents, LAYOUT),
            "blocks.bin": np.concatenate([np.empty(0, BLOCK), *self._blocks]),
            "sections.idx": offsets,
            "sections.bin": np.frombuffer(b"".join(self._sections), np.uint8),
            "languages.bin": np.concatenate([np.empty(0, LANGUAGE), *self._languages]),
        }
