"""TREC's collections: many documents in a file, between <DOC> and </DOC>, each with its <DOCNO>."""

import html
import re
from collections.abc import Iterator

from mundap.documents.files import MAX_LINE, SourceFile, Unreadable, decode
from mundap.records import Document, Skipped

_NAME = re.compile(r"<docno>\s*(.*?)\s*</docno>", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(r"<(title|headline|hl|ti)>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_TEXT = re.compile(r"<text>(.*?)</text>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^<>]{1,200}>")


def read_trec(file: SourceFile) -> Iterator[Document | Skipped]:
    """One document for each <DOC>; tags are left out, and a document without a number or a text is skipped."""
    lines: list[bytes] | None = None
    first = size = count = 0
    for number, line in file.lines():
        if isinstance(line, Unreadable):
            yield Skipped(f"{file.source}:{number}", str(line))
            continue
        mark = line.strip().lower()
        if mark.startswith(b"<doc>"):
            lines, first, size = [], number, 0
        if lines is None:
            continue
        size += len(line)
        if size > MAX_LINE:
            yield Skipped(f"{file.source}:{first}", f"a document longer than {MAX_LINE >> 20} MB")
            lines = None
            continue
        lines.append(line)
        if mark.endswith(b"</doc>"):
            count += 1
            yield _document(file, decode(b"\n".join(lines)), f"{file.source}:{first}")
            lines = None
    if lines is not None:
        yield Skipped(f"{file.source}:{first}", "the document does not end: no </DOC>")
    elif not count:
        raise Unreadable("no <DOC> … </DOC> in it")


def _document(file: SourceFile, raw: str, where: str) -> Document | Skipped:
    name = _NAME.search(raw)
    if name is None or not name[1]:
        return Skipped(where, "a document without a <DOCNO>")
    title = _TITLE.search(raw)
    texts = _TEXT.findall(raw) or [_TITLE.sub(" ", _NAME.sub(" ", raw))]
    text = "\n\n".join(_plain(part) for part in texts).strip()
    heading = ""
    if title is not None:
        heading = " ".join(_plain(title[2]).split())
    if not text and not heading:
        return Skipped(where, "empty text")
    return Document(name[1], text, heading, file.source)


def _plain(part: str) -> str:
    return html.unescape(_TAG.sub(" ", part)).strip()
