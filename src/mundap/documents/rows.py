"""Files with many documents in them: JSON lines, psgs_w100 and MS MARCO tables, SQuAD-shaped JSON.

All are streamed. A bad row is reported with its line and the rest is kept.
"""

import csv
import json
from collections.abc import Iterator
from typing import IO, Any

from mundap.documents.files import SourceFile, Unreadable
from mundap.records import Document, Skipped

_ID = ("_id", "id", "docid", "doc_id", "pid", "passage_id", "psg_id")
_TEXT = ("text", "contents", "content", "body", "passage", "context")
_DEEPEST = 100
_PASSAGE_MARKS = ("_id", "contents")  # BEIR's and Pyserini's rows already are passages


def read_jsonl(file: SourceFile) -> Iterator[Document | Skipped]:
    """One JSON object a line. BEIR and Pyserini rows are passages; any other row is a document."""
    number = 0
    for number, line in file.lines():
        where = f"{file.source}:{number}"
        if isinstance(line, Unreadable):
            yield Skipped(where, str(line))
            continue
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except UnicodeDecodeError:
            yield Skipped(where, "not UTF-8")
        except (ValueError, RecursionError) as error:
            yield Skipped(where, f"not JSON ({_first_line(error)})")
        else:
            yield _from_object(row, file, number, where)
    if not number:
        raise Unreadable("no text in it")


def read_tsv(file: SourceFile) -> Iterator[Document | Skipped]:
    """psgs_w100 (`id, text, title` with a header row) or MS MARCO's collection (`id, text`)."""
    columns: tuple[int, int, int | None] | None = None
    for number, row in _table(file, quoted=_has_header(file)):
        where = f"{file.source}:{number}"
        if isinstance(row, str):
            yield Skipped(where, row)
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
            yield Skipped(where, f"only {len(row)} columns")
            continue
        yield _passage(file, where, row[name].strip(), row[text], row[title] if title is not None else "")


def read_json(file: SourceFile) -> Iterator[Document | Skipped]:
    """SQuAD-shaped JSON (each paragraph is a document), or an array of objects as in JSON lines."""
    import ijson

    count = 0
    with file.open() as stream:
        first = stream.read(3)
    with file.open() as stream:
        if first == b"\xef\xbb\xbf":
            stream.read(3)
        try:
            for article in _items(stream):
                for row in _paragraphs(article):
                    count += 1
                    yield _from_object(row, file, count, f"{file.source}#{count}")
        except (ijson.JSONError, UnicodeDecodeError) as error:
            raise Unreadable(f"broken JSON after {count} records ({_first_line(error)})") from error
    if not count:
        raise Unreadable('no documents in it: expected SQuAD\'s {"data": [...]} or an array of objects')


def _items(stream: IO[bytes]) -> Iterator[Any]:
    """The elements of a top-level array, or of the array `data` in a top-level object, one by one.

    By events and not by ijson's paths, whose memory grows with the square of the nesting.
    """
    import ijson
    from ijson.common import ObjectBuilder

    depth, key, inside = 0, "", 0  # `inside` is the depth of the elements once their array has begun
    builder: Any = None
    for event, value in ijson.basic_parse(stream, use_float=True):
        opens, closes = event in ("start_map", "start_array"), event in ("end_map", "end_array")
        depth -= closes
        if event == "map_key" and depth == 1:
            key = value
        elif event == "start_array" and not inside and (depth == 0 or (depth == 1 and key == "data")):
            inside = depth + 1
        elif inside and depth < inside:
            inside = 0
        elif inside:
            if depth == inside and event != "map_key" and not closes:
                builder = ObjectBuilder()
            builder.event(event, value)
            if depth == inside and not opens:
                yield builder.value
        depth += opens
        if depth > _DEEPEST:
            raise Unreadable(f"nested more than {_DEEPEST} levels deep")


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


def _table(file: SourceFile, quoted: bool) -> Iterator[tuple[int, list[str] | str]]:
    """Rows of a tab-separated file, or why a line is none.

    Quoting is undone as the csv module does, but line by line: a stray quotation mark in one row must not
    swallow the rows after it.
    """
    for number, line in file.lines():
        if isinstance(line, Unreadable):
            yield number, str(line)
            continue
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            yield number, "not UTF-8"
            continue
        if not text.strip():
            continue
        # A quotation mark means something only at the start of a cell.
        marked = quoted and (text[0] == '"' or '\t"' in text)
        if marked and text.count('"') % 2 == 0 and len(text) < csv.field_size_limit():
            yield number, next(csv.reader([text.replace("\r", " ")], delimiter="\t"))
        else:
            yield number, text.split("\t")


def _index(names: list[str], name: str) -> int | None:
    return names.index(name) if name in names else None


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
