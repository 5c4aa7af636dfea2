"""Top-k accuracy of BM25, dense and hybrid on question sets you have, through the product itself.

Questions come from SQuAD-shaped files, passages from those and from any further files `mundap index` reads.
An answer counts as found if one of the top k passages contains it (the papers' string matching).

    python benchmarks/quality.py dev.json.gz --pool more.jsonl.gz [--weights 0.5 0.6 0.7] [--model FOLDER]
"""

import argparse
import gzip
import json
import random
import tempfile
from pathlib import Path
from typing import Any

from common import report
from mundap import Index
from mundap.text.answers import has_answer

CUTS = (1, 5, 20, 100)


def questions(path: Path) -> list[tuple[str, list[str]]]:
    """(question, answers) of a SQuAD-shaped file or of the papers' question files."""
    raw = path.read_bytes()
    data = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)["data"]
    return [
        (row["question"], [answer["text"] for answer in row["answers"]])
        for article in data
        for paragraph in article["paragraphs"]
        for row in paragraph["qas"]
        if row["answers"]
    ]


def accuracy(index: Index, asked: list[tuple[str, list[str]]], **options: Any) -> list[float]:
    """Percent of questions with an answer in the top k, for each cut."""
    right = [0] * len(CUTS)
    for start in range(0, len(asked), 256):
        part = asked[start : start + 256]
        for (_, answers), hits in zip(part, index.search_batch([q for q, _ in part], CUTS[-1], **options), strict=True):
            rank = next((hit.rank for hit in hits if has_answer(hit.passage.text, answers)), 10**9)
            right = [count + (rank <= cut) for count, cut in zip(right, CUTS, strict=True)]
    return [round(100 * count / len(asked), 2) for count in right]


def main() -> None:
    """Index, ask, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("squad", type=Path, nargs="+")
    parser.add_argument("--pool", nargs="*", default=[])
    parser.add_argument("--weights", type=float, nargs="*", default=[])
    parser.add_argument("--model", default=None)
    parser.add_argument("--limit", type=int, default=1500, help="questions of each file")
    parser.add_argument("--index", type=Path, help="keep the index here, and use it again")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        where = arguments.index or Path(scratch) / "index"
        index = Index.build([*map(str, arguments.squad), *arguments.pool], where, model=arguments.model)
        figures: dict[str, Any] = {"passages": len(index), "cuts": CUTS}
        for path in arguments.squad:
            asked = questions(path)
            asked = random.Random(0).sample(asked, min(arguments.limit, len(asked)))
            rows: dict[str, list[float]] = {
                mode: accuracy(index, asked, mode=mode) for mode in ("bm25", "dense", "hybrid")
            }
            rows |= {f"hybrid, weight {w}": accuracy(index, asked, mode="hybrid", weight=w) for w in arguments.weights}
            rows["hybrid, lambda 1.1"] = accuracy(index, asked, mode="hybrid", fusion="linear")
            rows["hybrid, rrf"] = accuracy(index, asked, mode="hybrid", fusion="rrf")
            figures[path.name] = {"questions": len(asked), **rows}
        report("quality", figures)


if __name__ == "__main__":
    main()
