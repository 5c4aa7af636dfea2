"""Files with many documents in them: JSON lines, psgs_w100 and MS MARCO tables, SQuAD-shaped JSON; and other tables.

All but the last are streamed. A bad row is reported with its line and the rest is kept.
"""

import csv
import json
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from mundap.documents.blocks import Builder, Table, make_document
from mundap.documents.files import SourceFile, Unreadable, decode
from mundap.documents.stream import json_items, json_lines, table
from mundap.records import Block, Document, Skipped

_ID = ("_id", "id", "docid", "doc_id", "pid", "passage_id", "psg_id")
_LONGEST_FACT = 200
_TEXT = ("text", "contents", "content", "body", "passage", "context")
_PASSAGE_MARKS = ("_id", "contents")  # BEIR's and Pyserini's rows already are passages


def read_jsonl(file: SourceFile) -> Iterator[Document | Skipped]:
    """One JSON object per line. BEIR and Pyserini rows are passages; any other row is a document."""
    empty = True
    for number, row in json_lines(file):
        empty = False
        if isinstance(row, Skipped):
            yield row
        else:
            yield _from_object(row, file, number, f"{file.source}:{number}", number)
    if empty:
        raise Unreadable("no text in it")


def read_tsv(file: SourceFile) -> Iterator[Document | Skipped]:
    """psgs_w100 (`id, text, title` with a header row), MS MARCO's collection (`id, text`), or any other table."""
    quoted = _has_header(file)
    first = next((row for _, row in table(file, quoted) if not isinstance(row, Skipped)), ["", ""])
    names = [cell.strip().lower() for cell in first]
    if "id" in names and "text" in names:
        columns = _Columns(names.index("id"), names.index("text"), _index(names, "title"))
        yield from _rows(file, quoted, columns, has_header=True)
    elif len(first) == 4 and first[1].startswith(("http://", "https://")):
        yield from _msmarco_documents(file)
    elif len(first) in (2, 3):
        yield from _rows(file, quoted, _Columns(0, 1, 2 if len(first) == 3 else None), has_header=False)
    else:
        yield from read_csv(file)


class _Columns(NamedTuple):
    """Where the id, the text and the title of a row stand."""

    id: int
    text: int
    title: int | None


def _rows(file: SourceFile, quoted: bool, columns: _Columns, has_header: bool) -> Iterator[Document | Skipped]:
    """The rows of a table, each a passage."""
    is_header = has_header
    for number, row in table(file, quoted):
        where = f"{file.source}:{number}"
        if isinstance(row, Skipped):
            yield row
        elif is_header:
            is_header = False
        elif max(columns.id, columns.text, columns.title or 0) >= len(row):
            yield Skipped(where, f"only {len(row)} columns")
        else:
            title = row[columns.title] if columns.title is not None else ""
            yield _passage(file, where, row[columns.id].strip(), row[columns.text], title, number)


def _msmarco_documents(file: SourceFile) -> Iterator[Document | Skipped]:
    """msmarco-docs.tsv: id, address, title, body. These are whole documents, to be split."""
    for number, row in table(file, quoted=False):
        where = f"{file.source}:{number}"
        if isinstance(row, Skipped):
            yield row
        elif len(row) != 4:
            yield Skipped(where, f"{len(row)} columns: expected id, address, title, body")
        elif not row[3].strip() and not row[2].strip():
            yield Skipped(where, "empty text")
        else:
            name, address, title, body = (cell.strip() for cell in row)
            yield Document(name, body, title, file.source, {"url": address[:200]})


def read_csv(file: SourceFile) -> Iterator[Document | Skipped]:
    """A table: each row with the names of its columns. One with the columns id and text has a passage in each row."""
    text = decode(file.read())
    reader = csv.reader(text.splitlines(keepends=True), delimiter=_delimiter(text[:10_000]))
    built = Builder()
    rows = Table(built)
    before = 0
    try:
        for cells in reader:
            line, before = before + 1, reader.line_num
            if line == 1:
                names = [cell.strip().lower() for cell in cells]
                if "text" in names and "id" in names:
                    yield from _passages(file, reader, names)
                    return
            if any(cells):
                rows.row(cells, line)
    except csv.Error as error:
        raise Unreadable(f"line {before + 1} is no row of a table ({error})") from error
    if not built.blocks:
        raise Unreadable("not a table: expected a header, and a row for each record")
    yield make_document(file, built, "csv")


def _delimiter(head: str) -> str:
    """What stands between the cells: the mark that the first lines have most often."""
    lines = head.splitlines()[:10]
    counts = {mark: min((line.count(mark) for line in lines if line), default=0) for mark in "\t;,|"}
    best = max(counts, key=lambda mark: counts[mark])
    return best if counts[best] else ","


def _passages(file: SourceFile, reader: Any, names: list[str]) -> Iterator[Document | Skipped]:
    name, text, title = names.index("id"), names.index("text"), _index(names, "title")
    for cells in reader:
        where = f"{file.source}:{reader.line_num}"
        if not cells:
            continue
        if max(name, text) >= len(cells):
            yield Skipped(where, f"only {len(cells)} columns")
            continue
        heading = cells[title] if title is not None and title < len(cells) else ""
        yield _passage(file, where, cells[name].strip(), cells[text], heading, reader.line_num)


def read_json(file: SourceFile) -> Iterator[Document | Skipped]:
    """SQuAD-shaped JSON (each paragraph is a document), or an array of objects as in JSON lines."""
    count = 0
    for _, article in json_items(file):
        for row in _paragraphs(article):
            count += 1
            yield _from_object(row, file, count, f"{file.source}#{count}")
    if not count:
        raise Unreadable('no documents in it: expected SQuAD\'s {"data": [...]} or an array of objects')


def _paragraphs(article: Any) -> Iterator[Any]:
    if isinstance(article, dict) and isinstance(article.get("paragraphs"), list):
        title = str(article.get("title", "")).replace("_", " ")
        for paragraph in article["paragraphs"]:
            if isinstance(paragraph, dict):
                yield {"title": title, "text": paragraph.get("context", "")}
            else:
                yield paragraph
    else:
        yield article


def _metadata(row: dict[str, Any], taken: Collection[str | None]) -> dict[str, str]:
    """The short facts of a row, and of the object `metadata` in it."""
    facts = row
    if isinstance(row.get("metadata"), dict):
        facts = {**row, **row["metadata"]}
    found = {}
    for key, value in facts.items():
        if key in taken or not isinstance(value, str | int | float) or len(str(value)) > _LONGEST_FACT:
            continue
        found[str(key)] = json.dumps(value) if isinstance(value, bool) else str(value)
    return found


def _from_object(row: Any, file: SourceFile, number: int, where: str, line: int = 0) -> Document | Skipped:
    if not isinstance(row, dict):
        return Skipped(where, "not a JSON object")
    text_key, id_key = _text_key(row), _id_key(row)
    if text_key is None:
        return Skipped(where, f"no text: expected one of the fields {', '.join(_TEXT)}")
    text, title = row[text_key], row.get("title")
    if not text.strip() and not title:
        return Skipped(where, "empty text")
    return Document(
        id=str(row[id_key]) if id_key else f"{file.id}#{number}",
        text=text,
        title=title if isinstance(title, str) else "",
        source=file.source,
        metadata=_metadata(row, (text_key, id_key, "title")),
        whole=any(mark in row for mark in _PASSAGE_MARKS),
        blocks=_on_line(text, line),
    )


def _text_key(row: dict[str, Any]) -> str | None:
    return next((key for key in _TEXT if isinstance(row.get(key), str)), None)


def _id_key(row: dict[str, Any]) -> str | None:
    return next((key for key in _ID if isinstance(row.get(key), str | int) and row[key] != ""), None)


def _on_line(text: str, line: int) -> tuple[Block, ...]:
    """A row is one block: what matters is its line."""
    return (Block(0, len(text), line=line),) if line else ()


def _passage(file: SourceFile, where: str, name: str, text: str, title: str, line: int) -> Document | Skipped:
    if not name:
        return Skipped(where, "no id")
    if not text.strip() and not title.strip():
        return Skipped(where, "empty text")
    return Document(name, text, title, file.source, whole=True, blocks=_on_line(text, line))


def _has_header(file: SourceFile) -> bool:
    """psgs_w100 has a header and csv quoting; MS MARCO's collection has neither."""
    with file.open() as stream:
        head = stream.readline(1000).lower().removeprefix(b"\xef\xbb\xbf")
    return {b"id", b"text"} <= {cell.strip() for cell in head.split(b"\t")}


def _index(names: list[str], name: str) -> int | None:
    return names.index(name) if name in names else None
