"""What a retriever found, in files: DPR's result json in both dialects, and TREC runs."""

import json
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from mundap.disk import disk_errors, replacing
from mundap.documents.files import STREAM_ERRORS, SourceFile, explain, open_file
from mundap.documents.stream import json_items, json_lines
from mundap.errors import MundapError
from mundap.questions import settle
from mundap.questions.objects import as_context, from_row, is_row
from mundap.records import Context, Question, Result, Skipped

_CONTEXTS = ("ctxs", "contexts")


@dataclass(slots=True)
class Faults:
    """What was wrong with a run, so that it can be said.

    Attributes:
        duplicates: Passages listed more than once for a question; the best place counts.
        ties: Questions with equal scores; they are put in the order of the passage ids, highest first, as trec_eval
            does (where a file has no scores of its own, its order counts).
        skipped: Lines that could not be read.
    """

    duplicates: int = 0
    ties: int = 0
    skipped: list[Skipped] = field(default_factory=list)


def is_trec(path: str | Path) -> bool:
    """Whether a run file is TREC's kind, by its content."""
    return _head(open_file(path))[:1] not in (b"{", b"[")


def read_run(path: str | Path, faults: Faults | None = None) -> Iterator[Result]:
    """Yield what was found for each question, best first, each passage once.

    Raises:
        MundapError: The file is missing, broken, or not a run.
    """
    faults = faults if faults is not None else Faults()
    file = open_file(path)
    try:
        head = _head(file)
        if not head:
            raise MundapError(f"{path}: the file is empty")
        if head[:1] in (b"{", b"["):
            yield from (_once(result, faults) for result in _read_dpr(file, head, faults))
        else:
            yield from _read_trec(file, faults)
    except STREAM_ERRORS as error:
        raise MundapError(f"{path}: {explain(error)}. Repair or replace the file.") from error


def _head(file: SourceFile) -> bytes:
    try:
        with file.open() as stream:
            return stream.read(1 << 16).removeprefix(b"\xef\xbb\xbf").lstrip()
    except STREAM_ERRORS as error:
        raise MundapError(f"{file.path}: {explain(error)}. Repair or replace the file.") from error


def _read_dpr(file: SourceFile, head: bytes, faults: Faults) -> Iterator[Result]:
    """An array of results, JSON lines of them, or Pyserini's object with a result under each question id."""
    lines = head.startswith(b"{") and is_row(head) and any(f'"{key}"'.encode() in head for key in _CONTEXTS)
    lines = lines and not _is_dialect(head)
    rows = ((str(n), row) for n, (_, row) in enumerate(json_lines(file))) if lines else json_items(file, members=True)
    for count, (key, row) in enumerate(rows):
        where = f"{file.source}#{count + 1}"
        if isinstance(row, Skipped):
            faults.skipped.append(row)
            continue
        listed = next((row[name] for name in _CONTEXTS if isinstance(row.get(name), list)), None) if isinstance(
            row, dict
        ) else None  # fmt: skip
        question = list(from_row(row, key, where))[-1] if isinstance(row, dict) else None
        if listed is None or not isinstance(question, Question):
            faults.skipped.append(Skipped(where, "not a result: expected a question and `ctxs` or `contexts`"))
            continue
        contexts = tuple(context for part in listed if (context := as_context(part)) is not None)
        yield Result(settle(question), contexts)


def _is_dialect(head: bytes) -> bool:
    """Pyserini's file: an object whose members are results."""
    return head.find(b"{", 1) < (head.find(b"[") if b"[" in head else len(head)) and head.find(b"{", 1) > 0


def _once(result: Result, faults: Faults) -> Result:
    """The order of the file is the ranking; a passage counts where it stands first."""
    seen: dict[str, Context] = {}
    for position, context in enumerate(result.contexts):
        name = context.id or f"\0{position}"
        if name in seen:
            faults.duplicates += 1
        else:
            seen[name] = context
    return result if len(seen) == len(result.contexts) else replace(result, contexts=tuple(seen.values()))


def _read_trec(file: SourceFile, faults: Faults) -> Iterator[Result]:
    """Lines of `question Q0 document rank score tag`, or MS MARCO's `question document rank`."""
    # Ids are kept joined, a few bytes each: a run of MS MARCO has seven million lines.
    found: dict[str, tuple[bytearray, array[float]]] = {}
    for number, line in file.lines():
        cells = line.split() if isinstance(line, bytes) else []
        if isinstance(line, bytes) and not cells:
            continue
        try:
            if len(cells) == 3:
                name, score = cells[1], -float(cells[2])
            else:
                name, score = cells[2], float(cells[4])
            if score != score:
                raise ValueError
        except (IndexError, ValueError):
            faults.skipped.append(Skipped(f"{file.source}:{number}", "expected: question Q0 document rank score tag"))
            continue
        names, scores = found.setdefault(cells[0].decode("utf-8", "replace"), (bytearray(), array("d")))
        names += name + b"\n"
        scores.append(score)
    if not found:
        reason = f" {faults.skipped[0].source}: {faults.skipped[0].reason}." if faults.skipped else ""
        raise MundapError(f"{file.path}: no run in it.{reason}")
    for question, (joined, listed) in found.items():
        best: dict[str, float] = {}
        for document, score in zip(joined.decode("utf-8", "replace").split("\n"), listed, strict=False):
            faults.duplicates += document in best
            best[document] = max(score, best.get(document, score))
        faults.ties += len(set(best.values())) < len(best)
        order = sorted(best.items(), key=lambda pair: (pair[1], pair[0]), reverse=True)
        yield Result(Question(question, ""), tuple(Context(document, score=score) for document, score in order))


@contextmanager
def writing(path: str | Path, tag: str = "mundap") -> Iterator[Callable[[Result], None]]:
    """Write results one by one: DPR's json if the name ends in .json or .jsonl, else a TREC run (+ .gz)."""
    where = Path(path)
    if not where.parent.is_dir():
        raise MundapError(f"{where.parent}: no such folder. Make it first.")
    name = where.name.removesuffix(".gz")
    with disk_errors(where), replacing(where) as file:
        if name.endswith(".jsonl"):
            yield lambda result: _write(file, _dpr_line(result) + b"\n")
        elif name.endswith(".json"):
            yield from _dpr_array(file)
        else:
            yield lambda result: _write(file, _trec_lines(result, tag))


def _dpr_array(file: IO[bytes]) -> Iterator[Callable[[Result], None]]:
    opening = b"[\n"

    def write(result: Result) -> None:
        nonlocal opening
        file.write(opening + _dpr_line(result))
        opening = b",\n"

    yield write
    file.write(b"\n]\n" if opening == b",\n" else b"[]\n")


def _write(file: IO[bytes], data: bytes) -> None:
    file.write(data)


def _dpr_line(result: Result) -> bytes:
    question = result.question
    row: dict[str, Any] = {
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
    return json.dumps(row, ensure_ascii=False).encode("utf-8", "replace")


def _trec_lines(result: Result, tag: str) -> bytes:
    # trec_eval orders by score and breaks ties by id: equal scores are told apart, so that it sees our order.
    lines, last = [], float("inf")
    for rank, context in enumerate(result.contexts, 1):
        score = min(round(context.score, 6), last - 1e-6) if rank > 1 else round(context.score, 6)
        last = score
        question, name = ("_".join(part.split()) for part in (result.question.id, context.id))
        lines.append(f"{question} Q0 {name} {rank} {score:.6f} {tag}\n")
    return "".join(lines).encode("utf-8", "replace")
