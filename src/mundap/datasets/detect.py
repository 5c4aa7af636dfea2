"""Detect a file's format from its first 64 kB. No other module does this."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mundap.documents.files import open_file

Layout = Literal["folder", "empty", "array", "object", "lines", "table"]
"""A BEIR folder, nothing, one JSON array, one JSON object, a JSON value a line, or columns."""

_TREC_KIND = re.compile(r"[\w-]{0,30}")
_WIKIMOVIES = re.compile(r"\d+ (?=\S)")
_TEXT = rb'"(?:[^"\\]|\\.)*+"'
# An object of an array `data`, with any texts, numbers and the like before it. Nothing is tried twice: heads are long.
_RECORDS = re.compile(
    rb'\{\s*+(?:%b\s*+:\s*+(?:%b|[^\s"{}\[\],:]++)\s*+,\s*+)*+"data"\s*+:\s*+\[' % (_TEXT, _TEXT),
    re.IGNORECASE | re.DOTALL,
)
_OBJECT_OF_OBJECTS = re.compile(rb"\{\s*" + _TEXT + rb"\s*:\s*\{")


@dataclass(frozen=True, slots=True)
class _FileFormat:
    """The format of a file, as its beginning shows it.

    Attributes:
        layout: How its records are laid out.
        head: Its first 64 kB, decompressed.
    """

    layout: Layout
    head: bytes = b""

    @property
    def questions(self) -> str:
        """Its name in `mundap.datasets.queries.FORMATS`."""
        if self.layout in ("array", "object"):
            return "json"
        if self.layout == "lines":
            return "jsonl"
        return _question_table(self.first_row)

    @property
    def examples(self) -> str:
        """Its name in `mundap.datasets.examples.FORMATS`."""
        if self.layout == "folder":
            return "beir"
        if self.layout in ("array", "object"):
            return "dpr-json"
        if self.layout == "lines":
            if b'"positive_passages"' in self.head:
                return "tevatron"
            return "dpr-jsonl"
        if len(self.first_row) == 3 and all(cell.strip().isdigit() for cell in self.first_row):
            return "triple-ids"
        return "triples"

    @property
    def run(self) -> Literal["dpr", "dpr-lines", "pyserini", "top1000", "trec"]:
        """Which kind of run it is."""
        if self.layout == "array":
            return "dpr"
        if self.layout in ("object", "lines"):
            # The first value of Pyserini's object is a result; that of a result is a text or a list.
            if _OBJECT_OF_OBJECTS.match(self.head):
                return "pyserini"
            return "dpr-lines"
        if len(self.first_row) == 4 and self.first_row[0].strip().isdigit() and self.first_row[1].strip().isdigit():
            return "top1000"
        return "trec"

    @property
    def is_json(self) -> bool:
        """Whether it holds JSON."""
        return self.layout in ("array", "object", "lines")

    @property
    def has_positives(self) -> bool:
        """Whether it holds training examples: a table of triples, a BEIR folder, or rows with positive passages."""
        return not self.is_json or b'"positive_ctxs"' in self.head or b'"positive_passages"' in self.head

    @property
    def has_results(self) -> bool:
        """Whether it is JSON with what a retriever found."""
        return self.is_json and (b'"ctxs"' in self.head or b'"contexts"' in self.head)

    @property
    def first_row(self) -> list[str]:
        """The cells of the first line, if it is a table."""
        return self.head.split(b"\n", 1)[0].decode("utf-8", "replace").split("\t")


def detect(path: str | Path) -> _FileFormat:
    """Detect the format of a file.

    Raises:
        MundapError: It is missing or cannot be read.
    """
    if Path(path).is_dir():
        return _FileFormat("folder")
    head = open_file(path).head()
    if not head:
        return _FileFormat("empty")
    if head.startswith(b"["):
        return _FileFormat("array", head)
    if not head.startswith(b"{"):
        return _FileFormat("table", head)
    return _FileFormat("lines" if _has_rows(head) else "object", head)


def _has_rows(head: bytes) -> bool:
    """Whether a file that begins like this has an object a line, not one object over many lines."""
    lines = head.split(b"\n")
    if len(lines) == 1:  # longer than what we see: one row of many, unless it opens an array of records
        return _RECORDS.match(head) is None
    for line in lines[:2]:  # the first may be broken
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        return isinstance(value, dict) and not isinstance(value.get("data", value.get("Data")), list)
    return False


def _question_table(cells: list[str]) -> str:
    if len(cells) >= 4 and cells[0].strip().isdigit() and _TREC_KIND.fullmatch(cells[1]):
        return "trec"
    if len(cells) != 2 or cells[1].lstrip().startswith(("[", "(")):
        return "csv"
    if cells[0].strip().isdigit():
        return "queries"
    if _WIKIMOVIES.match(cells[0]):
        return "wikimovies"
    return "csv"
