"""Training data for a retriever, out of more sets than prepare.py reads.

    python recipes/retriever/prepare_larger.py DATA PREPARED -o OUT

PREPARED is what recipes/reader/prepare.py wrote: English questions, each with its passage, without those of the papers'
test files. Their passages, and the sections of FairytaleQA, make one pool, which is indexed with the packaged
retriever; every question gets negatives from it by BM25 and by that retriever. What is there already is kept.
"""

import argparse
import gzip
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from prepare import TESTS, mundap

TRAIN = {"squad_whole": 22_000, "nq": 5600, "tydi": 3000, "afriqa": 3000, "new_wiki": 3000}
OTHERS = {"clapnq": 1200, "selqa": 700, "fairytale": 4000, "handwritten": 2000}
DEV = {"tydi_dev-dev": 200, "squad_whole-dev": 200, "new_wiki-dev": 200, "nq-dev": 200}
"""The most questions of each set: SQuAD's from whole articles, so that a passage is encoded once for all its questions,
and no more than a third of all, for they ask with the text in view; a sample of the others."""
HANDWRITTEN = [Path(__file__).parents[1] / "reader" / name for name in ("handwritten.jsonl", "handwritten2.jsonl")]
CLAPNQ = "clapnq-train-pairs/pairs.jsonl.gz"
SELQA = "selqa/dev_test.json.gz"
NEGATIVES = 8  # by each of the two
DEV_NEGATIVES = 30

Row = dict[str, Any]


def rows(path: Path) -> Iterator[Row]:
    """The rows of a file of JSON lines, compressed or not."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def asked(question: str, answers: list[str], title: str, text: str) -> Row:
    """A question with its passage, in DPR's shape."""
    return {"question": question, "answers": answers, "positive_ctxs": [{"title": title, "text": text}]}


def clapnq(path: Path) -> Iterator[Row]:
    """Natural Questions with a long answer, which is passage and answer in one."""
    for row in rows(path):
        text = plain(row["positive"])
        yield asked(row["question"], [text], "", text)


def selqa(path: Path) -> Iterator[Row]:
    """Questions on sections of articles; the answers are sentences."""
    for article in json.loads(gzip.decompress(path.read_bytes()))["data"]:
        for paragraph in article["paragraphs"]:
            for row in paragraph["qas"]:
                answers = [one["text"] for one in row["answers"]]
                yield asked(row["question"], answers, article.get("title") or "", paragraph["context"])


def fairytales(data: Path) -> Iterator[Row]:
    """FairytaleQA's train questions, each with the section that answers it."""
    sections = {}
    for row in rows(data / "fairytaleqa/sections.train.jsonl.gz"):
        sections[f"{row['book']}:{row['section']}"] = (row["book"].replace("-", " "), row["text"])
    for row in rows(data / "fairytaleqa/questions.train.jsonl.gz"):
        answers = [row[f"answer{n}"] for n in range(1, 7) if row[f"answer{n}"]]
        section = sections.get(f"{row['book']}:{row['cor_section'].split(',')[0].strip()}")
        if section:
            yield asked(row["question"], answers, *section)


def handwritten() -> Iterator[Row]:
    """The questions on handbooks and manuals that the reader learns from, those that have an answer."""
    for path in HANDWRITTEN:
        for row in rows(path):
            if row["answers"] and row.get("positive_ctxs"):
                one = row["positive_ctxs"][0]
                yield asked(row["question"], row["answers"], one["title"], one["text"])


def plain(text: str) -> str:
    """Tokenised text as it was."""
    for mark in (" ,", " .", " ;", " :", " ?", " !", " )", " 's", " 't", " 're", " %"):
        text = text.replace(mark, mark[1:])
    return text.replace("( ", "(").replace("`` ", '"').replace(" ''", '"').replace("``", '"').replace("''", '"')


def write(found: Iterator[Row] | list[Row], path: Path) -> None:
    """One row a line."""
    with path.open("w", encoding="utf-8") as file:
        for row in found:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def passages(files: list[Path]) -> list[Row]:
    """The passages of all questions, each once."""
    seen: dict[tuple[str, str], None] = {}
    for path in files:
        for row in rows(path):
            one = row["positive_ctxs"][0]
            seen[one["title"], one["text"]] = None
    return [{"_id": f"p{number}", "title": title, "text": text} for number, (title, text) in enumerate(seen)]


def some(found: list[Row], most: int, name: str) -> list[Row]:
    """As many questions of a set as are wanted."""
    if name == "squad_whole":
        return articles(found, most)
    random.Random(name).shuffle(found)  # noqa: S311
    return found[:most]


def articles(found: list[Row], most: int) -> list[Row]:
    """The questions of articles drawn at random."""
    by_title: dict[str, list[Row]] = {}
    for row in found:
        by_title.setdefault(row["positive_ctxs"][0]["title"], []).append(row)
    titles = list(by_title)
    random.Random(1).shuffle(titles)  # noqa: S311
    chosen: list[Row] = []
    for title in titles:
        if len(chosen) < most:
            chosen += by_title[title]
    return chosen


def main() -> None:
    """Questions, their pool, then negatives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("prepared", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    data, prepared, out = (path.resolve() for path in (arguments.data, arguments.prepared, arguments.out))
    out.mkdir(parents=True, exist_ok=True)
    questions = {name: prepared / "en" / f"{name}.jsonl" for name in (*TRAIN, *DEV)}
    others = (clapnq(data / CLAPNQ), selqa(data / SELQA), fairytales(data), handwritten())
    for name, found in zip(OTHERS, others, strict=True):
        questions[name] = out / f"{name}-questions.jsonl"
        write(found, questions[name])
    write(passages(list(questions.values())), out / "corpus.jsonl")
    mundap("index", out / "corpus.jsonl", "-o", out / "pool")
    for name, most in (TRAIN | OTHERS | DEV).items():
        chosen = some(list(rows(questions[name])), most, name)
        questions[name] = out / f"{name}-some.jsonl"
        write(chosen, questions[name])
    excluded = [word for name in TESTS for word in ("--exclude", data / f"dpr-qa/topics.dpr.{name}.txt.gz")]
    for name, path in questions.items():
        counts = ["--bm25", NEGATIVES, "--dense", NEGATIVES, *excluded]
        if name in DEV:
            counts = ["--bm25", DEV_NEGATIVES]
        if not (out / f"{name}.jsonl").exists():
            mundap("data", "make", "-i", out / "pool", "-q", path, "-o", out / f"{name}.jsonl", *counts)


if __name__ == "__main__":
    main()
