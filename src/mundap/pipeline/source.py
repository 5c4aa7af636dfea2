"""The place of an answer in its source file, as recorded when the file was read."""

from mundap.index.index import Index
from mundap.records import LINE_END, WITH_LINES, Answer


def _line_of(index: Index, answer: Answer) -> int | None:
    """The line of the source file, from 1, in a document that has lines; None where they were not noted."""
    passage = answer.hit.passage
    block = passage.block_at(answer.start)
    if block is None or not block.line:
        return None
    text, offset = passage.text, passage.start
    if block.start < offset:
        document = index.document(passage.document)
        if document is None:
            return block.line
        text, offset = document.text, 0
    between = text[block.start - offset : answer.start - offset]
    return block.line + len(LINE_END.findall(between))


def place_of(index: Index, answer: Answer) -> str:
    """The file and place of an answer in plain words: `handbook.pdf, page 212`, or `notes.md:40`."""
    passage = answer.hit.passage
    if passage.metadata.get("type") in WITH_LINES:  # else, such as of a row, all of a block is in one place
        line = _line_of(index, answer)
        if line is not None:
            return f"{passage.source}:{line}"
    return passage.where(answer.start)
