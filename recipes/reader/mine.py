"""Training data for the last run of the default reader: passages as the index cuts and ranks them.

    python recipes/reader/mine.py DATA PREPARED -o OUT

PREPARED is what prepare.py wrote. Some of its English questions are asked of an index of their articles, made with the
packaged retriever. OUT/mined.jsonl has each question with the passage of the index that answers it and with hard
negatives: what BM25 and the retriever rank high and has no answer in it. This is what the reader meets when somebody
asks. What is there already is kept.
"""

import argparse
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

POOL = (
    "squad-v1.1-train/train-v1.1.part1.json.gz",
    "tydiqa-goldp/english_tydiqa_train.json.gz",
    "squadshifts/new_wiki_v1.0.json.gz",
    "multihop-wiki/2wikimultihopqa_corpus.json.gz",
)
QUESTIONS = {"nq": 4000, "tydi": 3000, "squad": 6000, "new_wiki": 1000}
NEGATIVES = 6  # by each of the two


def mundap(*arguments: Any) -> None:
    """Run a command of the product; what it skips is no failure."""
    command = [sys.executable, "-c", "from mundap.cli import run; run()", *map(str, arguments)]
    done = subprocess.run(command, check=False)
    if done.returncode not in (0, 3):
        sys.exit(done.returncode)


def documents(prepared: Path) -> Iterator[str]:
    """The passages of prepared questions, each once, as lines that `mundap index` reads."""
    contexts = (json.loads(row)["positive_ctxs"][0] for row in prepared.read_text("utf-8").splitlines())
    once = dict.fromkeys((context["title"], context["text"]) for context in contexts)
    for number, (title, text) in enumerate(once):
        yield json.dumps({"id": f"nq-{number}", "title": title, "text": text}, ensure_ascii=False) + "\n"


def main() -> None:
    """The questions, the index, the examples."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("prepared", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    out = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    drawn: list[str] = []
    for name, count in QUESTIONS.items():
        rows = (arguments.prepared / "en" / f"{name}.jsonl").read_text("utf-8").splitlines()
        random.Random(5).shuffle(rows)  # noqa: S311
        drawn += rows[:count]
    passages = out / "nq-passages.jsonl"  # NQ's own file has a space before each mark
    passages.write_text("".join(documents(arguments.prepared / "en" / "nq.jsonl")), "utf-8")
    questions = out / "questions.jsonl"
    questions.write_text("".join(json.dumps(json.loads(row), ensure_ascii=False) + "\n" for row in drawn), "utf-8")
    index, mined = out / "index", out / "mined.jsonl"
    mundap("index", *(arguments.data / path for path in POOL), passages, "-o", index)
    if not mined.exists():
        mundap("data", "make", "-i", index, "-q", questions, "-o", mined, "--bm25", NEGATIVES, "--dense", NEGATIVES)


if __name__ == "__main__":
    main()
