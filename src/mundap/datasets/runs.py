"""Retrieval results in files: DPR's result json in both dialects, TREC runs, MS MARCO's candidates."""

import math
import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from mundap.datasets.detect import detect
from mundap.datasets.objects import as_context, from_row
from mundap.disk import disk_errors, json_array, json_bytes, replacing
from mundap.documents.files import STREAM_ERRORS, SourceFile, Unreadable, explain, open_file
from mundap.documents.stream import json_items, json_lines, table
from mundap.errors import MundapError
from mundap.records import Context, Question, Result, Skipped

_BLANKS = " \t\n\r\v\f"
_CODED = re.compile(r"%(20|09|0A|0D|0B|0C)")
_CONTEXTS = ("ctxs", "contexts")


@dataclass(slots=True)
class Faults:
    """What was wrong with a run, for the report.

    Attributes:
        duplicates: Passages listed more than once for a question; the best place counts.
        ties: Questions with equal scores; they are put in the order of the passage ids, highest first, as trec_eval
            does (where a file has no scores of its own, its order counts).
        skipped: Lines that could not be read.
    """

    duplicates: int = 0
    ties: int = 0
    skipped: list[Skipped] = field(default_factory=list)


def read_run(path: str | Path, faults: Faults | None = None) -> Iterator[Result]:
    """Yield the results of each question, best first, each passage once.

    Raises:
        MundapError: The file is missing, broken, or not a run.
    """
    if faults is None:
        faults = Faults()
    file = open_file(path)
    try:
        found = detect(path)
        if found.layout == "empty":
            raise MundapError(f"{path}: the file is empty")
        if found.run == "top1000":
            yield from _read_top1000(file, faults)
        elif found.run == "trec":
            yield from _read_trec(file, faults)
        else:
            for result in _read_dpr(file, found.run == "dpr-lines", faults):
                yield _once(result, faults)
    except STREAM_ERRORS as error:
        raise MundapError(f"{path}: {explain(error)}. Repair or replace the file.") from error


def _read_dpr(file: SourceFile, by_line: bool, faults: Faults) -> Iterator[Result]:
    """An array of results, JSON lines of them, or Pyserini's object with a result under each question id."""
    if by_line:
        rows: Iterable[tuple[Any, Any]] = json_lines(file)
    else:
        rows = json_items(file, members=True)
    for count, (key, row) in enumerate(rows):
        if isinstance(row, Skipped):
            faults.skipped.append(row)
            continue
        where = f"{file.source}#{count + 1}"
        result = _result(row, str(count) if by_line else key, where)
        if result is None:
            faults.skipped.append(Skipped(where, "not a result: expected a question and `ctxs` or `contexts`"))
        else:
            yield result


def _result(row: Any, key: str, where: str) -> Result | None:
    if not isinstance(row, dict):
        return None
    listed = None
    for name in _CONTEXTS:
        if isinstance(row.get(name), list):
            listed = row[name]
            break
    question = list(from_row(row, key, where))[-1]
    if listed is None or not isinstance(question, Question):
        return None
    contexts = [as_context(part) for part in listed]
    return Result(question, tuple(context for context in contexts if context is not None))


def _once(result: Result, faults: Faults) -> Result:
    """The order of the file is the ranking; a passage counts where it stands first."""
    seen: dict[str, Context] = {}
    for position, context in enumerate(result.contexts):
        name = context.id or f"\0{position}"
        if name in seen:
            faults.duplicates += 1
        else:
            seen[name] = context
    if len(seen) == len(result.contexts):
        return result
    return replace(result, contexts=tuple(seen.values()))


class _Lines:
    """The lines of a run, put together by question.

    Ids are kept joined, a few bytes each: a run of MS MARCO has seven million lines.
    """

    def __init__(self) -> None:
        self._found: dict[str, tuple[bytearray, array[float]]] = {}

    def add(self, question: bytes, document: bytes, score: float) -> None:
        names, scores = self._found.setdefault(_from_one_word(question), (bytearray(), array("d")))
        names += document + b"\n"
        scores.append(score)

    def rankings(self) -> Iterator[tuple[str, list[tuple[str, float]]]]:
        for question, (joined, scores) in self._found.items():
            names = map(_from_one_word, bytes(joined).split(b"\n"))
            yield question, list(zip(names, scores, strict=False))

    def __bool__(self) -> bool:
        return bool(self._found)


def _read_trec(file: SourceFile, faults: Faults) -> Iterator[Result]:
    """Lines of `question Q0 document rank score tag`, or MS MARCO's `question document rank`."""
    lines = _Lines()
    for number, line in file.lines():
        if isinstance(line, bytes) and not line.strip():
            continue
        row = _trec_row(line)
        if row is None:
            faults.skipped.append(Skipped(f"{file.source}:{number}", "expected: question Q0 document rank score tag"))
        else:
            lines.add(*row)
    _require(lines, file, faults)
    for question, ranked in lines.rankings():
        best: dict[str, float] = {}
        for document, score in ranked:
            faults.duplicates += document in best
            best[document] = max(score, best.get(document, score))
        best = {document: float(np.float32(score)) for document, score in best.items()}  # as trec_eval keeps them
        faults.ties += len(set(best.values())) < len(best)
        order = sorted(best.items(), key=lambda pair: (pair[1], pair[0]), reverse=True)
        yield Result(Question(question, ""), tuple(Context(document, score=score) for document, score in order))


def _trec_row(line: bytes | Unreadable) -> tuple[bytes, bytes, float] | None:
    """(question, document, score) of a line."""
    if not isinstance(line, bytes):
        return None
    cells = line.split()
    try:
        if len(cells) == 3:
            row = cells[0], cells[1], -float(cells[2])
        else:
            row = cells[0], cells[2], float(cells[4])
    except (IndexError, ValueError):
        return None
    if math.isnan(row[2]):
        return None
    return row


def _read_top1000(file: SourceFile, faults: Faults) -> Iterator[Result]:
    """MS MARCO's candidates: question id, passage id, question, passage. Their order says nothing.

    Texts are passed over: a thousand passages for each of seven thousand questions would not fit in memory.
    """
    lines = _Lines()
    for number, row in table(file, quoted=False):
        if isinstance(row, Skipped):
            faults.skipped.append(row)
        elif len(row) != 4:
            reason = "expected four columns: question id, passage id, question, passage"
            faults.skipped.append(Skipped(f"{file.source}:{number}", reason))
        else:
            lines.add(row[0].strip().encode(), row[1].strip().encode(), 0.0)
    _require(lines, file, faults)
    for question, ranked in lines.rankings():
        contexts = tuple(Context(document) for document, _ in ranked)
        yield _once(Result(Question(question, ""), contexts), faults)


def _require(lines: _Lines, file: SourceFile, faults: Faults) -> None:
    if not lines:
        reason = ""
        if faults.skipped:
            reason = f" {faults.skipped[0].source}: {faults.skipped[0].reason}."
        raise MundapError(f"{file.path}: no run in it.{reason}")


@contextmanager
def writing(path: str | Path, tag: str = "mundap") -> Iterator[Callable[[Result], None]]:
    """Write results one by one: DPR's json if the name ends in .json or .jsonl, else a TREC run (+ .gz)."""
    where = Path(path)
    if not where.parent.is_dir():
        raise MundapError(f"{where.parent}: no such folder. Make it first.")
    name = where.name.removesuffix(".gz")
    with disk_errors(where), replacing(where) as file:
        if name.endswith(".jsonl"):
            yield lambda result: _write(file, json_bytes(_dpr_row(result)) + b"\n")
        elif name.endswith(".json"):
            with json_array(file) as write:
                yield lambda result: write(_dpr_row(result))
        else:
            yield lambda result: _write(file, _trec_lines(result, tag))


def _write(file: IO[bytes], data: bytes) -> None:
    file.write(data)


def _dpr_row(result: Result) -> dict[str, Any]:
    question = result.question
    return {
        "id": question.id,
        "question": question.text,
        "answers": list(question.answers),
        "ctxs": [
            {
                "id": context.id,
                "title": context.title,
                "text": context.text,
                "score": str(context.score),  # a string, as in the original
                "has_answer": context.has_answer,
            }
            for context in result.contexts
        ],
    }


def _trec_lines(result: Result, tag: str) -> bytes:
    # trec_eval keeps scores in 32 bits and breaks ties by id: equal ones are told apart, so that it sees our order.
    lines, last = [], np.float32(np.inf)
    for rank, context in enumerate(result.contexts, 1):
        last = min(np.float32(context.score), np.nextafter(last, np.float32(-np.inf)))
        question, name = map(_one_word, (result.question.id, context.id))
        lines.append(f"{question} Q0 {name} {rank} {float(last):.9g} {tag}\n")
    return "".join(lines).encode("utf-8", "replace")


def _one_word(name: str) -> str:
    """An id as a TREC run can hold it: blanks are written as in addresses, %20."""
    return "".join(f"%{ord(letter):02X}" if letter in _BLANKS else letter for letter in name) or "-"


def _from_one_word(name: bytes) -> str:
    """An id out of a TREC run."""
    text = name.decode("utf-8", "replace")
    if "%" in text:
        return _CODED.sub(lambda match: chr(int(match[1], 16)), text)
    return text
