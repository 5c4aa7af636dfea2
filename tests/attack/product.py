"""What is attacked: a small index, the changes that are made to it, and what it holds and finds."""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from mundap.documents import SourceFile, read
from mundap.errors import IndexMissing
from mundap.records import Document, Skipped

_WORDS = ("river", "mountain", "moon", "music", "film", "villain", "ring")
QUESTIONS = ("river music 7", "the king of the mountain", "word3 moon")


class ReadHere:
    """Reads files in this process: the moments that are tried are those of the writer, and a process costs time."""

    def __init__(self, form: str | None = None) -> None:
        self.form = form
        self.position = 0
        self.digest = b""

    def __enter__(self) -> "ReadHere":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def start(self) -> None:
        pass

    def sample(self, files: Iterable[SourceFile], most: int) -> list[Document | Skipped]:
        return [one for file in files for one in islice(self.read(file), most)]

    def read(self, file: SourceFile, coming: Iterable[SourceFile] = ()) -> Iterator[Document | Skipped]:
        yield from read(file, self.form)


def prepared(work: Path) -> Path:
    """Documents, and an index of some of them with a deleted one; run in a child."""
    from mundap.index import build, files

    build.Readers = files.Readers = ReadHere  # type: ignore[misc, assignment]
    docs = work / "docs"
    docs.mkdir(parents=True)
    for n in range(8):
        (docs / f"{n}.txt").write_text(f"river {n} " + "the music of the moon " * (10 * n + 1))
    rows = ({"_id": f"r{n}", "text": f"word{n % 5} the king of the mountain {n}"} for n in range(40))
    (docs / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    changed = work / "changed"
    shutil.copytree(docs, changed)
    (changed / "2.txt").write_text("the mountain has changed")
    (changed / "4.txt").unlink()
    more = work / "more"
    more.mkdir()
    (more / "new.txt").write_text("the river has music of its own " * 30)
    build.build([docs], work / "base", build.Options(model="none"))
    build.delete(work / "base", ["r3"])
    return work


def verbs(work: Path) -> dict[str, Callable[[Path], Any]]:
    """The changes, each a function of the index."""
    from mundap.documents import SourceFile
    from mundap.index import build, files

    build.Readers = files.Readers = ReadHere  # type: ignore[misc, assignment]
    plain = build.Options(model="none")

    def reindex(out: Path) -> None:
        build.build([work / "changed"], out, plain)

    def put(out: Path) -> None:
        build.put([SourceFile(work / "more" / "new.txt", "up.txt", "upload:up.txt")], out)

    def fresh(out: Path) -> None:
        build.build([work / "docs"], out, plain, fresh=True)

    return {
        "index": lambda out: build.build([work / "docs"], out, plain),
        "add": lambda out: build.add([work / "more"], out),
        "upload": put,
        "delete": lambda out: build.delete(out, ["5.txt", "r7"]),
        "compact": build.compact,
        "reindex": reindex,
        "fresh": fresh,
        "repair": build.repair,
    }


def state(out: Path) -> dict[str, Any] | None:
    """What the index holds and finds; None if there is none."""
    from mundap import Index

    try:
        index = Index(out)
    except IndexMissing:
        return None
    held = sorted((one.id, one.title, one.text) for one in index.passages())
    found = {
        question: [[hit.passage.id, round(hit.score, 4)] for hit in index.search(question, 30, "bm25")]
        for question in QUESTIONS
    }
    digest = hashlib.sha256(json.dumps(held).encode()).hexdigest()
    return {"held": digest, "count": len(held), "found": found, "generation": index.manifest.generation}


def with_vectors(work: Path) -> None:
    """An index with all that there can be, and its models, each as a base to be copied; run in a child.

    It has vectors, an approximate index of them, terms stored for another k1 and b, and deleted passages.
    """
    from mundap.index import build, files
    from tests.conftest import make_model, make_reader

    build.Readers = files.Readers = ReadHere  # type: ignore[misc, assignment]
    make_model(work / "good model")
    make_reader(work / "good reader")
    copied(work / "good model", work / "model")
    copied(work / "good reader", work / "reader")
    rows = ({"_id": f"v{n}", "text": f"the king of the {_WORDS[n % 7]} {_WORDS[n % 5]} {n}"} for n in range(300))
    (work / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = build.Options(model=str(work / "model"), dense="ivf", k1=0.9, b=0.4)
    build.build([work / "docs", work / "many.jsonl"], work / "good vectors", options)
    build.delete(work / "good vectors", ["v3", "1.txt"])
    copied(work / "good vectors", work / "vectors")


def dense_state(out: Path) -> dict[str, Any]:
    """What an index finds by its vectors, by its stored terms, and by both."""
    from mundap import Index

    index = Index(out)
    held = sorted((one.id, one.title, one.text) for one in index.passages())
    found = {
        f"{mode} {question}": [[hit.passage.id, round(hit.score, 4)] for hit in index.search(question, 30, mode)]
        for question in QUESTIONS
        for mode in ("bm25", "dense", "hybrid")
    }
    return {"held": hashlib.sha256(json.dumps(held).encode()).hexdigest(), "found": found}


def ask_state(out: Path) -> dict[str, Any]:
    """What an index answers, with the reader beside it."""
    from mundap import Index, Reader, ask

    index, reader = Index(out), Reader.from_pretrained(out.parent / "reader")
    results = [ask(index, question, reader, answers=3, threshold=0.0) for question in QUESTIONS]
    found = {one.question: [[answer.text, round(float(answer.score), 4)] for answer in one.answers] for one in results}
    return {"held": "", "found": found}


def same(left: dict[str, Any] | None, right: dict[str, Any] | None) -> bool:
    """Whether two states hold and find the same; the number of commits may differ."""
    if left is None or right is None:
        return left is right
    return (left["held"], left["found"]) == (right["held"], right["found"])


def copied(base: Path, out: Path) -> Path:
    """A fresh copy of an index, or nothing if there is no base."""
    shutil.rmtree(out, ignore_errors=True)
    if base.exists():
        shutil.copytree(base, out)
    return out
