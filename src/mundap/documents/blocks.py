"""Blocks: what a file is made of (headings, paragraphs, list items, table rows, code), and text built of them."""

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from mundap.documents.files import MAX_FILE, SourceFile, Unreadable
from mundap.records import Block, Document
from mundap.text.sections import SEPARATOR

_LONGEST_HEADING = 120  # characters: a longer one is a paragraph that somebody made bold
_LONGEST_ROW = 200  # words: what is longer is cut between sentences
MOST_COLUMNS = 200
"""A wider row of a table is cut: nobody reads it, and a repeat count of millions costs a file nothing."""

_NUMBER = re.compile(r"[\d.,:%/ +-]+")
_PACKED = re.compile(r"\.(?:gz|bz2|xz|zst)$", re.IGNORECASE)
_SUFFIX = re.compile(r"(?<=.)\.[a-z][a-z0-9]*$", re.IGNORECASE)  # not the rest of `St. Louis` or of `Release 1.2`
_TOGETHER = ("item", "row")  # kinds that follow each other line by line, without an empty line between them


class Builder:
    """Builds the text of a document block by block, and remembers where each block stands and under which headings.

    Args:
        most: How many characters it may have. A packed file can name the same long text as often as it likes.
    """

    def __init__(self, most: int = MAX_FILE) -> None:
        self._most = most
        self.blocks: list[Block] = []
        self.page = 0
        self._parts: list[str] = []
        self._length = 0
        self._path: list[tuple[int, str]] = []
        self._section = ""

    def section(self, name: str, level: int) -> None:
        """Begin a section; it ends those of the same level and below."""
        name = " ".join(name.split())[:_LONGEST_HEADING]
        while self._path and self._path[-1][0] >= level:
            self._path.pop()
        if name:
            self._path.append((level, name))
        self._section = SEPARATOR.join(heading for _, heading in self._path)

    def heading(self, text: str, level: int, line: int = 0) -> None:
        """Add a heading and begin its section. Level 1 is the outermost."""
        if len(text) > _LONGEST_HEADING:
            self.add("text", text, line)
        elif text.strip():
            self.section(text, level)
            self.add("heading", text, line)

    def add(self, kind: str, text: str, line: int = 0) -> None:
        """Add a block; one without a word is left out."""
        text = text.strip("\n").rstrip() if kind == "code" else text.strip()
        if not text:
            return
        if self.blocks:
            together = kind in _TOGETHER and self.blocks[-1].kind == kind
            separator = "\n" if together else "\n\n"
            self._parts.append(separator)
            self._length += len(separator)
        start = self._length
        self._parts.append(text)
        self._length += len(text)
        if self._length > self._most:
            raise Unreadable(f"more than {self._most:,} characters of text, far more than a file of its size has")
        self.blocks.append(Block(start, self._length, kind, self._section, self.page, line))

    def row(self, header: Sequence[str], cells: Sequence[str], line: int = 0) -> None:
        """Add a row of a table, each cell with the words of its header. Whole pages in a cell are text, not a row."""
        text = _row_text(header, cells)
        is_short = len(text) < _LONGEST_ROW or len(text.split()) <= _LONGEST_ROW
        self.add("row" if is_short else "text", text, line)

    def text(self) -> str:
        """All blocks so far."""
        return "".join(self._parts)


class Table:
    """Collect the rows of a table, and detect whether the first one is a header."""

    def __init__(self, built: Builder) -> None:
        self._built = built
        self._header: list[str] | None = None
        self._header_line = 0
        self._rows = 0

    def header(self, cells: list[str], line: int = 0) -> None:
        """A row that the file marks as a header; the last one counts."""
        self._header, self._header_line = cells[:MOST_COLUMNS], line

    def row(self, cells: list[str], line: int = 0) -> None:
        """Any other row."""
        cells = cells[:MOST_COLUMNS]
        if self._header is None and looks_like_header(cells):
            self.header(cells, line)
        else:
            self.plain(cells, line)

    def plain(self, cells: list[str], line: int = 0) -> None:
        """A row that is no header, for the file marks those."""
        self._header = self._header or []
        self._built.row(self._header, cells[:MOST_COLUMNS], line)
        self._rows += 1

    def end(self) -> None:
        """A header without rows is the table's only row."""
        if not self._rows and self._header:
            self._built.row([], self._header, self._header_line)


def looks_like_header(cells: Sequence[str]) -> bool:
    """Whether a table's first row names its columns: short words, all different, no numbers."""
    names = [cell.strip() for cell in cells if cell.strip()]
    if len(names) < 2 or len(names) < len(cells) - 1 or len(set(names)) < len(names):
        return False
    return all(len(name) <= 60 and not _NUMBER.fullmatch(name) for name in names)


def _row_text(header: Sequence[str], cells: Sequence[str]) -> str:
    """A row of a table as a sentence of sorts: `Item: columns per table; Upper Limit: 1,600`.

    A table of two columns without a header is read as names and values: `columns per table: 1,600`.
    """
    values = [" ".join(cell.split()) for cell in cells]
    names = [" ".join(name.split()).rstrip(":") for name in header]
    if not any(names):
        filled = [value for value in values if value]
        return ": ".join(filled) if len(values) == 2 else "; ".join(filled)
    parts = []
    for value, name in zip_longest(values, names[: len(values)], fillvalue=""):
        if value:
            parts.append(value if name in ("", value) else f"{name}: {value}")
    return "; ".join(parts)


def make_document(
    file: SourceFile,
    built: Builder,
    form: str,
    title: str = "",
    facts: dict[str, Any] | None = None,
    name: str = "",
) -> Document:
    """Make a document from the blocks that were built.

    Args:
        file: Where it comes from.
        built: Its blocks.
        form: The name of the format; kept as the fact `type`.
        title: As the file has it; by default made of the file's name.
        facts: What else the file says of itself; what is empty is left out.
        name: The id, where a file has several documents.

    Raises:
        Unreadable: It has no text.
    """
    if not built.blocks:
        raise Unreadable("no text in it")
    metadata = {"type": form}
    for key, value in (facts or {}).items():
        if plain := _plain(value):
            metadata[key] = plain
    title = " ".join(title.split())[:300] or name_as_title(file.id)
    return Document(name or file.id, built.text(), title, file.source, metadata, blocks=tuple(built.blocks))


def first_heading(built: Builder) -> str:
    """The words of the first heading, which is a document's title if it has no other; empty if there is none."""
    for block in built.blocks:
        if block.kind == "heading":
            return built.text()[block.start : block.end]
    return ""


def name_as_title(name: str) -> str:
    """The name of a file as a title: without folders, suffix, underscores and hyphens."""
    last = _PACKED.sub("", name.rpartition("/")[2])
    return _SUFFIX.sub("", last).replace("_", " ").replace("-", " ").strip() or name


def _plain(value: Any) -> str:
    """A value as text: scalars, and flat lists of them. Deeper structures are left out; aliases can be endless."""
    if isinstance(value, list):
        return ", ".join(str(part) for part in value[:100] if not isinstance(part, list | dict))[:1000]
    if value is None or isinstance(value, dict):
        return ""
    return str(value)[:1000]
