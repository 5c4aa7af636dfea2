"""The documents of an index as a list, and the facts that searches can filter by."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from mundap.disk import write_atomic
from mundap.errors import UsageError
from mundap.index.corpus import Corpus
from mundap.index.matching import Filters, matching_passages
from mundap.index.segment import Segment, source_facts
from mundap.records import Skipped

SKIPPED = "skipped.json"
"""A file beside the manifest: what the last builds could not read. It is for people; no search needs it."""

_MOST_DOCUMENTS = 200_000  # whose own metadata is counted; an index may have millions
_MOST_VALUES = 50  # different values: a fact with more of them is not one to choose from
_MOST_SKIPPED = 10_000
Sort = Literal["id", "title", "passages", "modified", "size"]


@dataclass(frozen=True, slots=True)
class Listed:
    """A document as a list shows it.

    Attributes:
        id: Its id.
        title: Its title.
        source: The file it came from.
        type: The format of that file, where a file is one document.
        language: That most of its passages are in.
        passages: How many it has.
        size: Bytes of its text.
        modified: The day of the file's last change.
        skipped: Rows of its file that could not be read.
        metadata: What else is known of it.
    """

    id: str
    title: str
    source: str
    type: str
    language: str
    passages: int
    size: int
    modified: str
    skipped: int
    metadata: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """The record as `--json` prints it."""
        return asdict(self)


def catalog(corpus: Corpus) -> Iterator[Listed]:
    """Every living document, in the order of the index."""
    for segment in corpus.segments:
        living = corpus.living(segment)
        for document in np.unique(segment.passages["document"][living]).tolist():
            yield _listed(segment, document)


def listing(corpus: Corpus, words: str, filters: Filters, sort: str, most: int, first: int) -> tuple[list[Listed], int]:
    """A page of the catalog, and how many documents there are on all pages; see `Index.listing`."""
    documents = (
        _listed(segment, document)
        for segment in corpus.segments
        for document in np.unique(
            segment.passages["document"][matching_passages(segment, filters) & corpus.living(segment)]
        ).tolist()
    )
    return page_of(documents, words, sort, most, first)


def page_of(documents: Iterable[Listed], words: str, sort: str, most: int, first: int) -> tuple[list[Listed], int]:
    """The documents with these words in their id or title, sorted: a page of them, and how many there are."""
    if sort not in get_args(Sort):
        raise UsageError(f"sort {sort!r}: choose one of {', '.join(get_args(Sort))}")
    wanted = words.casefold()
    found = [one for one in documents if wanted in one.id.casefold() or wanted in one.title.casefold()]
    largest_first = sort in ("passages", "modified", "size")
    found.sort(key=lambda one: (getattr(one, sort), one.id), reverse=largest_first)
    return found[first : first + most], len(found)


def _listed(segment: Segment, document: int) -> Listed:
    rows = segment.passage_rows(document)
    name, title, metadata = segment.heading(document)
    state = segment.source_state(int(segment.documents["source"][document]))
    facts = source_facts(state)
    return Listed(
        id=name,
        title=title,
        source=state.source,
        type=metadata.get("type", ""),
        language=metadata.get("language") or _most_common(segment.layout.languages[rows.start : rows.stop]),
        passages=len(rows),
        size=int(segment.passages["right"][rows.stop - 1]),
        modified=facts.get("modified", ""),
        skipped=state.skipped,
        metadata=metadata,
    )


def _most_common(languages: np.ndarray) -> str:
    values, counts = np.unique(languages, return_counts=True)
    if len(values):
        return bytes(values[counts.argmax()]).decode()
    return ""


def facts(corpus: Corpus) -> dict[str, dict[str, int]]:
    """Facts that documents have, with how many passages have each value, the most frequent first.

    Facts with very many values, such as addresses, are left out, and of a very large index only the first
    documents are looked at, languages apart.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    counts["language"] = Counter()  # stands first
    left = _MOST_DOCUMENTS
    for segment in corpus.segments:
        living = corpus.living(segment)
        counts["language"] += _language_counts(segment, living)
        documents, passages = np.unique(segment.passages["document"][living], return_counts=True)
        for document, number in zip(documents[:left].tolist(), passages[:left].tolist(), strict=True):
            for key, value in _document_facts(segment, document).items():
                counts[key][value] += number
        left = max(0, left - len(documents))
    return {key: dict(values.most_common()) for key, values in counts.items() if 0 < len(values) <= _MOST_VALUES}


def _language_counts(segment: Segment, living: np.ndarray) -> Counter[str]:
    if not len(segment.layout.languages):
        return Counter()
    codes, numbers = np.unique(segment.layout.languages[living], return_counts=True)
    found = Counter({bytes(code).decode(): number for code, number in zip(codes, numbers.tolist(), strict=True)})
    found.pop("", None)
    return found


def _document_facts(segment: Segment, document: int) -> dict[str, str]:
    """The facts of a document and its source, except the language, which is counted per passage."""
    state = segment.source_state(int(segment.documents["source"][document]))
    found = {**source_facts(state), **segment.heading(document)[2]}
    found["modified"] = found.get("modified", "")[:4]  # a year is what one chooses by
    found.pop("language", None)
    return {key: value for key, value in found.items() if value}


def save_skipped(root: Path, skipped: Iterable[Skipped], keep_others: bool) -> None:
    """Record the files that could not be read, and why."""
    found = {one.source: one.reason for one in skipped}
    if keep_others:
        found = {**{one.source: one.reason for one in load_skipped(root)}, **found}
    if not found and not (root / SKIPPED).exists():
        return
    rows = [{"source": source, "reason": reason} for source, reason in list(found.items())[:_MOST_SKIPPED]]
    write_atomic(root / SKIPPED, json.dumps(rows, ensure_ascii=False).encode("utf-8", "replace"))


def load_skipped(root: Path) -> list[Skipped]:
    """The files that the last builds could not read; empty if that is not known."""
    try:
        rows = json.loads((root / SKIPPED).read_bytes())
        return [Skipped(str(row["source"]), str(row["reason"])) for row in rows]
    except (OSError, ValueError, KeyError, TypeError):
        return []
