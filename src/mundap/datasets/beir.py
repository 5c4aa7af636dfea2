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
_SPLITS = ("train", "test", "dev")


def read_qrels(path: str | Path) -> tuple[Qrels, list[Skipped]]:
    """Judgements, and the lines that are none.

    Reads BEIR's three columns with a header, and TREC's and MS MARCO's four (question, 0, document, relevance).

    Raises:
        MundapError: There is no judgement in it.
    """
    file = open_file(path)
    qrels: Qrels = {}
    skipped: list[Skipped] = []
    try:
        for number, row in table(file, quoted=False):
            where = f"{file.source}:{number}"
            if isinstance(row, Skipped):
                skipped.append(row)
                continue
            cells = row if len(row) in (3, 4) else "\t".join(row).split()
            if number == 1 and len(cells) == 3 and not _is_whole(cells[-1]) and cells[-1].strip().isalpha():
                continue  # the header
            if len(cells) not in (3, 4) or not _is_whole(cells[-1]):
                skipped.append(Skipped(where, "expected: question, (0,) document, relevance"))
                continue
            judged = qrels.setdefault(cells[0].strip(), {})
            name = cells[-2].strip()
            if judged.get(name, int(cells[-1])) != int(cells[-1]):
                skipped.append(Skipped(where, f"document {name} is judged twice, differently: the first counts"))
                continue
            judged[name] = int(cells[-1])
    except STREAM_ERRORS as error:
        raise MundapError(f"{path}: {explain(error)}. Repair or replace the file.") from error
    if not qrels:
        reason = f" {skipped[0].source}: {skipped[0].reason}." if skipped else ""
        raise MundapError(f"{path}: no judgements in it.{reason}")
    return qrels, skipped


def qrels_path(folder: Path, split: str | None = None) -> Path:
    """The judgements of a BEIR folder: of the given split, or of the one there is (test before the others).

    Raises:
        MundapError: They are not there.
    """
    for name in [split] if split else ["test", "dev", "train"]:
        path = folder / "qrels" / f"{name}.tsv"
        if path.is_file():
            return path
    wanted = f"qrels/{split}.tsv" if split else "qrels/test.tsv, dev.tsv or train.tsv"
    raise MundapError(f"{folder}: no {wanted}. A BEIR folder has corpus.jsonl, queries.jsonl and qrels/.")


def queries_path(folder: Path) -> Path:
    """The questions of a BEIR folder."""
    return _part(folder, "queries.jsonl")


def _part(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    raise MundapError(f"{folder}: no {name}. A BEIR folder has corpus.jsonl, queries.jsonl and qrels/.")


def read_examples(folder: Path) -> Iterator[Example | Skipped]:
    """Training examples: judged documents are positives, those judged 0 hard negatives."""
    qrels, skipped = read_qrels(
        next((path for split in _SPLITS if (path := folder / "qrels" / f"{split}.tsv").is_file()), qrels_path(folder))
    )
    yield from skipped
    needed = {name for judged in qrels.values() for name in judged}
    texts: dict[str, Context] = {}
    for _, row in json_lines(open_file(_part(folder, "corpus.jsonl"))):
        context = None if isinstance(row, Skipped) else as_context(row)
        if context and context.id in needed:
            texts[context.id] = context
    for question in read_jsonl(open_file(queries_path(folder))):
        if isinstance(question, Skipped):
            yield question
        elif question.id in qrels:
            yield _example(folder, question, qrels.pop(question.id), texts)
    for name in qrels:
        yield Skipped(f"{folder}/queries.jsonl", f"question {name} is judged but not there")


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
        raise MundapError(f"{folder} is there already. Give a new folder.")
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


def _is_whole(cell: str) -> bool:
    return _WHOLE.fullmatch(cell.strip()) is not None
