"""Section paths: the headings above a passage, as part of its title."""

import re
from collections.abc import Iterable, Sequence

from mundap.records import Block, Document

SEPARATOR = " > "
"""Between the headings of a section path, outermost first."""

_LONGEST_TITLE = 100  # characters of a title and its headings, which take room from the passage in a model's input
_MOST = 0.6  # of a passage's text: so much in one section makes it a passage of that section
_FEWEST_SHARED = 5  # characters: a shorter heading may be part of any title
_NUMBERED = re.compile(r"^(?:(?:chapter|appendix|section|part)\s+)?[0-9A-Z]{0,3}(?:\.[0-9]+)*\.?\s+", re.IGNORECASE)


def titles_and_sections(passages: Iterable[tuple[str, Sequence[Block]]]) -> list[tuple[str, str]]:
    """The title and the section path of passages, each given by its document's title and its own blocks."""
    sections = [(title, section_of(blocks)) for title, blocks in passages]
    return [(_passage_title(title, section), section) for title, section in sections]


def section_of(blocks: Sequence[Block]) -> str:
    """The section path of a passage: that of most of its text, or the headings that all of it has in common."""
    lengths: dict[str, int] = {}
    for block in blocks:
        lengths[block.section] = lengths.get(block.section, 0) + block.end - block.start
    if not lengths:
        return ""
    longest = max(lengths, key=lambda path: lengths[path])
    if lengths[longest] >= _MOST * sum(lengths.values()):
        return longest
    common = longest.split(SEPARATOR)
    for path in lengths:
        other = path.split(SEPARATOR)
        shared = 0
        while shared < min(len(common), len(other)) and common[shared] == other[shared]:
            shared += 1
        common = common[:shared]
    return SEPARATOR.join(common)


def _passage_title(title: str, section: str) -> str:
    """Title and section path in one line, short enough for a model: of a long path the middle is left out."""
    if not section:
        return title
    headings = section.split(SEPARATOR)
    if _same(headings[0], title):  # the first heading of most files is their title
        headings = headings[1:]
    while len(headings) > 1 and _length(title, headings) > _LONGEST_TITLE:
        headings = headings[1:]
    # The last heading says most: it stays unless it is very long.
    if len(headings) == 1 and len(title) + len(headings[0]) > 2 * _LONGEST_TITLE:
        return title
    return SEPARATOR.join(part for part in (title, *headings) if part)


def _length(title: str, headings: Sequence[str]) -> int:
    return len(title) + sum(len(SEPARATOR) + len(heading) for heading in headings)


def _same(heading: str, title: str) -> bool:
    """Whether a heading says what the title says, numbers apart."""
    left, right = _NUMBERED.sub("", heading).casefold().strip(), _NUMBERED.sub("", title).casefold().strip()
    shorter, longer = sorted((left, right), key=len)
    return left == right or (len(shorter) >= _FEWEST_SHARED and shorter in longer)


def passage_titles(document: Document, spans: Sequence[tuple[int, int]]) -> list[str]:
    """The title of each passage of a document, whose spans are in order."""
    blocks = passage_blocks(document, spans)
    return [title for title, _ in titles_and_sections((document.title, own) for own in blocks)]


def passage_blocks(document: Document, spans: Sequence[tuple[int, int]]) -> list[tuple[Block, ...]]:
    """The blocks of each passage of a document; spans and blocks are both in order."""
    found = []
    first = 0
    for start, end in spans:
        while first < len(document.blocks) and document.blocks[first].end <= start:
            first += 1
        last = first
        while last < len(document.blocks) and document.blocks[last].start < end:
            last += 1
        found.append(document.blocks[first:last])
    return found
