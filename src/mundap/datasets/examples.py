"""Training examples in the field's files: DPR's json and json lines, Tevatron, BEIR, triples of texts or of ids.

Every file is streamed, and an unusable row is reported with its place.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mundap.datasets import beir
from mundap.datasets.detect import detect
from mundap.datasets.objects import as_context, from_row
from mundap.disk import disk_errors, json_array, json_bytes, replacing
from mundap.documents.files import STREAM_ERRORS, SourceFile, explain, open_file
from mundap.documents.stream import json_items, json_lines, table
from mundap.errors import MundapError, UsageError
from mundap.records import Context, Example, Question, Skipped

Write = Callable[[Example], None]
Writing = Callable[[Path], AbstractContextManager[Write]]

FORMATS = ("dpr-json", "dpr-jsonl", "tevatron", "beir", "triples", "triple-ids")
"""What can be read. Triples of ids are not written: they say nothing without the corpus they came from."""

LISTS = {
    "positives": ("positive_ctxs", "positive_passages"),
    "hard": ("hard_negative_ctxs", "negative_passages"),
    "negatives": ("negative_ctxs",),
}


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts behind the ids in a file of triples.

    Attributes:
        questions: By id.
        passage: From an id to the passage; None if there is none.
    """

    questions: Mapping[str, Question]
    passage: Callable[[str], Context | None]


def read_examples(path: str | Path, form: str | None = None, texts: Texts | None = None) -> Iterator[Example | Skipped]:
    """Yield the examples of a file or BEIR folder; for an unusable row, the reason instead.

    Args:
        path: A file, or a BEIR folder.
        form: A name in `FORMATS`; by default detected from the content.
        texts: For triples of ids: the questions and passages they name.

    Raises:
        MundapError: The file is missing or breaks off, or it has triples of ids and no texts were given.
    """
    form = form or detect(path).examples
    try:
        if form == "beir":
            yield from beir.read_examples(Path(path))
        elif form == "triples":
            yield from _read_triples(open_file(path))
        elif form == "triple-ids":
            yield from _read_triple_ids(open_file(path), texts)
        else:
            for where, position, row in rows(open_file(path), form):
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
    """Convert a row of a DPR or Tevatron file to an example, or return the reason why not."""
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


def format_for(path: str | Path) -> str:
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
    raise UsageError(f"{path}: cannot tell the format from the name. Say which of {', '.join(WRITABLE)} is meant.")


@contextmanager
def writing(path: str | Path, form: str) -> Iterator[Write]:
    """Write examples one by one; the file appears when all are written, or not at all."""
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
    count = 0
    for found in _grouped(file, "expected three columns, none empty: question, positive, negative"):
        if isinstance(found, Skipped):
            yield found
        elif found.has_ids():
            yield Skipped(found.where, "a triple of ids among triples of texts")
        else:
            negatives = tuple(Context(text=text) for text in found.negatives)
            yield Example(Question(str(count), found.question), (Context(text=found.positive),), negatives)
            count += 1


def _read_triple_ids(file: SourceFile, texts: Texts | None) -> Iterator[Example | Skipped]:
    """MS MARCO's qidpidtriples: ids of question, positive and negative; rows of the same two make one example."""
    if texts is None:
        told = "{path} has triples of ids: give the file of the queries and the index of the passages too"
        raise UsageError(told, path=file.path)
    for found in _grouped(file, "expected three columns: ids of question, positive, negative"):
        yield found if isinstance(found, Skipped) else _from_ids(found, texts)


@dataclass(slots=True)
class _Triples:
    """Rows of one question and positive."""

    where: str
    question: str
    positive: str
    negatives: list[str]

    def has_ids(self) -> bool:
        """Whether these are ids instead of texts."""
        return all(cell.strip().isdigit() for cell in (self.question, self.positive, *self.negatives))


def _grouped(file: SourceFile, expected: str) -> Iterator["_Triples | Skipped"]:
    """Rows of three columns, those of the same question and positive together."""
    group: _Triples | None = None
    for number, row in table(file, quoted=False):
        where = f"{file.source}:{number}"
        if isinstance(row, Skipped):
            yield row
        elif len(row) != 3 or not all(map(str.strip, row)):
            yield Skipped(where, expected)
        elif group and (group.question, group.positive) == (row[0], row[1]):
            group.negatives.append(row[2])
        else:
            if group:
                yield group
            group = _Triples(where, row[0], row[1], [row[2]])
    if group:
        yield group


def _from_ids(found: _Triples, texts: Texts) -> Example | Skipped:
    question, positive = found.question.strip(), found.positive.strip()
    asked, right = texts.questions.get(question), texts.passage(positive)
    if asked is None:
        return Skipped(found.where, f"question {question} is not among the queries")
    if right is None:
        return Skipped(found.where, f"passage {positive} is not in the index")
    wrong = [texts.passage(name.strip()) for name in found.negatives]
    return Example(asked, (right,), tuple(filter(None, wrong)))


_WRITERS: dict[str, Writing] = {
    "dpr-json": _dpr_json,
    "dpr-jsonl": _dpr_jsonl,
    "tevatron": _tevatron,
    "triples": _triples,
    "beir": beir.writing,
}
WRITABLE = tuple(_WRITERS)
"""The formats that examples can be written in."""


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
