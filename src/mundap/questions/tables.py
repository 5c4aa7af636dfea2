"""Questions in tab-separated files."""

import ast
import re
from collections.abc import Iterator

from mundap.documents.files import SourceFile
from mundap.documents.stream import table
from mundap.records import Question, Skipped

_HEADERS = (["question", "answers"], ["question", "answer"], ["query", "answers"])
_LONGEST_LIST = 1_000_000
_TREC_KIND = re.compile(r"[\w-]{0,30}")
_WIKIMOVIES = re.compile(r"\d+ (?=\S)")


def detect(head: str) -> str:
    """Which kind of table begins like this."""
    cells = head.split("\n", 1)[0].split("\t")
    if len(cells) >= 4 and cells[0].strip().isdigit() and _TREC_KIND.fullmatch(cells[1]):
        return "trec"
    if len(cells) == 2 and _WIKIMOVIES.match(cells[0]) and not cells[1].lstrip().startswith(("[", "(")):
        return "wikimovies"
    return "csv"


def read_csv(file: SourceFile) -> Iterator[Question | Skipped]:
    """DPR's and NQ-open's form: question, tab, a list of answers written as in Python (or one plain answer)."""
    for position, (number, row) in enumerate(table(file, quoted=True)):
        where = f"{file.source}:{number}"
        if isinstance(row, Skipped):
            yield row
        elif len(row) < 2:
            yield Skipped(where, "expected two columns, separated by a tab: question, list of answers")
        elif position == 0 and [cell.strip().lower() for cell in row[:2]] in _HEADERS:
            continue
        else:
            yield from _question(str(position), row[0], _listed(row[1]), where)


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
            whole = [row[1].strip()] if len(answers) > 1 else []
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
        return [cell] if not cell.startswith(("['", '["', "[]")) else "a broken list of answers"
    values = value if isinstance(value, list | tuple) else [cell]
    return [str(part) for part in values]
