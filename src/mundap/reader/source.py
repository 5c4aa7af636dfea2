"""Where in a file an answer stands, for people who want to look."""

import re
from pathlib import Path

from mundap.index.index import Index
from mundap.records import Answer

_LARGEST = 20_000_000  # bytes of a file that is looked into
_FURTHEST = 2000  # characters of markup between two words
_WORD = re.compile(r"\S+")


def line_of(index: Index, answer: Answer) -> int | None:
    """The line of the source file, from 1, or None where a file has no lines (PDF) or is not there any more.

    The text of Markdown or HTML is not that of the file, so the words around the answer are looked for.
    """
    path = Path(answer.hit.passage.source)
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return None
        written = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    document = index.document(answer.hit.passage.document)
    if document is None:
        return None
    place = _place(document.text, answer.start, written)
    return None if place is None else written.count("\n", 0, place) + 1


def _place(text: str, start: int, written: str) -> int | None:
    """Where in a file a character of its text stands: the words before it are looked for in it one after another."""
    if written == text:
        return start
    place = 0
    for match in _WORD.finditer(text, 0, start + 1):
        word = text[match.start() : match.end()]
        found = written.find(word, place)
        if found < 0 or found - place > _FURTHEST:
            continue  # markup changed it, or it is not of the file, as a title is not
        place = found + (0 if match.end() > start else len(word))
    first = _WORD.search(text, start)
    found = written.find(first.group(), place) if first else -1
    return found if found >= 0 else None
