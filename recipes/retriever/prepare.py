"""Training data for the default retriever, out of the folders that recipes/retriever/README.md lists.

    python recipes/retriever/prepare.py DATA -o OUT

Makes a pool of passages, indexed with the packaged retriever, and from it one file of examples a set, with negatives by
BM25 and by that retriever. SQuAD's are made a second time, with whole paragraphs: the retriever learns from those, and
from the other sets as `mundap index` cuts them, so that it knows both kinds of passages. What is there already is kept.
"""

import argparse
import gzip
import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

POOL = (
    "squad-v1.1-train-slice/du-test-split.json.gz",
    "squadshifts/new_wiki_v1.0.json.gz",
    "tydiqa-goldp/english_tydiqa_train.json.gz",
    "multihop-wiki/2wikimultihopqa_corpus.json.gz",
    "psgs-w100-nqtest-slice/psgs_w100.slice.tsv.gz",
    "psgs-w100-nqtest-slice/wiki18-100w.noid.jsonl.gz",
)
WHOLE = POOL[:2]
SETS = {
    "squad": "squad-v1.1-train-slice/du-test-split.json.gz",
    "new_wiki": "squadshifts/new_wiki_v1.0.json.gz",
    "tydi": "tydiqa-goldp/english_tydiqa_train.json.gz",
    "webquestions": "webquestions/trainmodel.json.gz",
    "trec": "curatedtrec/large2470-train.tsv.gz",
}
DEV = "tydiqa-goldp/english_tydiqa_dev.json.gz"
TESTS = ("nq.dev", "nq.test", "trivia.dev", "trivia.test", "wq.test", "curated.test", "squad.test")


def mundap(*arguments: Any) -> None:
    """Run a command of the product; what it skips is no failure."""
    command = [sys.executable, "-c", "from mundap.cli import run; run()", *map(str, arguments)]
    done = subprocess.run(command, check=False)
    if done.returncode not in (0, 3):
        sys.exit(done.returncode)


def fairytales(data: Path, out: Path) -> tuple[Path, Path]:
    """FairytaleQA's sections as documents, and its questions with the section that answers them."""
    sections, questions = out / "fairytale-sections.jsonl", out / "fairytale-questions.jsonl"
    with gzip.open(data / "fairytaleqa/sections.train.jsonl.gz", "rt") as file, sections.open("w") as into:
        for line in file:
            row = json.loads(line)
            title = row["book"].replace("-", " ")
            into.write(
                json.dumps({"id": f"{row['book']}:{row['section']}", "title": title, "text": row["text"]}) + "\n"
            )
    with gzip.open(data / "fairytaleqa/questions.train.jsonl.gz", "rt") as file, questions.open("w") as into:
        for line in file:
            row = json.loads(line)
            answers = [row[f"answer{n}"] for n in range(1, 7) if row[f"answer{n}"]]
            gold = [f"{row['book']}:{section.strip()}" for section in row["cor_section"].split(",")]
            into.write(json.dumps({"question": row["question"], "answers": answers, "gold": gold}) + "\n")
    return sections, questions


def divide(made: Path, train: Path, dev: Path) -> None:
    """Examples in two files: those of every tenth article are for tuning."""
    kept: list[str] = []
    held: list[str] = []
    with made.open() as file:
        for line in file:
            title = json.loads(line)["positive_ctxs"][0]["title"]
            (held if zlib.crc32(title.encode()) % 10 == 0 else kept).append(line)
    train.write_text("".join(kept))
    dev.write_text("".join(held))


def main() -> None:
    """Pool, then sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--negatives", type=int, default=10)
    arguments = parser.parse_args()
    data, out = arguments.data.resolve(), arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    sections, asked = fairytales(data, out)
    pool = out / "pool"
    mundap("index", *(data / path for path in POOL), sections, "-o", pool)
    mundap("index", *(data / path for path in WHOLE), "-o", out / "pool-whole", "--words", 10000)
    excluded = [word for name in TESTS for word in ("--exclude", data / f"dpr-qa/topics.dpr.{name}.txt.gz")]
    few = arguments.negatives
    sets = {name: (data / path, pool) for name, path in SETS.items()}
    sets |= {"fairytale": (asked, pool), "squad-whole": (data / SETS["squad"], out / "pool-whole")}
    for name, (path, source) in sets.items():
        made = out / f"{name}.jsonl"
        if not made.exists():
            mundap("data", "make", "-i", source, "-q", path, "-o", made, "--bm25", few, "--dense", few, *excluded)
    divide(out / "new_wiki.jsonl", out / "new_wiki-train.jsonl", out / "new_wiki-dev.jsonl")
    dev, made = data / DEV, out / "dev.jsonl"
    mundap("index", *(data / path for path in POOL), dev, "-o", out / "pool-dev", "--model", "none")
    if not made.exists():
        mundap("data", "make", "-i", out / "pool-dev", "-q", dev, "-o", made, "--bm25", 30)


if __name__ == "__main__":
    main()
