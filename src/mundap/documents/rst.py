"""ReStructuredText, read line by line: headings, paragraphs, lists, tables, code, notes."""

import csv
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from mundap.documents.blocks import Builder, Table, first_heading, make_document
from mundap.documents.files import SourceFile, decode
from mundap.documents.markup import ADORNMENT, Paragraphs, inline
from mundap.records import Document

_ITEM = re.compile(r"^\s*(?:[-*+•]|\(?(?:\d{1,3}|#|[a-zA-Z])[.)])\s+(?=\S)")
_RST_INLINE = (
    (re.compile(r":[\w:+.-]{1,40}:`(?:[!~])?([^`<]*?)\s*(?:<[^`>]*>)?`"), r"\1"),
    (re.compile(r"``([^`]+)``"), r"\1"),
    (re.compile(r"`([^`<]+?)\s*(?:<[^`>]*>)?`_{0,2}"), r"\1"),
    (re.compile(r"\*\*([^*\n]+)\*\*"), r"\1"),
    (re.compile(r"(?<![\w*])\*([^*\n]+)\*(?![\w*])"), r"\1"),
    (re.compile(r"\|([^|\n]+)\|_{0,2}"), r"\1"),
    (re.compile(r"\[#?[\w*-]{0,30}\]_"), ""),
    (re.compile(r"\\(.)"), r"\1"),
)
_DIRECTIVE = re.compile(r"^\.\.\s+(?:\|[^|]+\|\s+)?([\w:-]+)::\s*(.*)$")
_READ_DIRECTIVES = frozenset(
    "note warning tip important caution danger hint attention seealso admonition topic versionadded versionchanged "
    "deprecated rubric glossary sidebar epigraph class function method attribute data option envvar confval "
    "py:class py:function py:method describe".split()
)
_CODE_DIRECTIVES = frozenset(("code", "code-block", "sourcecode", "literalinclude", "parsed-literal", "doctest"))
_WITH_TEXT = frozenset("note warning tip important versionadded versionchanged deprecated".split())  # on the same line
_FIELD = re.compile(r"^\s*:[\w -]{1,40}:(?:\s|$)")
_SIMPLE_BORDER = re.compile(r"^\s*=+(?: +=+)+\s*$")
_GRID_BORDER = re.compile(r"^\s*\+(?:[-=]+\+)+\s*$")
_TABLE_DIRECTIVES = frozenset(("list-table", "csv-table"))

_Rows = list[tuple[int, list[str]]]  # how many lines below the first, and the cells


def read_rst(file: SourceFile) -> Iterator[Document]:
    """The text of a reStructuredText file."""
    reader = _Reader(decode(file.read()).splitlines())
    reader.run()
    yield make_document(file, reader.built, "rst", first_heading(reader.built))


class _Reader:
    """Goes through the lines once."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.built = Builder()
        self.block = Paragraphs(self.built)
        self.levels: list[str] = []  # the marks of headings, the outermost first
        self.literal = -1  # the indent of the line that began a literal block
        self.hidden = -1  # the same of what is not read
        self.done = 0  # lines up to here have been read, as a table
        self.may_end = True  # whether there may be another end of a simple table

    def run(self) -> None:
        """Read all of it."""
        for number, line in enumerate(self.lines, 1):
            if number <= self.done:
                continue
            if not line.strip():
                self._blank(number)
            elif not self._goes_on(line, number):
                self._line(line, number)
        self.block.flush()

    def _blank(self, number: int) -> None:
        if self.literal < 0:
            self.block.flush()
        elif self.block.lines:
            self.block.take("", number)

    def _goes_on(self, line: str, number: int) -> bool:
        """Whether a line belongs to a literal block, or to one that is not read."""
        indent = _indent(line)
        if self.hidden >= 0 and indent > self.hidden:
            return True
        self.hidden = -1
        if self.literal < 0:
            return False
        if indent > self.literal:
            self.block.take(line, number)
            return True
        self.block.flush()
        self.literal = -1
        return False

    def _line(self, line: str, number: int) -> None:
        if match := ADORNMENT.match(line):
            self._heading(match.group(1), number)
        elif line.lstrip().startswith(".. ") or line.strip() == "..":
            self.block.flush()
            self._directive(line, number)
        elif _FIELD.match(line):
            self._field(line, number)
        elif end := self._end_of_table(line, number):
            self.block.flush()
            self._drawn_table(number, end)
        else:
            self._text(line, number)

    def _text(self, line: str, number: int) -> None:
        text = inline(line, _RST_INLINE)
        kind = "item" if _ITEM.match(line) else ""
        if not line.rstrip().endswith("::"):
            self.block.take(_ITEM.sub("", text), number, kind)
            return
        text = text.rstrip()[:-1] if line.strip() != "::" else ""
        self.block.take(text, number, kind)
        self.block.flush()
        self.literal, self.block.kind = _indent(line), "code"

    def _heading(self, mark: str, number: int) -> None:
        """A line of marks: under a heading, above one, or between two parts."""
        block = self.block
        above = block.lines[0] if len(block.lines) == 1 else ""
        if not above or above.startswith(" "):
            block.flush()
            return
        overlined = number > 2 and ADORNMENT.match(self.lines[number - 3])
        style = mark * 2 if overlined else mark
        if style not in self.levels:
            self.levels.append(style)
        block.lines = []
        self.built.heading(above.strip(), self.levels.index(style) + 1, number - 1)

    def _directive(self, line: str, number: int) -> None:
        """What follows `..`."""
        match = _DIRECTIVE.match(line.strip())
        if match is None:
            self._comment(line, number)
            return
        name, argument = match.groups()
        if name in _CODE_DIRECTIVES:
            self.block.kind = "code"
            self.literal = _indent(line)
        elif name in _TABLE_DIRECTIVES:
            self._table_directive(name, argument, number)
        elif name not in _READ_DIRECTIVES:
            self.hidden = _indent(line)
        elif argument:
            self.block.take(inline(argument, _RST_INLINE), number)
            if name not in _WITH_TEXT:
                self.block.flush()

    def _comment(self, line: str, number: int) -> None:
        """A comment, a target, or a footnote, which alone has words."""
        if note := re.match(r"^\.\.\s+\[[^\]]+\]\s+(.*)", line.strip()):
            self.block.take(inline(note.group(1), _RST_INLINE), number)
        else:
            self.hidden = _indent(line)

    def _field(self, line: str, number: int) -> None:
        """A field `:name: value`; options of directives have no words."""
        name, _, value = line.strip().strip(":").partition(":")
        if value.strip() and " " in value.strip():
            self.block.take(f"{name}: {inline(value.strip(), _RST_INLINE)}", number, "item")

    def _end_of_table(self, line: str, number: int) -> int:
        """The number of the last line of a table that begins on this one; 0 if none does."""
        if _GRID_BORDER.match(line):
            while number < len(self.lines) and self.lines[number].lstrip().startswith(("+", "|")):
                number += 1
            return number
        if not self.may_end or not _SIMPLE_BORDER.match(line):
            return 0
        for place in range(number, len(self.lines)):
            is_last = place + 1 == len(self.lines) or not self.lines[place + 1].strip()
            if is_last and _SIMPLE_BORDER.match(self.lines[place]):
                return place + 1
        self.may_end = False  # nor need it be looked for again
        return 0

    def _drawn_table(self, first: int, last: int) -> None:
        """A table drawn with lines."""
        drawn = [_widened(line) for line in self.lines[first - 1 : last]]
        header, rows = (_grid_rows if drawn[0].lstrip().startswith("+") else _simple_rows)(drawn)
        self._add_table(header, rows, first)
        self.done = last

    def _table_directive(self, name: str, caption: str, number: int) -> None:
        """A table as a list of lists, or as CSV."""
        indent, last = _indent(self.lines[number - 1]), number
        while last < len(self.lines) and (not self.lines[last].strip() or _indent(self.lines[last]) > indent):
            last += 1
        self.built.add("heading", inline(caption, _RST_INLINE), number)
        header, rows = (_list_rows if name == "list-table" else _csv_rows)(self.lines[number:last])
        self._add_table(header, rows, number + 1)
        self.done = last

    def _add_table(self, header: Sequence[str], rows: _Rows, first: int) -> None:
        table = Table(self.built)
        if header:
            table.header([inline(cell, _RST_INLINE) for cell in header], first)
        for below, cells in rows:
            table.plain([inline(cell, _RST_INLINE) for cell in cells], first + below)
        table.end()


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _widened(line: str) -> str:
    """A line whose places are columns: Korean, Chinese and Japanese letters take two."""
    if line.isascii():
        return line
    return "".join(f"{one}\0" if unicodedata.east_asian_width(one) in "WF" else one for one in line)


def _joined(above: Sequence[str], below: Sequence[str]) -> list[str]:
    """The cells of two lines that are one row."""
    pairs = zip_longest(above, below, fillvalue="")
    return [" ".join(filter(None, (one.replace("\0", "").strip() for one in pair))) for pair in pairs]


def _simple_rows(lines: list[str]) -> tuple[list[str], _Rows]:
    """Header and rows between lines of `====  ====`; a row whose first cell is empty goes on with the one above."""
    starts = [match.start() for match in re.finditer(r"=+", lines[0])]
    header: list[str] = []
    rows: _Rows = []
    for below, line in enumerate(lines[1:-1], 1):
        if _SIMPLE_BORDER.match(line):
            for _, cells in rows:
                header = _joined(header, cells)
            rows = []
            continue
        if not line.strip(" -"):
            continue
        cells = [line[start:end].strip() for start, end in zip_longest(starts, starts[1:])]
        if cells[0] or not rows:
            rows.append((below, _joined(cells, [])))
        else:
            rows[-1] = (rows[-1][0], _joined(rows[-1][1], cells))
    return header, rows


def _grid_rows(lines: list[str]) -> tuple[list[str], _Rows]:
    """Header and rows between lines of `+----+----+`; the header ends with `+====+`."""
    header: list[str] = []
    rows: _Rows = []
    cells: list[str] = []
    begun = 0
    for below, line in enumerate([*lines, ""]):  # the last border may be missing
        bare = line.strip()
        if bare.startswith("|"):
            begun = begun or below
            cells = _joined(cells, bare.strip("|").split("|"))
            continue
        if any(cells):
            rows.append((begun, cells))
        cells, begun = [], 0
        if "=" in bare and not header:
            for _, above in rows:
                header = _joined(header, above)
            rows = []
    return header, rows


def _list_rows(lines: list[str]) -> tuple[list[str], _Rows]:
    """Rows `* - cell`, the next cells of which are `- cell`."""
    rows: _Rows = []
    dash, headers = 0, 0
    for below, line in enumerate(lines):
        if begins := re.match(r"^(\s*\*\s+)-(?:\s|$)", line):
            dash = len(begins.group(1))
            rows.append((below, [line[dash + 1 :].strip()]))
        elif rows and re.match(r"-(?:\s|$)", line[dash:]) and _indent(line) == dash:
            rows[-1][1].append(line[dash + 1 :].strip())
        elif rows:
            cells = rows[-1][1]
            cells[-1] = f"{cells[-1]} {line.strip()}".strip()
        elif option := re.match(r"^\s*:header-rows:\s*(\d)", line):
            headers = int(option.group(1))
    header: list[str] = []
    for _, cells in rows[:headers]:
        header = _joined(header, cells)
    return header, rows[headers:]


def _csv_rows(lines: list[str]) -> tuple[list[str], _Rows]:
    """Rows of CSV, after the options."""
    header: list[str] = []
    rows: _Rows = []
    headers = 0
    for below, line in enumerate(lines):
        if option := re.match(r"^\s*:header:\s*(.*)", line):
            header = _csv_cells(option.group(1))
        elif option := re.match(r"^\s*:header-rows:\s*(\d)", line):
            headers = int(option.group(1))
        elif line.strip() and not _FIELD.match(line):
            rows.append((below, _csv_cells(line)))
    for _, cells in rows[:headers]:
        header = _joined(header, cells)
    return header, rows[headers:]


def _csv_cells(line: str) -> list[str]:
    if len(line) > csv.field_size_limit():
        return [line]
    return next(csv.reader([line.strip()], skipinitialspace=True), [])
