"""OpenDocument (ODT, ODP, ODS) and EPUB."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from mundap.documents.archive import Archive, local
from mundap.documents.blocks import MOST_COLUMNS, Builder, Table, make_document
from mundap.documents.files import SourceFile, Unreadable, decode
from mundap.documents.html import add_html, parse_html
from mundap.records import Document

_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_DRAW = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_SPACES = (f"{_TEXT}s", f"{_TEXT}tab", f"{_TEXT}line-break")
_NOT_TEXT = frozenset(("table-of-content", "annotation", "tracked-changes", "bibliography-mark", "ruby-text"))
_NOT_WORDS = ("note-citation", "annotation", "page-number")  # LibreOffice writes "<number>" for the last


def read_opendocument(file: SourceFile) -> Iterator[Document]:
    """Text, slides or sheets of OpenDocument: headings, paragraphs, list items, table rows."""
    archive = Archive(file.read(), "OpenDocument")
    if "META-INF/manifest.xml" in archive.names and b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise Unreadable("password-protected OpenDocument file: save a copy without the password")
    tree = archive.xml("content.xml")
    built = Builder(archive.most_text)
    slide = 0
    skipped: Any = None
    for element in tree.iter(f"{_TEXT}h", f"{_TEXT}p", f"{_TABLE}table", f"{_DRAW}page"):
        if element.tag == f"{_DRAW}page":
            slide += 1
            built.page = slide
            built.section("", 1)
        elif element.tag == f"{_TABLE}table":
            if not _inside(element, skipped):
                skipped = element
                _add_table(built, element)
        elif not _inside(element, skipped):
            _add_paragraph(built, element)
    title, facts = _meta(archive)
    yield make_document(file, built, _form(file), title, facts)


def _inside(element: Any, table: Any) -> bool:
    return table is not None and any(up is table for up in element.iterancestors(f"{_TABLE}table"))


def _form(file: SourceFile) -> str:
    return file.suffix.removeprefix(".") if file.suffix in (".odt", ".odp", ".ods") else "odt"


def _add_paragraph(built: Builder, element: Any) -> None:
    above = [local(up) for up in element.iterancestors()]
    if not _NOT_TEXT.isdisjoint(above):
        return
    text = _text(element)
    level = element.get(f"{_TEXT}outline-level", "1")
    frame = next(element.iterancestors(f"{_DRAW}frame"), None)
    kind = frame.get("{urn:oasis:names:tc:opendocument:xmlns:presentation:1.0}class", "") if frame is not None else ""
    if element.tag == f"{_TEXT}h":
        built.heading(text, int(level) if level.isdecimal() and len(level) < 3 else 1)
    elif kind == "title":
        built.heading(text, 1)
    else:
        built.add("item" if "list-item" in above else "text", text)


def _text(element: Any) -> str:
    parts = [element.text or ""]
    for one in element.iterdescendants():
        if one.tag in _SPACES or one.tag == f"{_TEXT}p":
            parts.append(" ")
        if local(one) not in _NOT_WORDS:
            parts.append(one.text or "")
        parts.append(one.tail or "")
    return " ".join("".join(parts).split())


def _add_table(built: Builder, table: Any) -> None:
    name = table.get(f"{_TABLE}name", "")
    is_sheet = local(table.getparent()) == "spreadsheet"
    if is_sheet:
        built.section(name, 1)
    rows = Table(built)
    line = 0
    for row in table.iter(f"{_TABLE}table-row"):
        repeated = row.get(f"{_TABLE}number-rows-repeated", "1")
        line += 1
        cells = _cells(row)
        if any(cells):
            rows.row(cells, line if is_sheet else 0)
        if repeated.isdecimal() and len(repeated) < 9:
            line += int(repeated) - 1
    rows.end()


def _cells(row: Any) -> list[str]:
    cells: list[str] = []
    for cell in row.iterchildren(f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
        text = " ".join(_text(one) for one in cell.iter(f"{_TEXT}p", f"{_TEXT}h"))
        repeated = cell.get(f"{_TABLE}number-columns-repeated", "1")
        count = int(repeated) if repeated.isdecimal() and len(repeated) < 9 else 1
        cells += [text] * min(count, MOST_COLUMNS - len(cells))
        if len(cells) >= MOST_COLUMNS:
            break
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _meta(archive: Archive) -> tuple[str, dict[str, Any]]:
    tree = archive.optional("meta.xml")
    found: dict[str, str] = {}
    for one in tree.iter() if tree is not None else ():
        found.setdefault(local(one), (one.text or "").strip())
    author = found.get("initial-creator") or found.get("creator", "")
    return found.get("title", ""), {"author": author}


def read_epub(file: SourceFile) -> Iterator[Document]:
    """The chapters of a book, in reading order; each file of it counts as a page."""
    archive = Archive(file.read(), "EPUB")
    # Some books scramble their fonts alone, which does not matter here.
    if "META-INF/encryption.xml" in archive.names and b"xhtml" in archive.read("META-INF/encryption.xml"):
        raise Unreadable("protected EPUB (DRM)")
    container = archive.xml("META-INF/container.xml")
    package = next((one.get("full-path", "") for one in container.iter() if local(one) == "rootfile"), "")
    if not package:
        raise Unreadable("not a readable EPUB file (it does not say where the book is)")
    book = archive.xml(package)
    built = Builder(archive.most_text)
    unread = set(archive.names)  # each chapter once, as the standard wants it: one named a million times is a bomb
    for number, path in enumerate(_chapters(book, package.rpartition("/")[0]), 1):
        if path not in unread:
            continue
        unread.remove(path)
        built.page = number
        built.section("", 1)
        tree = parse_html(decode(archive.read(path)))
        if tree is not None:
            add_html(built, tree)
    title, facts = _book_facts(book)
    yield make_document(file, built, "epub", title, facts)


def _chapters(book: Any, folder: str) -> list[str]:
    """The files of a book in reading order, below the folder that its description stands in."""
    items = {one.get("id"): unquote(one.get("href", "")) for one in book.iter() if local(one) == "item"}
    names = [items.get(one.get("idref"), "") for one in book.iter() if local(one) == "itemref"]
    return [f"{folder}/{name}" if folder else name for name in names]


def _book_facts(book: Any) -> tuple[str, dict[str, Any]]:
    found: dict[str, str] = {}
    for one in book.iter():
        if local(one) in ("title", "creator", "language"):
            found.setdefault(local(one), (one.text or "").strip())
    return found.get("title", ""), {"author": found.get("creator", ""), "language": found.get("language", "")}
