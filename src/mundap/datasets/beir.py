"""BEIR folders: corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv. Also qrels of any other kind.

In a folder of training examples, qrels of 0 are the hard negatives.
"""

import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

from mundap.datasets.objects import as_context, read_jsonl
from mundap.disk import json_bytes, replacing
from mundap.documents.files import STREAM_ERRORS, explain, open_file
from mundap.documents.stream import json_lines, table
from mundap.errors import MundapError
from mundap.records import Context, Example, Question, Skipped

Qrels = dict[str, dict[str, int]]
"""How relevant each judged document is to each question."""

_WHOLE = re.compile(r"-?[0-9]{1,9}")


def read_qrels(path: str | Path) -> tuple[Qrels, list[Skipped]]:
    """Read judgements, and report the lines that are not.

    Reads BEIR's three columns with a header, and TREC's and MS MARCO's four (question, 0, document, relevance).

    Raises:
        MundapError: There is no judgement in it.
    """
    file = open_file(path)
    qrels: Qrels = {}
    skipped: list[Skipped] = []
    try:
        for number, row in table(file, quoted=False):
            if isinstance(row, Skipped):
                skipped.append(row)
                continue
            problem = _add_judgement(qrels, row, number)
            if problem:
                skipped.append(Skipped(f"{file.source}:{number}", problem))
    except STREAM_ERRORS as error:
        raise MundapError(f"{path}: {explain(error)}. Repair or replace the file.") from error
    if qrels:
        return qrels, skipped
    reasons = [f" {one.source}: {one.reason}." for one in skipped[:1]]
    raise MundapError(f"{path}: no judgements in it.{''.join(reasons)}")


def _add_judgement(qrels: Qrels, row: list[str], number: int) -> str:
    """Add one line, or say what is wrong with it."""
    cells = list(map(str.strip, row))
    if len(cells) not in (3, 4):
        cells = " ".join(row).split()
    if number == 1 and len(cells) == 3 and cells[-1].isalpha():
        return ""  # the header
    if len(cells) not in (3, 4) or not _WHOLE.fullmatch(cells[-1]):
        return "expected: question, (0,) document, relevance"
    question, document, grade = cells[0], cells[-2], int(cells[-1])
    judged = qrels.setdefault(question, {})
    if judged.setdefault(document, grade) != grade:
        return f"document {document} has two different judgements: the first counts"
    return ""


def qrels_path(folder: Path, split: str | None = None) -> Path:
    """The judgements of a BEIR folder: of the given split, or the only one (test first if there are several).

    Raises:
        MundapError: They are not there.
    """
    if split:
        return _first(folder, f"qrels/{split}.tsv")
    return _first(folder, "qrels/test.tsv", "qrels/dev.tsv", "qrels/train.tsv")


def queries_path(folder: Path) -> Path:
    """The questions of a BEIR folder."""
    return _first(folder, "queries.jsonl", "queries.jsonl.gz")


def _first(folder: Path, *names: str) -> Path:
    """The first of some files that is there."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise MundapError(f"{folder}: no {' or '.join(names)}. A BEIR folder has corpus.jsonl, queries.jsonl and qrels/.")


def read_examples(folder: Path) -> Iterator[Example | Skipped]:
    """Training examples: judged documents are positives, those judged 0 hard negatives."""
    qrels, skipped = read_qrels(_first(folder, "qrels/train.tsv", "qrels/test.tsv", "qrels/dev.tsv"))
    yield from skipped
    texts = _judged_texts(folder, qrels)
    for question in read_jsonl(open_file(queries_path(folder))):
        if isinstance(question, Skipped):
            yield question
        elif question.id in qrels:
            yield _example(folder, question, qrels.pop(question.id), texts)
    for name in qrels:
        yield Skipped(f"{folder}/queries.jsonl", f"question {name} is judged, but missing from the queries")


def _judged_texts(folder: Path, qrels: Qrels) -> dict[str, Context]:
    """The documents that have a judgement, by id."""
    needed: set[str] = set()
    for judged in qrels.values():
        needed.update(judged)
    texts: dict[str, Context] = {}
    for _, row in json_lines(open_file(_first(folder, "corpus.jsonl", "corpus.jsonl.gz"))):
        context = as_context(row)
        if context and context.id in needed:
            texts[context.id] = context
    return texts


def _example(folder: Path, question: Question, judged: dict[str, int], texts: dict[str, Context]) -> Example | Skipped:
    right = tuple(texts[name] for name, grade in judged.items() if grade > 0 and name in texts)
    wrong = tuple(texts[name] for name, grade in judged.items() if grade <= 0 and name in texts)
    if not right:
        return Skipped(f"{folder}/queries.jsonl", f"question {question.id} has no positive passage in the corpus")
    return Example(question, right, wrong)


@contextmanager
def writing(folder: Path) -> Iterator[Callable[[Example], None]]:
    """Write a BEIR folder with qrels/train.tsv. A passage without an id gets one by its text."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise MundapError(f"{folder} already exists. Give a new folder.")
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        with _writing(made) as write:
            yield write
        made.chmod(0o755)
        if folder.exists():
            folder.rmdir()
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def _writing(folder: Path) -> Iterator[Callable[[Example], None]]:
    (folder / "qrels").mkdir()
    known: dict[str, int] = {}
    with (
        replacing(folder / "corpus.jsonl") as corpus,
        replacing(folder / "queries.jsonl") as queries,
        replacing(folder / "qrels" / "train.tsv") as qrels,
    ):
        qrels.write(b"query-id\tcorpus-id\tscore\n")

        def filed(context: Context) -> str:
            text = context.text.encode("utf-8", "replace")
            mark = crc32(text)
            name = _one_word(context.id) or "text-" + hashlib.blake2b(text, digest_size=8).hexdigest()
            while known.get(name, mark) != mark:  # two files may use one id for different texts
                name += "'"
            if name not in known:
                known[name] = mark
                row = {"_id": name, "title": context.title, "text": context.text}
                corpus.write(json_bytes(row) + b"\n")
            return name

        def write(one: Example) -> None:
            asked = _one_word(one.question.id)
            row = {"_id": asked, "text": one.question.text, "answers": list(one.question.answers)}
            queries.write(json_bytes(row) + b"\n")
            judged = {filed(context): 0 for context in one.hard + one.negatives}
            judged |= {filed(context): 1 for context in one.positives}
            for name, grade in sorted(judged.items(), key=lambda pair: -pair[1]):
                qrels.write(f"{asked}\t{name}\t{grade}\n".encode("utf-8", "replace"))

        yield write


def _one_word(name: str) -> str:
    """An id that a table can hold."""
    return "_".join(name.split())
