"""Data folders for `mundap reproduce` out of SQuAD-shaped sets, as docs/findings.md was made with.

    python benchmarks/papers.py DATA -o OUT

OUT/nq has one data set: Natural Questions with the paragraph each was asked about (QED's), every sixth question held
back. OUT/sets has also SQuAD, TyDi and TREC (answers as regular expressions, no passages; its own test questions), for
tables of several sets. The corpus is all paragraphs of the questions, and 9,300 passages of psgs_w100.
"""

import argparse
import gzip
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PSGS = "psgs-w100-nqtest-slice/psgs_w100.slice.tsv.gz"
SETS = {
    "nq": ("nq-qed-train/train.json.gz",),
    "squad": ("squad-v1.1-train-slice/du-test-split.json.gz",),
    "tydi": ("tydiqa-goldp/english_tydiqa_train.json.gz",),
}
TREC = "curatedtrec/curated-train.tsv.gz"
TREC_TEST = "dpr-qa/topics.dpr.curated.test.txt.gz"
HELD_BACK = 6  # every sixth


def untokenized(text: str) -> str:
    """Text without the spaces that NQ's tokenizer put in."""
    text = re.sub(r" ?`` | ?``", ' "', text).replace(" ''", '"')
    text = re.sub(r" (?=[,.;:!?%)\]]|'s\b|n't\b)", "", text)
    return re.sub(r"([(\[]) ", r"\1", text).strip()


def questions(paths: list[Path]) -> Iterator[dict[str, Any]]:
    """Rows in DPR's form: a question, its answers, its paragraph."""
    for path in paths:
        for article in json.loads(gzip.decompress(path.read_bytes()))["data"]:
            title = article.get("title", "").replace("_", " ")
            for paragraph in article["paragraphs"]:
                text = untokenized(paragraph["context"])
                for asked in paragraph["qas"]:
                    answers = [untokenized(one["text"]) for one in asked["answers"]]
                    gold = [{"title": title, "text": text}]
                    yield {"question": asked["question"], "answers": answers, "positive_ctxs": gold}


def trec(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of CuratedTREC: id, kind, question, regular expression."""
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        _, _, question, answer = line.split("\t")[:4]
        yield {"question": question, "answers": [answer]}


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def make(folder: Path, sets: dict[str, list[dict[str, Any]]], psgs: Path) -> None:
    """Questions, a part of them held back, and all their paragraphs."""
    folder.mkdir(parents=True, exist_ok=True)
    texts: dict[str, str] = {}
    for name, rows in sets.items():
        write([row for number, row in enumerate(rows) if number % HELD_BACK], folder / f"{name}-train.jsonl")
        write(rows[::HELD_BACK], folder / f"{name}-test.jsonl")
        for row in rows:
            for one in row.get("positive_ctxs", []):
                texts.setdefault(one["text"], one["title"])
    passages = [
        {"_id": f"p{number}", "title": title, "text": text} for number, (text, title) in enumerate(texts.items())
    ]
    write(passages, folder / "corpus.jsonl")
    shutil.copy(psgs, folder / "corpus-psgs.tsv.gz")


def main() -> None:
    """Make both folders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    given = parser.parse_args()
    sets = {name: list(questions([given.data / path for path in paths])) for name, paths in SETS.items()}
    make(given.out / "nq", {"nq": sets["nq"]}, given.data / PSGS)
    make(given.out / "sets", sets, given.data / PSGS)
    tested = gzip.decompress((given.data / TREC_TEST).read_bytes()).decode()
    known = {json.loads(line)["question"].lower() for line in tested.splitlines()}
    learnt = [row for row in trec(given.data / TREC) if row["question"].lower() not in known]
    write(learnt, given.out / "sets" / "trec-train.jsonl")
    (given.out / "sets" / "trec-test.jsonl").write_text(tested, "utf-8")


if __name__ == "__main__":
    main()
