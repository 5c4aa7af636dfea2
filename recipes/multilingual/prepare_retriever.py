"""Training data for the multilingual retriever, out of what recipes/reader/prepare.py wrote.

    python recipes/multilingual/prepare_retriever.py PREPARED -o OUT

The passages of all questions make one pool. It is indexed for BM25 alone, each passage in its own language (Korean by
Kiwi), and every question gets hard negatives from it: what BM25 ranks high and has no answer in it. OUT gets
`NAME.jsonl` of each set and `NAME-dev.jsonl` of its held-back articles. What is there already is kept.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "retriever"))
from prepare import mundap

MULTI = {
    "ko": 5300,
    "ko_tydi": 1500,
    "ja": 4000,
    "zh": 3000,
    "ar": 1500,
    "bn": 110,
    "fi": 750,
    "id": 520,
    "ru": 760,
    "te": 630,
    "fr": 2000,
    "nb": 1500,
    "he": 1500,
    "fa": 2000,
    "th": 1500,
    "pt": 820,
    "sw": 1000,
}
ENGLISH = {"nq": 3000, "tydi": 2500, "squad_whole": 3500, "new_wiki": 800}
DEV = ("ko-dev", "ko_tydi-dev", "ja-dev", "zh-dev", "ar-dev", "fr-dev", "ru-dev", "fi-dev", "th-dev")
ENGLISH_DEV = ("tydi_dev-dev", "nq-dev")
DEV_QUESTIONS, DEV_NEGATIVES = 150, 20
NEGATIVES = 6

Row = dict[str, Any]


def main() -> None:
    """The questions, their pool, then negatives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prepared", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    prepared, out = arguments.prepared.resolve(), arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    chosen: dict[str, list[Row]] = {}
    for folder, sizes in (("multi", MULTI), ("en", ENGLISH)):
        for name, most in sizes.items():
            chosen[name] = some(prepared / folder / f"{name}.jsonl", most)
    for folder, names in (("multi", DEV), ("en", ENGLISH_DEV)):
        for name in names:
            chosen[name] = some(prepared / folder / f"{name}.jsonl", DEV_QUESTIONS)
    for name, rows in chosen.items():
        write(rows, out / f"{name}-questions.jsonl")
    write(passages(chosen), out / "corpus.jsonl")
    mundap("index", out / "corpus.jsonl", "-o", out / "pool", "--model", "none")
    for name in chosen:
        if (out / f"{name}.jsonl").exists():
            continue
        negatives = NEGATIVES
        if name in DEV + ENGLISH_DEV:
            negatives = DEV_NEGATIVES
        questions = out / f"{name}-questions.jsonl"
        mundap("data", "make", "-i", out / "pool", "-q", questions, "-o", out / f"{name}.jsonl", "--bm25", negatives)


def some(path: Path, most: int) -> list[Row]:
    """As many questions as are wanted, whole articles at a time: a passage is encoded once for all of its questions."""
    groups: dict[str, list[Row]] = {}
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        context = row["positive_ctxs"][0]
        kept = {"question": row["question"], "answers": row["answers"], "positive_ctxs": [context]}
        groups.setdefault(context["title"], []).append(kept)
    articles = list(groups.values())
    random.Random(3).shuffle(articles)  # noqa: S311
    found: list[Row] = []
    for rows in articles:
        if len(found) >= most:
            break
        found += rows
    return found[:most]


def passages(chosen: dict[str, list[Row]]) -> Iterator[Row]:
    """The passages of all questions, each once."""
    contexts = (row["positive_ctxs"][0] for rows in chosen.values() for row in rows)
    for number, (title, text) in enumerate(dict.fromkeys((one["title"], one["text"]) for one in contexts)):
        yield {"_id": f"p{number}", "title": title, "text": text}


def write(rows: Iterator[Row] | list[Row], path: Path) -> None:
    """One row a line."""
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
