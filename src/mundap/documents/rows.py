"""Files with many documents in them: JSON lines, psgs_w100 and MS MARCO tables, SQuAD-shaped JSON.

All are streamed. A bad row is reported with its line and the rest is kept.
"""

import json
from collections.abc import Iterator
from typing import Any

from mundap.documents.files import SourceFile, Unreadable
from mundap.documents.stream import json_items, json_lines, table
from mundap.records import Document, Skipped

_ID = ("_id", "id", "docid", "doc_id", "pid", "passage_id", "psg_id")
_TEXT = ("text", "contents", "content", "body", "passage", "context")
_PASSAGE_MARKS = ("_id", "contents")  # BEIR's and Pyserini's rows already are passages


def read_jsonl(file: SourceFile) -> Iterator[Document | Skipped]:
    """One JSON object a line. BEIR and Pyserini rows are passages; any other row is a document."""
    empty = True
    for _, row in jsonl_rows(file):
        empty = False
        yield row
    if empty:
        raise Unreadable("no text in it")


def jsonl_rows(file: SourceFile) -> Iterator[tuple[int, Document | Skipped]]:
    """The same with the number of each line."""
    for number, row in json_lines(file):
        yield number, row if isinstance(row, Skipped) else _from_object(row, file, number, f"{file.source}:{number}")


def read_tsv(file: SourceFile) -> Iterator[Document | Skipped]:
    """psgs_w100 (`id, text, title` with a header row) or MS MARCO's collection (`id, text`)."""
    for _, row in tsv_rows(file):
        yield row


def tsv_rows(file: SourceFile) -> Iterator[tuple[int, Document | Skipped]]:
    """The same with the number of each line."""
    columns: tuple[int, int, int | None] | None = None
    for number, row in table(file, quoted=_has_header(file)):
        where = f"{file.source}:{number}"
        if isinstance(row, Skipped):
            yield number, row
            continue
        if columns is None:
            names = [cell.strip().lower() for cell in row]
            if "id" in names and "text" in names:
                columns = names.index("id"), names.index("text"), _index(names, "title")
                continue
            if len(row) not in (2, 3):
                raise Unreadable(
                    "not a table of passages: expected a header `id text title`, or the two columns id and text"
                )
            columns = 0, 1, 2 if len(row) == 3 else None
        name, text, title = columns
        if max(name, text, title or 0) >= len(row):
            yield number, Skipped(where, f"only {len(row)} columns")
            continue
        cell = row[title] if title is not None else ""
        yield number, _passage(file, where, row[name].strip(), row[text], cell)


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


def _from_object(row: Any, file: SourceFile, number: int, where: str) -> Document | Skipped:
    if not isinstance(row, dict):
        return Skipped(where, "not a JSON object")
    text_key = next((key for key in _TEXT if isinstance(row.get(key), str)), None)
    if text_key is None:
        return Skipped(where, f"no text: expected one of the fields {', '.join(_TEXT)}")
    id_key = next((key for key in _ID if isinstance(row.get(key), str | int) and row[key] != ""), None)
    text, title = row[text_key], row.get("title")
    if not text.strip() and not title:
        return Skipped(where, "empty text")
    facts = {**row, **row["metadata"]} if isinstance(row.get("metadata"), dict) else row
    metadata = {
        str(key): json.dumps(value) if isinstance(value, bool) else str(value)
        for key, value in facts.items()
        if isinstance(value, str | int | float) and key not in (text_key, id_key, "title") and len(str(value)) <= 200
    }
    return Document(
        id=str(row[id_key]) if id_key else f"{file.id}#{number}",
        text=text,
        title=title if isinstance(title, str) else "",
        source=file.source,
        metadata=metadata,
        whole=any(mark in row for mark in _PASSAGE_MARKS),
    )


def _passage(file: SourceFile, where: str, name: str, text: str, title: str) -> Document | Skipped:
    if not name:
        return Skipped(where, "no id")
    if not text.strip() and not title.strip():
        return Skipped(where, "empty text")
    return Document(name, text, title, file.source, whole=True)


def _has_header(file: SourceFile) -> bool:
    """psgs_w100 has a header and csv quoting; MS MARCO's collection has neither."""
    with file.open() as stream:
        head = stream.readline(1000).lower().removeprefix(b"\xef\xbb\xbf")
    return {b"id", b"text"} <= {cell.strip() for cell in head.split(b"\t")}


def _index(names: list[str], name: str) -> int | None:
    return names.index(name) if name in names else None
