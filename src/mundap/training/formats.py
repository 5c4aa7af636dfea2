"""Training examples in the field's files: DPR's json and json lines, Tevatron, BEIR and triples.

Whatever the file, it is streamed, and a row that cannot be used is reported with its place.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from mundap.disk import disk_errors, json_array, json_bytes, replacing
from mundap.documents.files import STREAM_ERRORS, SourceFile, explain, open_file
from mundap.documents.stream import json_items, json_lines, table
from mundap.errors import MundapError, UsageError
from mundap.questions import beir
from mundap.questions.objects import as_context, from_row, is_row
from mundap.records import Context, Example, Question, Skipped

Write = Callable[[Example], None]
Writing = Callable[[Path], AbstractContextManager[Write]]

FORMS = ("dpr-json", "dpr-jsonl", "tevatron", "beir", "triples")

LISTS = {
    "positives": ("positive_ctxs", "positive_passages"),
    "hard": ("hard_negative_ctxs", "negative_passages"),
    "negatives": ("negative_ctxs",),
}


def read_examples(path: str | Path, form: str | None = None) -> Iterator[Example | Skipped]:
    """Yield the examples of a file or BEIR folder and, in their place, the rows that have none and why.

    Raises:
        MundapError: The file is missing or breaks off.
    """
    form = form or detect(path)
    try:
        if form == "beir":
            yield from beir.read_examples(Path(path))
            return
        file = open_file(path)
        if form == "triples":
            yield from _read_triples(file)
            return
        for where, position, row in rows(file, form):
            yield row if isinstance(row, Skipped) else example(row, position, where)
    except STREAM_ERRORS as error:
        raise MundapError(f"{path}: {explain(error)}. Repair or replace the file.") from error


def rows(file: SourceFile, form: str) -> Iterator[tuple[str, int, Any | Skipped]]:
    """Yield (place, position, object) of the rows of a DPR or Tevatron file."""
    if form == "dpr-json":
        for position, (_, value) in enumerate(json_items(file)):
            yield f"{file.source}#{position + 1}", position, value
    else:
        for position, (number, value) in enumerate(json_lines(file)):
            yield f"{file.source}:{number}", position, value


def example(row: Any, position: int, where: str) -> Example | Skipped:
    """A row of a DPR or Tevatron file as an example, or why it is none."""
    if not isinstance(row, dict):
        return Skipped(where, "not a JSON object")
    found = list(from_row(row, str(position), where))
    question = found[-1]
    if not isinstance(question, Question):
        return question
    lists = {name: _contexts(row, keys) for name, keys in LISTS.items()}
    if not lists["positives"]:
        return Skipped(where, "no positive passage with a text")
    plain = Question(question.id, question.text, question.answers)
    return Example(plain, lists["positives"], lists["hard"], lists["negatives"])


def _contexts(row: dict[str, Any], keys: tuple[str, ...]) -> tuple[Context, ...]:
    listed: list[Any] = next((row[key] for key in keys if isinstance(row.get(key), list)), [])
    contexts = (as_context(part) for part in listed)
    return tuple(context for context in contexts if context is not None and context.text.strip())


def detect(path: str | Path) -> str:
    """The format of an existing file, from its content."""
    if Path(path).is_dir():
        return "beir"
    head = open_file(path).head()
    if head.startswith(b"["):
        return "dpr-json"
    if head.startswith(b"{"):
        if not is_row(head):
            return "dpr-json"
        return "tevatron" if b'"positive_passages"' in head else "dpr-jsonl"
    return "triples"


def form_for(path: str | Path) -> str:
    """The format that a new file's name asks for.

    Raises:
        UsageError: It asks for none.
    """
    name = Path(path).name.removesuffix(".gz")
    if name.endswith((".jsonl", ".ndjson")):
        return "dpr-jsonl"
    if name.endswith(".json"):
        return "dpr-json"
    if name.endswith(".tsv"):
        return "triples"
    raise UsageError(f"{path}: cannot tell the format from the name. Say which with --to: {', '.join(FORMS)}")


@contextmanager
def writing(path: str | Path, form: str) -> Iterator[Write]:
    """Write examples one by one; the file is there when all are written, or not at all."""
    where = Path(path)
    if not where.parent.is_dir():
        raise MundapError(f"{where.parent}: no such folder. Make it first.")
    with disk_errors(where), _WRITERS[form](where) as write:
        yield write


@contextmanager
def _dpr_json(path: Path) -> Iterator[Write]:
    with replacing(path) as file, json_array(file) as write:
        yield lambda one: write(_dpr(one))


@contextmanager
def _dpr_jsonl(path: Path) -> Iterator[Write]:
    with replacing(path) as file:
        yield lambda one: _write_line(file, _dpr(one))


@contextmanager
def _tevatron(path: Path) -> Iterator[Write]:
    with replacing(path) as file:
        yield lambda one: _write_line(
            file,
            {
                "query_id": one.question.id,
                "query": one.question.text,
                "answers": list(one.question.answers),
                "positive_passages": [_plain(context) for context in one.positives],
                "negative_passages": [_plain(context) for context in one.hard + one.negatives],
            },
        )


@contextmanager
def _triples(path: Path) -> Iterator[Write]:
    with replacing(path) as file:

        def write(one: Example) -> None:
            best = _one_line(one.positives[0])
            for negative in one.hard + one.negatives:
                cells = (" ".join(one.question.text.split()), best, _one_line(negative))
                file.write("\t".join(cells).encode("utf-8", "replace") + b"\n")

        yield write


def _read_triples(file: SourceFile) -> Iterator[Example | Skipped]:
    """MS MARCO's question, positive, negative; rows of the same question and positive make one example."""
    same: tuple[str, str] | None = None
    negatives: list[Context] = []
    count = 0
    for number, row in table(file, quoted=False):
        where = f"{file.source}:{number}"
        if isinstance(row, Skipped):
            yield row
            continue
        if len(row) != 3 or not all(cell.strip() for cell in row):
            yield Skipped(where, "expected three columns, none empty: question, positive, negative")
            continue
        if all(cell.strip().isdigit() for cell in row):
            yield Skipped(where, "a triple of ids: only triples of texts can be read")
            continue
        if same and same != (row[0], row[1]):
            yield _from_triples(same, negatives, count)
            negatives = []
            count += 1
        same = row[0], row[1]
        negatives.append(Context(text=row[2]))
    if same:
        yield _from_triples(same, negatives, count)


def _from_triples(same: tuple[str, str], negatives: list[Context], position: int) -> Example:
    return Example(Question(str(position), same[0]), (Context(text=same[1]),), tuple(negatives))


_WRITERS: dict[str, Writing] = {
    "dpr-json": _dpr_json,
    "dpr-jsonl": _dpr_jsonl,
    "tevatron": _tevatron,
    "triples": _triples,
    "beir": beir.writing,
}


def _dpr(one: Example) -> dict[str, Any]:
    return {
        "id": one.question.id,
        "question": one.question.text,
        "answers": list(one.question.answers),
        "positive_ctxs": [_scored(context) for context in one.positives],
        "negative_ctxs": [_scored(context) for context in one.negatives],
        "hard_negative_ctxs": [_scored(context) for context in one.hard],
    }


def _scored(context: Context) -> dict[str, Any]:
    return {
        "title": context.title,
        "text": context.text,
        "score": context.score,
        "title_score": 0,
        "passage_id": context.id,
    }


def _plain(context: Context) -> dict[str, Any]:
    return {"docid": context.id, "title": context.title, "text": context.text}


def _one_line(context: Context) -> str:
    return " ".join(f"{context.title} {context.text}".split())


def _write_line(file: Any, value: Any) -> None:
    file.write(json_bytes(value) + b"\n")
