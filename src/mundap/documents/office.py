"""Office files: DOCX, PPTX and XLSX. Read from their XML, which is quick and leaves no room for tricks of sizes."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any

from mundap.documents.archive import Archive, local
from mundap.documents.blocks import MOST_COLUMNS, Builder, Table, looks_like_header, make_document
from mundap.documents.files import SourceFile
from mundap.records import Document

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_SLIDES = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_SHEETS = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_DATE_FORMATS = frozenset((*range(14, 23), *range(45, 48)))
_DATE_WORDS = re.compile(r"[dmyh]", re.IGNORECASE)
_QUOTED = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')
_COLUMN = re.compile(r"[A-Z]+")
_LOOKED_AT = 20  # rows of a sheet, to find where its table begins


def read_docx(file: SourceFile) -> Iterator[Document]:
    """Headings, paragraphs, list items and table rows of a Word document, in order."""
    archive = Archive(file.read(), "DOCX")
    body = archive.xml("word/document.xml").find(f"{_WORD}body")
    levels = _heading_levels(archive)
    built = Builder(archive.most_text)
    for part in body if body is not None else ():
        _add_word(built, part, levels)
    title, facts = _core_facts(archive)
    yield make_document(file, built, "docx", title, facts)


def _is_contents(part: Any) -> bool:
    """Whether a part is a table of contents, which Word makes of the headings."""
    gallery = part.find(f"{_WORD}sdtPr/{_WORD}docPartObj/{_WORD}docPartGallery")
    return gallery is not None and gallery.get(f"{_WORD}val") == "Table of Contents"


def _add_word(built: Builder, part: Any, levels: dict[str, int]) -> None:
    if part.tag == f"{_WORD}p":
        _add_word_paragraph(built, part, levels)
    elif part.tag == f"{_WORD}tbl":
        _add_word_table(built, part)
    elif part.tag == f"{_WORD}sdt" and not _is_contents(part):  # a field around other parts
        for one in part.iter(f"{_WORD}p", f"{_WORD}tbl"):
            if one.tag == f"{_WORD}tbl" or not any(up.tag == f"{_WORD}tbl" for up in one.iterancestors()):
                _add_word(built, one, levels)


def _add_word_paragraph(built: Builder, paragraph: Any, levels: dict[str, int]) -> None:
    text = _word_text(paragraph)
    style = paragraph.find(f"{_WORD}pPr/{_WORD}pStyle")
    name = style.get(f"{_WORD}val", "") if style is not None else ""
    if name in levels:
        built.heading(text, levels[name])
    elif paragraph.find(f"{_WORD}pPr/{_WORD}numPr") is not None or "List" in name:
        built.add("item", text)
    else:
        built.add("text", text)


def _word_text(element: Any) -> str:
    parts = []
    for one in element.iter(
        f"{_WORD}t", f"{_WORD}tab", f"{_WORD}br", f"{_WORD}cr", f"{_WORD}noBreakHyphen", f"{_WORD}p"
    ):
        if one.tag == f"{_WORD}t":
            parts.append(one.text or "")
        elif one.tag == f"{_WORD}noBreakHyphen":
            parts.append("-")
        else:
            parts.append(" ")
    return " ".join("".join(parts).split())


def _add_word_table(built: Builder, table: Any) -> None:
    rows = Table(built)
    for row in table.iterchildren(f"{_WORD}tr"):
        cells = []
        for cell in row.iterchildren(f"{_WORD}tc"):
            cells.append(_word_text(cell))
            spanned = cell.find(f"{_WORD}tcPr/{_WORD}gridSpan")
            count = spanned.get(f"{_WORD}val", "1") if spanned is not None else "1"
            cells += [""] * (min(int(count), MOST_COLUMNS) - 1 if count.isdecimal() and len(count) < 12 else 0)
        rows.row(cells)
    rows.end()


def _heading_levels(archive: Archive) -> dict[str, int]:
    """Which styles are headings: by their English names, which Word keeps in every language, or their outline level."""
    tree = archive.optional("word/styles.xml")
    levels: dict[str, int] = {}
    for style in tree.iter(f"{_WORD}style") if tree is not None else ():
        name = style.find(f"{_WORD}name")
        words = name.get(f"{_WORD}val", "").lower() if name is not None else ""
        outline = style.find(f"{_WORD}pPr/{_WORD}outlineLvl")
        number = outline.get(f"{_WORD}val", "") if outline is not None else ""
        if words == "title":
            levels[style.get(f"{_WORD}styleId", "")] = 1
        elif match := re.fullmatch(r"heading ([1-9])", words):
            levels[style.get(f"{_WORD}styleId", "")] = int(match.group(1))
        elif number.isdecimal() and int(number) < 9:
            levels[style.get(f"{_WORD}styleId", "")] = int(number) + 1
    return levels


def _core_facts(archive: Archive) -> tuple[str, dict[str, Any]]:
    """The title an Office file gives itself, and its author."""
    tree = archive.optional("docProps/core.xml")
    found = {}
    for one in tree if tree is not None else ():
        found[local(one)] = (one.text or "").strip()
    return found.get("title", ""), {"author": found.get("creator", "")}


def read_pptx(file: SourceFile) -> Iterator[Document]:
    """Slides: title, text, tables and notes of each."""
    archive = Archive(file.read(), "PPTX")
    order = archive.xml("ppt/presentation.xml")
    parts = archive.related("ppt/presentation.xml")
    unread = set(archive.names)  # a slide named a million times is read once
    built = Builder(archive.most_text)
    for number, slide in enumerate(order.iter(f"{_SLIDES}sldId"), 1):
        _, name = parts.get(slide.get(_RELATION, ""), ("", ""))
        if name not in unread:
            continue
        unread.remove(name)
        built.page = number
        built.section("", 1)
        _add_slide(built, archive.xml(name))
        for kind, notes in archive.related(name).values():
            if kind == "notesSlide" and notes in archive.names:
                _add_notes(built, archive.xml(notes))
    title, facts = _core_facts(archive)
    yield make_document(file, built, "pptx", "" if title == "PowerPoint Presentation" else title, facts)


def _add_slide(built: Builder, slide: Any) -> None:
    for shape in slide.iter(f"{_SLIDES}sp", f"{_DRAWING}tbl"):
        if shape.tag == f"{_DRAWING}tbl":
            _add_drawn_table(built, shape)
            continue
        place = shape.find(f".//{_SLIDES}ph")
        kind = place.get("type", "body") if place is not None else ""
        if kind in ("sldNum", "dt", "ftr", "hdr"):
            continue
        paragraphs = [_drawn_text(one) for one in shape.iter(f"{_DRAWING}p")]
        if kind in ("title", "ctrTitle"):
            built.heading(" ".join(paragraphs), 1)
            continue
        for text in paragraphs:
            built.add("item" if kind in ("body", "obj") and len(paragraphs) > 1 else "text", text)


def _add_notes(built: Builder, notes: Any) -> None:
    for shape in notes.iter(f"{_SLIDES}sp"):
        place = shape.find(f".//{_SLIDES}ph")
        if place is not None and place.get("type") == "body":
            for paragraph in shape.iter(f"{_DRAWING}p"):
                built.add("text", _drawn_text(paragraph))


def _drawn_text(paragraph: Any) -> str:
    parts = [one.text or "" if one.tag == f"{_DRAWING}t" else " "
             for one in paragraph.iter(f"{_DRAWING}t", f"{_DRAWING}br")]  # fmt: skip
    return " ".join("".join(parts).split())


def _add_drawn_table(built: Builder, table: Any) -> None:
    rows = Table(built)
    for row in table.iterchildren(f"{_DRAWING}tr"):
        cells = []
        for cell in row.iterchildren(f"{_DRAWING}tc"):
            cells.append(" ".join(_drawn_text(one) for one in cell.iter(f"{_DRAWING}p")))
        rows.row(cells)
    rows.end()


def read_xlsx(file: SourceFile) -> Iterator[Document]:
    """The rows of each sheet, each cell with the name of its column."""
    archive = Archive(file.read(), "XLSX")
    workbook = archive.xml("xl/workbook.xml")
    parts = archive.related("xl/workbook.xml")
    strings = _shared_strings(archive)
    dates = _date_styles(archive)
    unread = set(archive.names)  # each sheet once, as slides
    built = Builder(archive.most_text)
    for sheet in workbook.iter(f"{_SHEETS}sheet"):
        _, name = parts.get(sheet.get(_RELATION, ""), ("", ""))
        if name in unread and sheet.get("state", "visible") == "visible":
            unread.remove(name)
            built.section(sheet.get("name", ""), 1)
            _add_sheet(built, archive, name, strings, dates)
    title, facts = _core_facts(archive)
    yield make_document(file, built, "xlsx", title, facts)


def _add_sheet(built: Builder, archive: Archive, name: str, strings: list[str], dates: set[str]) -> None:
    rows = _sheet_rows(archive, name, strings, dates)
    first = list(islice(rows, _LOOKED_AT))
    begins = _first_of_table([cells for _, cells in first])
    for line, cells in first[:begins]:
        built.add("text", " ".join(filter(None, cells)), line)
    table = Table(built)
    for line, cells in chain(first[begins:], rows):
        table.row(cells, line)
    table.end()


def _sheet_rows(archive: Archive, name: str, strings: list[str], dates: set[str]) -> Iterator[tuple[int, list[str]]]:
    """The rows of a sheet that are not empty, with their numbers."""
    for number, row in enumerate(archive.rows(name, f"{_SHEETS}row"), 1):
        cells = _sheet_cells(row, strings, dates)
        if any(cells):
            given = row.get("r", "")
            yield int(given) if given.isdecimal() and len(given) < 9 else number, cells


def _first_of_table(rows: list[list[str]]) -> int:
    """Where the table of a sheet begins: above its header stand titles and notes, which fill half the cells at most."""
    filled = [sum(1 for cell in cells if cell) for cells in rows]
    for place, cells in enumerate(rows):
        if filled[place] >= 2 * max(filled[:place], default=0) and looks_like_header(cells):
            return place
    return next((place for place, count in enumerate(filled) if count > 1), len(rows))


def _sheet_cells(row: Any, strings: list[str], dates: set[str]) -> list[str]:
    cells: list[str] = []
    for cell in row.iterchildren(f"{_SHEETS}c"):
        match = _COLUMN.match(cell.get("r", ""))
        column = _column_number(match.group()) if match else len(cells)
        if column >= MOST_COLUMNS:
            break
        cells += [""] * (column - len(cells))
        cells.append(_cell_text(cell, strings, dates))
    return cells


def _column_number(letters: str) -> int:
    """A is 0, Z 25, AA 26."""
    number = 0
    for letter in letters[:4]:
        number = 26 * number + ord(letter) - 64
    return number - 1


def _cell_text(cell: Any, strings: list[str], dates: set[str]) -> str:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return "".join(one.text or "" for one in cell.iter(f"{_SHEETS}t"))
    value = cell.findtext(f"{_SHEETS}v") or ""
    if kind == "s":
        return _shared(value, strings)
    if kind == "b":
        return "yes" if value == "1" else "no"
    if kind == "n" and value:
        return _number(value, cell.get("s", "") in dates)
    return value


def _shared(value: str, strings: list[str]) -> str:
    """The string that a cell refers to by its number."""
    if value.isdecimal() and int(value) < len(strings):
        return strings[int(value)]
    return ""


_MOST_DAYS = 2_958_466  # since 1899: the first of January of the year 10000


def _number(value: str, is_date: bool) -> str:
    """A number as people write it: 0.1 for 0.10000000000000001, and a day for a count of days."""
    try:
        number = float(value)
    except ValueError:
        return value
    if is_date and 0 < number < _MOST_DAYS:
        moment = datetime(1899, 12, 30) + timedelta(days=number)
        return str(moment.date()) if number == int(number) else moment.strftime("%Y-%m-%d %H:%M")
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return f"{number:.12g}"


def _shared_strings(archive: Archive) -> list[str]:
    if "xl/sharedStrings.xml" not in archive.names:
        return []
    strings = []
    for one in archive.rows("xl/sharedStrings.xml", f"{_SHEETS}si"):
        runs = [run.text or "" for run in one.iter(f"{_SHEETS}t") if local(run.getparent()) != "rPh"]
        strings.append("".join(runs))
    return strings


def _date_styles(archive: Archive) -> set[str]:
    """Which cell styles show a number as a date."""
    tree = archive.optional("xl/styles.xml")
    if tree is None:
        return set()
    own = {one.get("numFmtId"): _QUOTED.sub("", one.get("formatCode", "")) for one in tree.iter(f"{_SHEETS}numFmt")}
    found = set()
    formats = tree.find(f"{_SHEETS}cellXfs")
    for position, style in enumerate(formats if formats is not None else ()):
        number = style.get("numFmtId", "0")
        if (number.isdecimal() and int(number) in _DATE_FORMATS) or _DATE_WORDS.search(own.get(number, "")):
            found.add(str(position))
    return found
