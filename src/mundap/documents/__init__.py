"""From files to documents. `find` lists what there is to read, `read` reads one file, `Splitter` cuts."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from mundap.documents import prose, rows
from mundap.documents.files import STREAM_ERRORS, SourceFile, explain
from mundap.documents.split import Splitter
from mundap.documents.walk import find
from mundap.documents.wikipedia import is_index, looks_like_dump, read_wikipedia
from mundap.records import Document, Skipped

__all__ = ["FORMATS", "SourceFile", "Splitter", "detect", "find", "read"]

Reader = Callable[[SourceFile], Iterator[Document | Skipped]]

FORMATS: dict[str, Reader] = {
    "text": prose.read_text,
    "markdown": prose.read_markdown,
    "html": prose.read_html,
    "pdf": prose.read_pdf,
    "docx": prose.read_docx,
    "jsonl": rows.read_jsonl,
    "tsv": rows.read_tsv,
    "json": rows.read_json,
    "wikipedia": read_wikipedia,
}

_SUFFIXES = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".pdf": "pdf",
    ".docx": "docx",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".tsv": "tsv",
    ".json": "json",
}


def read(file: SourceFile, form: str | None = None) -> Iterator[Document | Skipped]:
    """Yield the documents of a file and, in their place, what could not be read and why.

    Args:
        file: What to read.
        form: A name out of `FORMATS`; by default told from the file's name and its first bytes.
    """
    try:
        for found in FORMATS[form or detect(file)](file):
            yield found if isinstance(found, Skipped) else _storable(found)
    except STREAM_ERRORS as error:
        yield Skipped(file.source, explain(error))
    except Exception as error:  # one bad file must not stop a build, whatever a parser makes of it
        yield Skipped(file.source, f"cannot be read ({type(error).__name__}: {str(error)[:200]})")


def detect(file: SourceFile) -> str:
    """The name of a file's format, told from its name and its first bytes."""
    if form := _SUFFIXES.get(file.suffix):
        return form
    if is_index(file.path.name):
        return "wikipedia"
    with file.open() as stream:
        head = stream.read(4096)
    if looks_like_dump(head):
        return "wikipedia"
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"%pdf-"):
        return "pdf"
    if start.startswith((b"<!doctype html", b"<html")):
        return "html"
    if start.startswith(b'{"') and not file.suffix:
        return "jsonl"
    if start.startswith(b"id\ttext"):
        return "tsv"
    return "text"


def _storable(document: Document) -> Document:
    """JSON may hold lone surrogates, which no file can: they become the replacement character."""
    try:
        "".join([document.id, document.title, document.text, *document.metadata, *document.metadata.values()]).encode()
        return document
    except UnicodeEncodeError:
        facts = {_clean(key): _clean(value) for key, value in document.metadata.items()}
        return replace(
            document, id=_clean(document.id), text=_clean(document.text), title=_clean(document.title), metadata=facts
        )


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
