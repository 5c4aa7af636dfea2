"""Where in a file an answer stands, for people who want to look. Better no line than a wrong one."""

import json
import re
from collections import deque
from collections.abc import Iterator
from itertools import islice

from mundap.documents import detect
from mundap.documents.files import STREAM_ERRORS, SourceFile, decode
from mundap.documents.prose import front_matter
from mundap.documents.rows import jsonl_rows, tsv_rows
from mundap.index.index import Index
from mundap.records import Answer, Document

_LARGEST = 20_000_000  # bytes of a file that is looked into, unpacked
_FURTHEST = 2000  # characters of markup between two words
_LONGEST = 200  # characters of a word that is looked for
_MANY = 100  # places with the same words around them: the answer may be at any
_WORD = re.compile(r"\S+")
_BODY = re.compile(r"<body\b", re.IGNORECASE)
_MARKUP = r"(?:[\s*_`~#>|\\\[\]-]|<[^<>]{0,300}>){1,60}"  # what may stand in a file between two words of its text
_AROUND = ((4, 4), (0, 8), (8, 0))  # words before and after an answer by which it is known


def line_of(index: Index, answer: Answer) -> int | None:
    """The line of the source file, from 1.

    Returns:
        None where a file has no lines (PDF, DOCX, a Wikipedia dump), is large or not there any more, or where it cannot
        be told.
    """
    source = answer.hit.passage.source
    path = index.path.resolve().parent / source  # as `documents.walk.source_name` made it
    file = SourceFile(path, "", source)
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return None
        with file.open() as stream:
            data = stream.read(_LARGEST + 1)
        form = detect(file)
        document = index.document(answer.hit.passage.document)
        if document is None or len(data) > _LARGEST or form in ("pdf", "docx", "wikipedia"):
            return None
        if form in ("jsonl", "tsv"):
            return _row(document, file, form)
        written = decode(data)
    except STREAM_ERRORS:
        return None
    place = _in_json(document, written) if form == "json" else _place(document.text, answer.start, written, form)
    return None if place is None else len(re.findall(r"\r\n|\r|\n", written[:place])) + 1


def _row(document: Document, file: SourceFile, form: str) -> int | None:
    """The line of a document that is a row: no answer goes beyond it."""
    for number, row in (jsonl_rows if form == "jsonl" else tsv_rows)(file):
        if isinstance(row, Document) and row.text == document.text:
            name = row.id.removeprefix("#")  # a row without id is called after its file and its number
            if document.id == name or document.id.endswith(f"#{name}"):
                return number
    return None


def _in_json(document: Document, written: str) -> int | None:
    """Where the text stands as a JSON string, which is always on one line, if it is there once."""
    found = [
        place
        for string in {json.dumps(document.text, ensure_ascii=ascii_only) for ascii_only in (True, False)}
        for place in islice(_places(re.escape(string), written, 0), 2)
    ]
    return found[0] if len(found) == 1 else None


def _place(text: str, start: int, written: str, form: str) -> int | None:
    """Where in a file a character of its text stands.

    The text of Markdown or HTML is not that of the file, so the words around it are looked for; where these are there
    several times, all words before it are, one after another.
    """
    if written == text:
        return start
    body = _body(written, form)
    seen: set[int] = set()
    for before, after in _AROUND:
        if pattern := _around(text, start, before, after):
            found = list(islice(_places(pattern, written, body), _MANY))
            if len(found) == 1:
                return found[0]
            seen.update(found)
    place = _follow(text, start, written, body)
    return place if place in seen or not seen else None


def _body(written: str, form: str) -> int:
    """Where the text begins: titles in front matter or in a page's head are not of it."""
    if form == "markdown":
        return front_matter(written)[1]
    match = _BODY.search(written) if form == "html" else None
    return match.end() if match else 0


def _around(text: str, start: int, before: int, after: int) -> str:
    """A pattern for the words around a character, whose place is the group; empty if these are too few to tell."""
    ahead = [match.group() for match in _WORD.finditer(text, max(0, start - _FURTHEST), start)]
    # The answer may begin within a word, as behind a bracket.
    glued = ahead.pop()[-_LONGEST:] if ahead and not text[start - 1].isspace() else ""
    behind = [match.group() for match in islice(_WORD.finditer(text, start), after + 1)]
    words = [*ahead[len(ahead) - min(before, len(ahead)) :], *behind]
    if not behind or len(words) < 3 or any(len(word) > _LONGEST for word in words):
        return ""
    parts = [re.escape(word) for word in words]
    parts[len(words) - len(behind)] = f"{re.escape(glued)}(?P<here>){parts[len(words) - len(behind)]}"
    return _MARKUP.join(parts)


def _places(pattern: str, written: str, body: int) -> Iterator[int]:
    for match in re.compile(pattern).finditer(written, body):
        yield match.start("here") if "here" in match.re.groupindex else match.start()


def _follow(text: str, start: int, written: str, body: int) -> int | None:
    """Go through a file by the words of its text; None if the way is lost."""
    opening = written.find(text[:40], body)
    place = max(opening, body)
    lately: deque[bool] = deque(maxlen=5)
    for match in _WORD.finditer(text, 0, start):
        word = match.group()[:_LONGEST]
        found = written.find(word, place, place + _FURTHEST)
        lately.append(found >= 0)
        if found >= 0:  # else markup changed it
            place = found + len(word)
    first = _WORD.search(text, start)
    if first is None or 2 * sum(lately) < len(lately):
        return None
    found = written.find(first.group()[:_LONGEST], place, place + _FURTHEST)
    return found if found >= 0 else None
