"""Rows out of files of any size: JSON values, JSON lines and tables, one at a time."""

import csv
import json
from collections.abc import Iterator
from typing import IO, Any

from mundap.documents.files import SourceFile, Unreadable
from mundap.records import Skipped

_DEEPEST = 100


def json_lines(file: SourceFile) -> Iterator[tuple[int, Any | Skipped]]:
    """Yield (line number, value) of each line that is not blank, or why a line has none."""
    for number, line in file.lines():
        where = f"{file.source}:{number}"
        if isinstance(line, Unreadable):
            yield number, Skipped(where, str(line))
        elif line.strip():
            try:
                yield number, json.loads(line)
            except UnicodeDecodeError:
                yield number, Skipped(where, "not UTF-8")
            except (ValueError, RecursionError) as error:
                yield number, Skipped(where, f"not JSON ({first_line(error)})")


def json_items(file: SourceFile, members: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield (key, value) of a JSON file's records: of a top-level array, or of the array `data` in an object.

    Args:
        file: What to read.
        members: The members of a top-level object are records too, under their own keys.

    Raises:
        Unreadable: The JSON is broken or ends too early; what came before has been yielded.
    """
    import ijson

    count = 0
    with file.open() as stream:
        mark = stream.read(3)
    with file.open() as stream:
        if mark == b"\xef\xbb\xbf":
            stream.read(3)
        try:
            for key, value in _items(stream, members):
                yield key or str(count), value
                count += 1
        except (ijson.JSONError, UnicodeDecodeError) as error:
            raise Unreadable(f"broken JSON after {count} records ({first_line(error)})") from error


def _items(stream: IO[bytes], members: bool) -> Iterator[tuple[str, Any]]:
    """By events and not by ijson's paths, whose memory grows with the square of the nesting."""
    import ijson
    from ijson.common import ObjectBuilder

    depth, key, inside = 0, "", 0  # `inside` is the depth of the elements once their array has begun
    builder: Any = None
    for event, value in ijson.basic_parse(stream, use_float=True):
        opens, closes = event in ("start_map", "start_array"), event in ("end_map", "end_array")
        depth -= closes
        array = event == "start_array" and (depth == 0 or (depth == 1 and key.lower() == "data"))
        if event == "map_key" and depth == 1:
            key = value
        elif array and not inside:
            inside, key = depth + 1, ""
        elif event == "start_map" and depth == 1 and members and not inside:
            inside, builder = 1, ObjectBuilder()
            builder.event(event, value)
        elif inside and depth < inside:
            inside = 0
        elif inside:
            if depth == inside and event != "map_key" and not closes:
                builder = ObjectBuilder()
            builder.event(event, value)
            if depth == inside and not opens:
                yield key, builder.value
                if key:
                    inside = 0
        depth += opens
        if depth > _DEEPEST:
            raise Unreadable(f"nested more than {_DEEPEST} levels deep")


def table(file: SourceFile, quoted: bool) -> Iterator[tuple[int, list[str] | Skipped]]:
    """Yield (line number, cells) of a tab-separated file, or why a line has none.

    Quoting is undone as the csv module does, but line by line: a stray quotation mark in one row must not
    swallow the rows after it.
    """
    for number, line in file.lines():
        where = f"{file.source}:{number}"
        if isinstance(line, Unreadable):
            yield number, Skipped(where, str(line))
            continue
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            yield number, Skipped(where, "not UTF-8")
            continue
        if not text.strip():
            continue
        # A quotation mark means something only at the start of a cell.
        marked = quoted and (text[0] == '"' or '\t"' in text)
        if marked and text.count('"') % 2 == 0 and len(text) < csv.field_size_limit():
            yield number, next(csv.reader([text.replace("\r", " ")], delimiter="\t"))
        else:
            yield number, text.split("\t")


def first_line(error: Exception) -> str:
    """An error's message, short enough for one line."""
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
