"""Files that are one document each: plain text, Markdown, HTML, PDF, DOCX. Libraries load when needed."""

import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from mundap.documents.files import MAX_FILE, SourceFile, Unreadable, decode
from mundap.records import Document

_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


def read_text(file: SourceFile) -> Iterator[Document]:
    """Plain text, as it stands; the title is the file's name."""
    yield _document(file, decode(file.read()))


def read_markdown(file: SourceFile) -> Iterator[Document]:
    """Markdown without its marks; YAML front matter gives title and metadata."""
    from markdown_it import MarkdownIt

    text = decode(file.read())
    facts, body = front_matter(text)
    text = text[body:]
    heading = ""
    blocks: list[str] = []
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for position, token in enumerate(tokens):
        if token.type == "inline":
            block = _inline(token)
            if not heading and tokens[position - 1].type == "heading_open" and tokens[position - 1].tag == "h1":
                heading = block
            blocks.append(block)
        elif token.type in ("fence", "code_block"):
            blocks.append(token.content.rstrip())
        elif token.type == "html_block":
            blocks.append(_all_text(token.content.encode()))
    title = str(facts.pop("title", "") or heading)
    yield _document(file, "\n\n".join(filter(None, blocks)), title, facts)


def front_matter(text: str) -> tuple[dict[str, Any], int]:
    """What the YAML at the beginning of a Markdown file says, and where the text behind it begins."""
    if (match := _FRONT_MATTER.match(text)) and (facts := _yaml(match.group(1))):
        return facts, match.end()
    return {}, 0


def read_html(file: SourceFile) -> Iterator[Document]:
    """The main text of a web page, without menus, adverts and scripts."""
    import trafilatura

    data = file.read()
    page = trafilatura.bare_extraction(
        decode(data), include_comments=False, include_tables=True, favor_recall=True, with_metadata=True
    )
    text = (page.text if page else "") or _all_text(data)
    yield _document(file, text, (page.title if page else "") or "")


def read_pdf(file: SourceFile) -> Iterator[Document]:
    """The text layer of a PDF, page after page."""
    import logging

    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    logging.getLogger("pypdf").setLevel(logging.ERROR)
    try:
        reader = PdfReader(io.BytesIO(file.read()))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unreadable("password-protected PDF: save a copy without the password")
        pages = [page.extract_text().strip() for page in reader.pages]
        title = str(reader.metadata.get("/Title") or "") if reader.metadata else ""
    except Unreadable:
        raise
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        # pypdf meets malformed files with many kinds of error; none of them is worth a traceback
        raise Unreadable(f"not a readable PDF ({error or type(error).__name__})") from error
    text = "\n\n".join(filter(None, pages))
    if not text:
        raise Unreadable("no text in this PDF: it may be scanned pictures and need OCR first")
    yield _document(file, text, title)


def read_docx(file: SourceFile) -> Iterator[Document]:
    """Paragraphs and table cells of a Word document, in order."""
    import docx
    from docx.opc.exceptions import PackageNotFoundError

    data = file.read()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MAX_FILE:
                raise Unreadable(f"unpacks to more than {MAX_FILE >> 20} MB")
        opened = docx.Document(io.BytesIO(data))
        blocks = []
        for part in opened.iter_inner_content():
            if hasattr(part, "rows"):
                blocks += [" | ".join(cell.text for cell in row.cells) for row in part.rows]
            else:
                blocks.append(part.text)
        title = opened.core_properties.title or ""
    except Unreadable:
        raise
    except (zipfile.BadZipFile, PackageNotFoundError, KeyError, ValueError, SyntaxError, NotImplementedError) as error:
        raise Unreadable(f"not a readable DOCX file ({error})") from error
    yield _document(file, "\n\n".join(block for block in blocks if block.strip()), title)


def _document(file: SourceFile, text: str, title: str = "", facts: dict[str, Any] | None = None) -> Document:
    if not text.strip():
        raise Unreadable("no text in it")
    metadata = {key: plain for key, value in (facts or {}).items() if (plain := _plain(value))}
    stem = PurePosixPath(file.id).name.split(".")[0].replace("_", " ").replace("-", " ").strip()
    return Document(file.id, text, " ".join(title.split()) or stem or file.id, file.source, metadata)


def _plain(value: Any) -> str:
    """A value as text: scalars, and flat lists of them. Deeper structures are left out; aliases can be endless."""
    if isinstance(value, list):
        return ", ".join(str(part) for part in value if not isinstance(part, list | dict))
    return "" if value is None or isinstance(value, dict) else str(value)


def _yaml(text: str) -> dict[str, Any]:
    import yaml

    try:
        facts = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}
    return {str(key): value for key, value in facts.items()} if isinstance(facts, dict) else {}


def _inline(token: Any) -> str:
    """The words of a paragraph: link texts without addresses, line breaks as they were."""
    parts = []
    for child in token.children or ():
        if child.type in ("text", "code_inline"):
            parts.append(child.content)
        elif child.type in ("softbreak", "hardbreak"):
            parts.append("\n")
        elif child.type == "image":
            parts.append(child.content)
    return "".join(parts).strip()


def _all_text(data: bytes) -> str:
    """Every word of a page in which no main text was found."""
    from lxml import etree, html

    try:
        tree = html.document_fromstring(data)
    except (etree.LxmlError, ValueError):
        return ""
    etree.strip_elements(tree, "script", "style", "noscript", with_tail=False)
    lines = (" ".join(line.split()) for line in tree.text_content().splitlines())
    return "\n".join(filter(None, lines))
