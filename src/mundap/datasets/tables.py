"""Questions in tab-separated files."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from mundap.documents.files import SourceFile, Unreadable
from mundap.documents.stream import table
from mundap.records import Question, Skipped

_QUESTION = ("question", "query")
_ANSWERS = ("answers", "answer")
_ID = ("id", "qid", "question_id", "query_id")
_LONGEST_LIST = 1_000_000
_WIKIMOVIES = re.compile(r"\d+ (?=\S)")


@dataclass(frozen=True, slots=True)
class _Columns:
    """Which column has what."""

    question: int = 0
    answers: int | None = 1
    id: int | None = None
    count: int = 2


def read_csv(file: SourceFile) -> Iterator[Question | Skipped]:
    """DPR's and NQ-open's form: question, tab, a list of answers written as in Python (or one plain answer).

    A header row may name the columns; then there may be more of them.

    Raises:
        Unreadable: There is a header without a column for the answers.
    """
    columns = _Columns()
    for position, (number, row) in enumerate(table(file, quoted=True)):
        where = f"{file.source}:{number}"
        if isinstance(row, Skipped):
            yield row
            continue
        header = None
        if position == 0:
            header = _header(row)
        if header is not None:
            columns = header
        elif len(row) != columns.count:
            yield Skipped(where, f"{len(row)} columns: {_expected(columns)}")
        else:
            name = ""
            if columns.id is not None:
                name = row[columns.id].strip()
            answers: list[str] | str = []
            if columns.answers is not None:
                answers = _listed(row[columns.answers])
            yield from _question(name or str(position), row[columns.question], answers, where)


def _expected(columns: _Columns) -> str:
    if columns == _Columns():
        return "expected two, separated by a tab (question, list of answers), or a header row that names them"
    return f"the header has {columns.count}"


def _header(row: list[str]) -> _Columns | None:
    """The columns that a first row names; None if it is an ordinary row."""
    names = [cell.strip().lower() for cell in row]
    question = _first(names, _QUESTION)
    if question is None or len(set(names)) < len(names):
        return None
    answers, name = _first(names, _ANSWERS), _first(names, _ID)
    if answers is None and len(names) != 1 + (name is not None):
        known = " or ".join(_ANSWERS)
        raise Unreadable(f"the columns are {', '.join(names)}, and none of them is called {known}")
    return _Columns(question, answers, name, len(names))


def _first(names: list[str], wanted: tuple[str, ...]) -> int | None:
    for position, name in enumerate(names):
        if name in wanted:
            return position
    return None


def read_trec(file: SourceFile) -> Iterator[Question | Skipped]:
    """CuratedTREC: id, kind, question, and a regular expression for the answer."""
    for position, (number, row) in enumerate(table(file, quoted=False)):
        where = f"{file.source}:{number}"
        if isinstance(row, Skipped):
            yield row
        elif len(row) < 4:
            yield Skipped(where, "expected four columns: id, kind, question, pattern")
        else:
            yield from _question(row[0].strip() or str(position), row[2], ["\t".join(row[3:]).strip()], where)


def read_wikimovies(file: SourceFile) -> Iterator[Question | Skipped]:
    """WikiMovies: a number, a space, the question, tab, answers separated by commas."""
    for position, (number, row) in enumerate(table(file, quoted=False)):
        where = f"{file.source}:{number}"
        if isinstance(row, Skipped):
            yield row
        elif len(row) != 2:
            yield Skipped(where, "expected two columns: number and question, answers")
        else:
            answers = [part.strip() for part in row[1].split(", ")]
            # "Crouching Tiger, Hidden Dragon" is one title: the whole is a possible answer too.
            whole = []
            if len(answers) > 1:
                whole = [row[1].strip()]
            yield from _question(str(position), _WIKIMOVIES.sub("", row[0], count=1), answers + whole, where)


def read_queries(file: SourceFile) -> Iterator[Question | Skipped]:
    """MS MARCO's queries: id, tab, question. They have no answers; qrels judge them."""
    for number, row in table(file, quoted=False):
        where = f"{file.source}:{number}"
        if isinstance(row, Skipped):
            yield row
        elif len(row) < 2:
            yield Skipped(where, "expected two columns: id, question")
        elif not row[1].strip():
            yield Skipped(where, "empty question")
        else:
            yield Question(row[0].strip(), row[1].strip())


def _question(name: str, text: str, answers: list[str] | str, where: str) -> Iterator[Question | Skipped]:
    if isinstance(answers, str):
        yield Skipped(where, answers)
        return
    if not text.strip():
        yield Skipped(where, "empty question")
        return
    good = tuple(dict.fromkeys(answer for answer in answers if answer.strip()))
    if len(good) < len(set(answers)):
        yield Skipped(where, "an empty answer was left out")
    yield Question(name, text.strip(), good)


def _listed(cell: str) -> list[str] | str:
    """The answers in a cell, or why they cannot be read. Literals only: nothing in a file is ever evaluated."""
    cell = cell.strip()
    if not cell.startswith(("[", "(")):
        return [cell]
    if len(cell) > _LONGEST_LIST:
        return f"a list of answers longer than {_LONGEST_LIST:,} characters"
    try:
        value = ast.literal_eval(cell)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        # An answer may simply begin with a bracket; a list that does not end is a broken row.
        if not cell.startswith(("['", '["', "[]")):
            return [cell]
        return "a broken list of answers"
    values = value
    if not isinstance(value, list | tuple):
        values = [cell]
    return [str(part) for part in values]
