"""PDF: the text layer in reading order, without running heads, with the page of every block. By PDFium."""

import ctypes
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from mundap.documents.blocks import Builder, make_document
from mundap.documents.files import SourceFile, Unreadable
from mundap.records import Document

_LIGATURES = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st", "\ufffe": "\x02", "\xa0": " "}
)
_HYPHENS = ("\x02", "\xad", "-", "‐")
_HYPHENATED = re.compile(r"(\w+)\x02\s*(\w+)")  # PDFium's mark for a hyphen at the end of a line
_BULLET = re.compile(r"^(?:[•‣◦▪●∙–*·-]|\(?(?:\d{1,2}|[a-z])[.)])\s+(?=\S)")
_MONOSPACE = re.compile(rb"mono|courier|typewriter|cmtt|consol|menlo|sftt|lmtt", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:^|\s)(\(?)\S*(?:https?|ftp)://\S*$")
_ADDRESS_BREAKS = ("/", ".", "-", "@", "=", "?", "&", "_", "#", "\x02")
_PAGE_NUMBER = re.compile(
    r"^[\s–—|-]*(?:page\s*)?(?:\d{1,5}|[ivxlc]{1,7})(?:\s*(?:/|of)\s*\d{1,5})?[\s–—|-]*$", re.IGNORECASE
)
_NUMBERS = re.compile(r"[0-9]+|\b[ivxlc]+\b")
_IDEOGRAPH = re.compile("[\u2e80-\uabff\uf900-\uffef]")  # set apart to fill a line; Korean has spaces
_HEAD = 3  # lines at the top and at the bottom of a page that may be running heads
_REPEATED = 3  # pages that must have such a line, apart from its numbers
_COLUMN = 6  # lines that a column has at least
_MOST_PAGES = 20_000
_SENTENCE_END = (".", "!", "?", ":", "。", '"', "”", ")")
_LARGER = 1.15  # times the size of the text: a heading
_GAP = 0.115  # times the size of the letters: a wider gap stands between words (measured: benchmarks/README.md)
_TIGHT = re.compile(r"[/_(\[{-].|.[.,;:!?)\]}/_%’-]")  # no space stands here, whatever the gap
_SPLIT = re.compile(r"[^\W\d_] [^\W\d_]")
_OVERLAP = 0.1  # times the size: letters that overlap so much at most are of one word, whatever PDFium thinks


class _Line(NamedTuple):
    """A line of a page with its place, in points from the lower left corner."""

    text: str
    left: float
    right: float
    top: float
    size: float
    mono: bool


class _Layout(NamedTuple):
    """How a page is set: from line to line, and where its lines end."""

    usual_gap: float
    right_edge: float


class _Entry(NamedTuple):
    """An entry of the table of contents that a PDF carries."""

    page: int
    top: float
    level: int
    title: str


def read_pdf(file: SourceFile) -> Iterator[Document]:
    """The text layer of a PDF, block by block."""
    import logging

    import pypdfium2 as pdfium

    logging.getLogger("pypdfium2").setLevel(logging.CRITICAL)
    data = file.read()
    try:
        opened = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if "password" in str(error).lower():
            raise Unreadable("password-protected PDF: save a copy without the password") from error
        raise Unreadable(f"not a readable PDF ({error})") from error
    try:
        pages = [_lines(opened, number) for number in range(min(len(opened), _MOST_PAGES))]
        contents = _contents(opened)
        facts = opened.get_metadata_dict(skip_empty=True)
    finally:
        opened.close()
    if not any(pages):
        raise Unreadable("no text in this PDF: it may be scanned pictures and need OCR first")
    built = _build(_without_running_heads(pages), contents)
    yield make_document(file, built, "pdf", facts.get("Title", ""), {"author": facts.get("Author", "")})


def _lines(opened: Any, number: int) -> list[_Line]:
    """The lines of a page; none if the page is broken."""
    import pypdfium2 as pdfium

    try:
        page = opened[number]
        textpage = page.get_textpage()
    except pdfium.PdfiumError:
        return []
    text = textpage.get_text_range()
    spans = [match.span() for match in re.finditer(r"\S(?:[^\r\n]*\S)?", text)]
    measure = _Measure(textpage, text)
    sample = spans[:: max(1, len(spans) // 10)]
    if len(spans) >= _COLUMN and sum(len(measure.parts(*span)) == 2 for span in sample) >= 0.6 * len(sample):
        # Two columns that the file has row by row: PDFium takes each row for one line.
        spans = [part for span in spans for part in measure.parts(*span)]
    lines = [line for span in spans if (line := measure.line(*span)) is not None]
    textpage.close()
    page.close()
    return _in_columns(lines)


class _Measure:
    """Asks PDFium where the characters of a page stand."""

    def __init__(self, textpage: Any, text: str) -> None:
        import pypdfium2.raw as raw

        self._raw = raw
        self._page = textpage
        self._text = text
        self._box = raw.FS_RECTF()
        # Characters beyond the first plane take two places in PDFium's count: no gap can be told from its place.
        self._aligned = raw.FPDFText_CountChars(textpage) == len(text)
        self._name = ctypes.create_string_buffer(64)
        self._flags = ctypes.c_int()

    def _edges(self, place: int) -> tuple[float, float]:
        self._raw.FPDFText_GetLooseCharBox(self._page, place, self._box)
        return self._box.left, self._box.right

    def parts(self, start: int, end: int) -> list[tuple[int, int]]:
        """The pieces of a line between wide gaps."""
        self._edges(start)
        wide = 2 * abs(self._box.top - self._box.bottom)
        found = []
        for space in re.finditer(r"\s+", self._text[start:end]):
            before, after = start + space.start(), start + space.end()
            if self._edges(after)[0] - self._edges(before - 1)[1] > wide:
                found.append((start, before))
                start = after
        return [*found, (start, end)]

    def line(self, start: int, end: int) -> _Line | None:
        """A line with its place and its letters."""
        if not self._raw.FPDFText_GetLooseCharBox(self._page, start, self._box):
            return None
        left, top, size = self._box.left, self._box.top, abs(self._box.top - self._box.bottom)
        right = self._edges(end - 1)[1]
        mono = True
        for place in (start, end - 1):  # a line of code is code from end to end
            self._raw.FPDFText_GetFontInfo(self._page, place, self._name, 64, self._flags)
            mono = mono and bool(_MONOSPACE.search(self._name.value) or self._flags.value & 1)
        words = self._text[start:end]
        if self._aligned and not mono and not _IDEOGRAPH.search(words):
            words = self._words(start, end)
        return _Line(words.translate(_LIGATURES), left, right, top, round(size, 1), mono)

    def _words(self, start: int, end: int) -> str:
        """The words of a line. Many programs place words and write no spaces, and PDFium overlooks narrow gaps."""
        missing: list[int] = []
        wrong: list[int] = []
        for place, gap, is_next in self._gaps(start, end):
            if is_next:
                if gap > _GAP and not _TIGHT.fullmatch(self._text, place - 1, place + 1):
                    missing.append(place)
            elif -_OVERLAP < gap < 0 and _SPLIT.fullmatch(self._text, place - 2, place + 1):
                wrong.append(place)
        if 3 * len(missing) > end - start:  # letters set apart, for show
            missing = []
        return self._respaced(start, end, missing, wrong)

    def _respaced(self, start: int, end: int, missing: list[int], wrong: list[int]) -> str:
        """A line with a space before some places and without the one before others."""
        pieces = []
        for left, right in pairwise([start, *sorted(missing + wrong), end]):
            pieces.append(self._text[left : right - 1] if right in wrong else self._text[left:right])
            if right in missing:
                pieces.append(" ")
        return "".join(pieces)

    def _gaps(self, start: int, end: int) -> Iterator[tuple[int, float, bool]]:
        """The gap before each character of a line that has one before it, or one space and then one.

        Yields its place, the gap in sizes of the letters, and whether there is no space between.
        """
        box, page, text = self._box, self._page, self._text
        get = self._raw.FPDFText_GetLooseCharBox
        right = bottom = 0.0
        last = -9
        for place in range(start, end):
            if text[place].isspace():
                continue
            get(page, place, box)
            size = box.top - box.bottom
            if last >= place - 2 and size > 0 and abs(box.bottom - bottom) < 0.3 * size:
                yield place, (box.left - right) / size, last == place - 1
            right, bottom, last = box.right, box.bottom, place


def _in_columns(lines: list[_Line]) -> list[_Line]:
    """Lines of two columns one column after the other, if the file has them row by row."""
    if len(lines) < 2 * _COLUMN:
        return lines
    middle = (min(line.left for line in lines) + max(line.right for line in lines)) / 2
    left = sum(line.right <= middle + 5 for line in lines)
    right = sum(line.left >= middle - 5 for line in lines)
    has_columns = min(left, right) >= 5 and left + right >= 0.8 * len(lines)
    if has_columns and _changes_of_side(lines, middle) >= 0.4 * len(lines):
        return _column_by_column(lines, middle)
    return lines  # one column, or each column already stands together


def _changes_of_side(lines: list[_Line], middle: float) -> int:
    sides = [line.left >= middle - 5 for line in lines]
    return sum(before != after for before, after in pairwise(sides))


def _column_by_column(lines: list[_Line], middle: float) -> list[_Line]:
    ordered: list[_Line] = []
    waiting: list[_Line] = []
    for line in lines:
        if line.left < middle - 5 and line.right > middle + 5:  # across both columns, such as a heading
            ordered += [*waiting, line]
            waiting = []
        elif line.left >= middle - 5:
            waiting.append(line)
        else:
            ordered.append(line)
    return ordered + waiting


def _contents(opened: Any) -> list[_Entry]:
    """The table of contents, in the order of the pages."""
    import pypdfium2 as pdfium

    found: list[_Entry] = []
    try:
        for bookmark in opened.get_toc(max_depth=15):
            target = bookmark.get_dest()
            page = target.get_index() if target is not None else None
            if page is None or bookmark.level > 4 or len(found) > 10_000:
                continue
            _, place = target.get_view()
            top = float(place[1]) if len(place) > 1 and place[1] is not None else 1e9
            found.append(_Entry(page, top, bookmark.level + 1, bookmark.get_title()))
    except (pdfium.PdfiumError, ValueError, RecursionError):
        return []
    found.sort(key=lambda entry: (entry.page, -entry.top))
    return found


def _without_running_heads(pages: list[list[_Line]]) -> list[list[_Line]]:
    """Pages without the lines at their edges that are numbers, have the number of the page, or come on many pages."""
    repeated = _repeated_patterns(pages)
    known = _known_shifts(pages)
    kept = []
    for number, lines in enumerate(pages):
        heads = [line for line in _edges(lines, _HEAD) if _pattern(line) in repeated]
        heads += [line for line in _edges(lines, 1) if _is_numbered(line, number, known)]
        left_out = set(map(id, heads))
        kept.append([line for line in lines if id(line) not in left_out])
    return kept


def _repeated_patterns(pages: list[list[_Line]]) -> set[str]:
    """What stands at the edges of many pages."""
    counts: Counter[str] = Counter()
    for lines in pages:
        counts.update({_pattern(line) for line in _edges(lines, _HEAD)})
    least = max(_REPEATED, min(len(pages) // 20, 10))
    return {pattern for pattern, count in counts.items() if count >= least}


def _known_shifts(pages: list[list[_Line]]) -> set[int]:
    """How far the printed number of a page is from its place in the file, where many pages agree."""
    counts: Counter[int] = Counter()
    for number, lines in enumerate(pages):
        counts.update({shift for line in _edges(lines, 1) for shift in _shifts(line, number)})
    least = max(_REPEATED, len(pages) // 5)
    return {shift for shift, count in counts.items() if count >= least}


def _is_numbered(line: _Line, number: int, known: set[int]) -> bool:
    """Whether a line is a page's number, or has it in it."""
    return bool(_PAGE_NUMBER.match(line.text) or known.intersection(_shifts(line, number)))


def _edges(lines: list[_Line], count: int) -> list[_Line]:
    """So many lines at the top of a page and at its bottom, fewer of a page that has only a few."""
    ordered = sorted(lines, key=lambda line: -line.top)
    count = min(count, max(1, len(lines) // 6))
    return ordered[:count] + ordered[max(count, len(ordered) - count) :]


def _shifts(line: _Line, number: int) -> list[int]:
    """What the numbers at a line's beginning and end have more than the page."""
    words = line.text.split()
    found = {word for word in (words[0], words[-1]) if word.isdecimal() and len(word) < 6}
    return [int(word) - number for word in found]


def _pattern(line: _Line) -> str:
    """A line without its numbers, at its height on the page."""
    words = _NUMBERS.sub("#", line.text.strip())
    return f"{words}@{round(line.top / 4)}"


def _build(pages: list[list[_Line]], contents: list[_Entry]) -> Builder:
    built = Builder()
    sizes: Counter[float] = Counter()
    vocabulary: set[str] = set()
    for lines in pages:
        for line in lines:
            sizes[line.size] += len(line.text)
            vocabulary.update(line.text.lower().split())
    body = sizes.most_common(1)[0][0] if sizes else 0.0
    headings = sorted((size for size in sizes if size >= _LARGER * body), reverse=True)
    joiner = _Paragraphs(built, vocabulary, body, headings, contents)
    for number, lines in enumerate(pages, 1):
        joiner.page(number, lines)
    joiner.flush()
    return built


def _address_goes_on(text: str, line: str) -> bool:
    """Whether a web address at the end of a text goes on in the next line: LaTeX breaks them after such marks."""
    address = _ADDRESS.search(text[-300:])
    if address is None:
        return False
    following = line.split(maxsplit=1)[0] if line.strip() else ""
    if text.endswith("/") and not text.endswith("://"):
        # It may be complete; what follows must look like a part of one, or close the bracket before it.
        is_part = re.search(r"[/._#?=&]\w", following) or following.rstrip(".,;:)").endswith("/")
        return bool(is_part or (address[1] and ")" in following))
    return following[:1].isalnum() and not following[0].isupper()


class _Paragraphs:
    """Joins lines to paragraphs: over the ends of lines, columns and pages."""

    def __init__(
        self, built: Builder, vocabulary: set[str], body: float, headings: list[float], contents: list[_Entry]
    ) -> None:
        self.built = built
        self.vocabulary = vocabulary
        self.body = body
        self.headings = headings
        self.contents = contents
        self.next_entry = 0
        self.text = ""
        self.kind = "text"
        self.size = 0.0
        self.begun_on = 0

    def page(self, number: int, lines: list[_Line]) -> None:
        """Take the lines of a page."""
        if not lines:
            return
        look = self._layout(lines)
        before: _Line | None = None
        for line in lines:
            begins = self._enter(number, line)
            if begins or self._begins(line, before, look):
                self.flush()
                self.begun_on = number
                self.kind = self._kind(line)
                self.size = line.size
            self._join(line.text.strip() if self.kind != "code" else line.text)
            before = line

    def _layout(self, lines: list[_Line]) -> _Layout:
        gaps = [before.top - after.top for before, after in pairwise(lines)]
        usual = median([gap for gap in gaps if 0 < gap < 4 * self.body] or [1.2 * self.body])
        return _Layout(usual, max(line.right for line in lines))

    def _kind(self, line: _Line) -> str:
        if line.size >= _LARGER * self.body and len(line.text) < 120 and any(map(str.isalpha, line.text)):
            return "heading"
        if _BULLET.match(line.text.strip()):
            return "item"
        return "code" if line.mono else "text"

    def _enter(self, number: int, line: _Line) -> bool:
        """Begin the sections that the table of contents has here; returns whether there is one."""
        entered = False
        while self.next_entry < len(self.contents):
            entry = self.contents[self.next_entry]
            if (entry.page + 1, -entry.top) > (number, -line.top + line.size):
                break
            if not entered:
                self.flush()
            self.built.section(entry.title, entry.level)
            self.next_entry += 1
            entered = True
        return entered

    def _begins(self, line: _Line, before: _Line | None, look: _Layout) -> bool:
        """Whether a line begins a new block."""
        if not self.text:
            return True
        kind = self._kind(line)
        if kind == "heading" or self.kind == "heading":
            return kind != self.kind or abs(line.size - self.size) > 0.5
        if kind == "item" or (kind == "code") != (self.kind == "code"):
            return True
        ended = self.text.endswith(_SENTENCE_END)
        if before is None:  # a new page: a sentence may go on
            return ended or self.kind == "code"
        return self._is_apart(line, before, look, ended)

    def _is_apart(self, line: _Line, before: _Line, look: _Layout, ended: bool) -> bool:
        """Whether the place of a line sets it apart from the one before it."""
        gap = before.top - line.top
        if gap < -self.body:  # up: the next column
            return ended
        is_short = before.right < 0.75 * look.right_edge
        if gap > 1.45 * look.usual_gap:
            return ended or is_short or gap > 2 * look.usual_gap
        is_indented = line.left > before.left + 0.8 * self.body
        return self.kind == "text" and ended and (is_indented or is_short)

    def _join(self, line: str) -> None:
        if not self.text:
            self.text = line
        elif self.kind == "code":
            self.text += "\n" + line
        elif self.text.endswith(_ADDRESS_BREAKS) and _address_goes_on(self.text, line):
            if self.text.endswith("\x02"):
                self.text = f"{self.text[:-1]}-"  # a hyphen of its own
            self.text += line
        elif self.text.endswith(_HYPHENS) and len(self.text) > 1 and self.text[-2].isalpha() and line[:1].isalpha():
            self.text = f"{self.text[:-1]}\x02{line}"
        else:
            self.text = f"{self.text.rstrip()} {line}"

    def _hyphenated(self, match: re.Match[str]) -> str:
        """A word over the end of a line: with its hyphen if it is written so elsewhere, or a name follows."""
        left, right = match.groups()
        if "://" in match.string[match.string.rfind(" ", 0, match.start()) + 1 : match.start()]:  # of an address
            return f"{left}-{right}"
        together, apart = (left + right).lower(), f"{left}-{right}".lower()
        if apart in self.vocabulary or (not right[0].islower() and together not in self.vocabulary):
            return f"{left}-{right}"
        return left + right

    def flush(self) -> None:
        """The text so far is a block."""
        text = _HYPHENATED.sub(self._hyphenated, self.text).replace("\x02", "-").replace("\xad", "")
        if self.kind != "code":
            text = " ".join(text.split())
        self.text = ""
        if not text.strip():
            return
        self.built.page = self.begun_on
        if self.kind != "heading":
            self.built.add(self.kind, text)
        elif self.contents:
            self.built.add("heading", text)
        else:
            self.built.heading(text, 1 + min(self.headings.index(self.size), 3) if self.size in self.headings else 4)
