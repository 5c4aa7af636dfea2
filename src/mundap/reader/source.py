"""Where in a file an answer stands, for people who want to look."""

from pathlib import Path

from mundap.index.index import Index
from mundap.records import Answer

_LARGEST = 20_000_000  # bytes of a file that is looked into
_AROUND = 40  # characters on either side that make a place unmistakable


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
    if written == document.text:
        return written.count("\n", 0, answer.start) + 1
    around = _AROUND
    while around >= 0:  # markup may stand in the middle of a longer piece
        begin = max(document.text.rfind("\n", 0, answer.start) + 1, answer.start - around)
        piece = document.text[begin : answer.end].strip()
        place = written.find(piece)
        if place >= 0:
            return written.count("\n", 0, place + len(piece)) + 1
        around -= 10
    return None
