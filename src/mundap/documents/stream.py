"""Stream rows of files of any size: JSON values, JSON lines and tables."""

import csv
import json
from collections.abc import Iterator
from typing import IO, Any

from mundap.documents.files import SourceFile, Unreadable
from mundap.records import Skipped

_DEEPEST = 100
_OPENING = ("start_map", "start_array")
_CLOSING = ("end_map", "end_array")

_Event = tuple[int, str, Any]  # depth, what it is, its value


def json_lines(file: SourceFile) -> Iterator[tuple[int, Any | Skipped]]:
    """Yield (line number, value) of each line that is not blank; for a broken line, the reason instead."""
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
                yield number, Skipped(where, f"not JSON ({_first_line(error)})")


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
            raise Unreadable(f"broken JSON after {count} records ({_first_line(error)})") from error


def _items(stream: IO[bytes], members: bool) -> Iterator[tuple[str, Any]]:
    """By events and not by ijson's paths, whose memory grows with the square of the nesting."""
    events = _events(stream)
    key = ""
    for depth, event, value in events:
        if event == "map_key" and depth == 1:
            key = value
        elif event == "start_array" and _has_records(depth, key):
            yield from _elements(events, depth + 1)
        elif event == "start_map" and depth == 1 and members:
            yield key, _value(events, depth, event, value)


def _has_records(depth: int, key: str) -> bool:
    """Whether an array holds the records: the whole file, or what SQuAD's files call `data`."""
    return depth == 0 or (depth == 1 and key.lower() == "data")


def _events(stream: IO[bytes]) -> Iterator[_Event]:
    """What a parser meets, each with its depth; what opens and closes a value has the depth of that value."""
    import ijson

    depth = 0
    for event, value in ijson.basic_parse(stream, use_float=True):
        if event in _CLOSING:
            depth -= 1
        yield depth, event, value
        if event in _OPENING:
            depth += 1
            if depth > _DEEPEST:
                raise Unreadable(f"nested more than {_DEEPEST} levels deep")


def _elements(events: Iterator[_Event], depth: int) -> Iterator[tuple[str, Any]]:
    """The elements of an array that has begun."""
    for at, event, value in events:
        if at < depth:
            return
        yield "", _value(events, depth, event, value)


def _value(events: Iterator[_Event], depth: int, event: str, value: Any) -> Any:
    """A whole value, whose first event has been met."""
    from ijson.common import ObjectBuilder

    builder = ObjectBuilder()
    builder.event(event, value)
    if event in _OPENING:
        for at, inner, content in events:
            builder.event(inner, content)
            if at == depth:
                break
    return builder.value


def table(file: SourceFile, quoted: bool) -> Iterator[tuple[int, list[str] | Skipped]]:
    """Yield (line number, cells) of a tab-separated file; for a broken line, the reason instead.

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


def _first_line(error: Exception) -> str:
    """An error's message, short enough for one line."""
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
