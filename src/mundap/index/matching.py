"""Which passages a search is limited to."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from mundap.index.segment import STRINGS, Segment, source_facts
from mundap.text.sections import SEPARATOR, section_of

Test = Callable[[str], bool]

COMPARISONS: dict[str, Callable[[object, object], bool]] = {
    "<": lambda left, right: left < right,  # type: ignore[operator]
    "<=": lambda left, right: left <= right,  # type: ignore[operator]
    ">": lambda left, right: left > right,  # type: ignore[operator]
    ">=": lambda left, right: left >= right,  # type: ignore[operator]
}


@dataclass(frozen=True, slots=True)
class Filters:
    """What a search is limited to; every given kind must match.

    Attributes:
        documents: Document ids, any of them.
        sources: Patterns for the source path (`docs/*.md`), any of them.
        metadata: Values that must all be there, such as {"language": "ko"}: what a document says of itself, and
            `language`, `folder` (or one below it), `modified` (or a part of it: a year, a month), `page` and `section`
            (a heading on its path).
        ranges: Comparisons that must all hold: ("modified", ">", "2024"), with one of < <= > >=. Numbers are compared
            as numbers, all else as text, as far as the given value goes.
    """

    documents: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    ranges: tuple[tuple[str, str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.documents or self.sources or self.metadata or self.ranges)


def matching_passages(segment: Segment, filters: Filters) -> np.ndarray:
    """A mask of the segment's passages that the filters let through."""
    documents = np.ones(len(segment.documents), bool)
    if filters.documents:
        chosen = [document for name in filters.documents for document in segment.find_documents(name)]
        documents &= _mask(len(documents), chosen)
    if filters.sources:
        names = [state.source for state in segment.sources()]
        good = [any(fnmatchcase(name, pattern) for pattern in filters.sources) for name in names]
        documents &= np.array(good, bool)[segment.documents["source"]]
    passages = documents[segment.passages["document"]]
    for key, value in filters.metadata.items():
        own = _mask(len(documents), segment.find_metadata(key, value))
        passages &= own[segment.passages["document"]] | _derived(segment, key, _equal(key, value), passages)
    for key, sign, value in filters.ranges:
        test = _compared(sign, value)
        passages &= _own(segment, key, test)[segment.passages["document"]] | _derived(segment, key, test, passages)
    return np.asarray(passages)


def _mask(length: int, chosen: list[int]) -> np.ndarray:
    mask = np.zeros(length, bool)
    mask[chosen] = True
    return mask


def _equal(key: str, value: str) -> Test:
    """Whether a fact is what was asked for; a folder stands for those below it, a year for its days."""
    if key == "folder":
        return lambda have: have == value or have.startswith(f"{value.rstrip('/')}/")
    if key == "modified":
        return lambda have: have == value or have.startswith(f"{value}-")
    if key == "section":
        return lambda have: value == have or value in have.split(SEPARATOR)
    return lambda have: have == value


def _compared(sign: str, value: str) -> Test:
    compare = COMPARISONS[sign]

    def test(have: str) -> bool:
        try:
            return compare(float(have), float(value))
        except ValueError:  # 2024-05-01 is not later than 2024: it is in it
            return compare(have[: len(value)], value)

    return test


def _own(segment: Segment, key: str, test: Test) -> np.ndarray:
    """The documents whose own metadata passes a test."""
    mask = np.zeros(len(segment.documents), bool)
    written = json.dumps(key, ensure_ascii=False).encode("utf-8", "surrogatepass")
    for document in range(len(mask)):
        text = segment.string(STRINGS * document + 2)
        if written in text:
            value = json.loads(text).get(key)
            mask[document] = value is not None and test(value)
    return mask


def _derived(segment: Segment, key: str, test: Test, among: np.ndarray) -> np.ndarray:
    """The passages that pass a test of a fact about their file or place: language, folder, day, page or section."""
    if key == "language" and len(segment.layout.languages):
        return _in_language(segment, test)
    if key in ("folder", "modified"):
        good_sources = [test(source_facts(state).get(key, "")) for state in segment.sources()]
        return np.asarray(np.array(good_sources, bool)[segment.documents["source"][segment.passages["document"]]])
    mask = np.zeros(len(segment), bool)
    if key in ("page", "section") and len(segment.layout.blocks):
        for row in np.flatnonzero(among).tolist():
            mask[row] = any(map(test, _places(segment, row, key)))
    return mask


def _in_language(segment: Segment, test: Test) -> np.ndarray:
    codes = segment.layout.languages
    good = [code for code in np.unique(codes).tolist() if code and test(code.decode())]
    return np.isin(codes, np.array(good, codes.dtype))


def _places(segment: Segment, row: int, key: str) -> list[str]:
    """The section of a passage, or its pages."""
    place = segment.passages[row]
    blocks = segment.layout.blocks_of(int(place["document"]), int(place["start"]), int(place["end"]))
    if key == "section":
        return [section_of(blocks)]
    return [str(block.page) for block in blocks if block.page]
