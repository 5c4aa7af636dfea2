"""The figures of the default reader's card.

    python recipes/reader/figures.py tune DATA --reader FOLDER --index INDEX
    python recipes/reader/figures.py test DATA --reader FOLDER --pool INDEX

`tune` looks at TyDi's English dev questions alone, over an index with their articles in it (`tune-…`, made by
recipes/retriever/figures.py): which way of ranking spans is best, for how many passages. `test` reads SQuAD dev, which
no training saw: its own paragraphs (int8 and fp32), then from the pool of recipes/retriever/figures.py.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

from mundap import Index
from mundap.evaluation.answers import Task, measure
from mundap.models.reader import Reader
from mundap.questions import read_all
from mundap.reader.ask import choose, scores
from mundap.text.judge import judge

DEV = "tydiqa-goldp/english_tydiqa_dev.json.gz"
SQUAD = "squad-v1.1-dev/dev-v1.1.rebuilt.json.gz"
NQ = "dpr-qa/topics.dpr.nq.test.txt.gz"
CUTS = (1, 5, 10, 20)


def tune(data: Path, folder: Path, index_path: Path) -> None:
    """Exact match and F1 on dev questions for each way of ranking; every passage is read once."""
    index, reader = Index(index_path), Reader(folder)
    asked, _ = read_all(data / DEV)
    read = []
    for question in asked:
        hits = index.search(question.text, CUTS[-1])
        read.append((question, hits, scores(reader, question.text, hits)))
    for ranking in ("selection", "product"):
        for weight in (0.0, 0.1, 0.2, 0.4, 0.7, 1.0) if ranking == "product" else (0.0,):
            reader.config = replace(reader.config, ranking=ranking, retrieval_weight=weight)
            cells = []
            for k in CUTS:
                found = [choose(reader, hits[:k], scored[:k]) for _, hits, scored in read]
                values = [
                    judge(answers[0].text if answers else "", question.answers, "string")
                    for (question, _, _), answers in zip(read, found, strict=True)
                ]
                em, overlap = (100 * sum(column) / len(values) for column in zip(*values, strict=True))
                cells.append(f"{k}: {em:.1f} / {overlap:.1f}")
            print(ranking, weight, "EM / F1 by passages read:", ", ".join(cells), flush=True)


def test(data: Path, folder: Path, pool: Path, limit: int | None) -> None:
    """The card's table."""
    for precision in ("int8", "fp32"):
        task = Task(str(data / SQUAD), reader=str(folder), precision=precision, limit=limit)
        if (folder / f"reader.{precision}.onnx").exists():
            show(f"SQuAD dev, gold paragraph, {precision}", task)
    for name, path in (("SQuAD dev", SQUAD), ("NQ test", NQ)):
        task = Task(str(data / path), index=str(pool), reader=str(folder), cuts=CUTS, removed=True, limit=limit)
        show(f"{name}, from the pool", task)


def show(label: str, task: Task) -> None:
    """One row."""
    print(label, json.dumps(measure(task).as_dict()), flush=True)


def main() -> None:
    """Tune or test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tune", "test"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--reader", type=Path, required=True)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--pool", type=Path)
    parser.add_argument("--limit", type=int, help="Only so many questions of each set.")
    arguments = parser.parse_args()
    if arguments.what == "tune":
        tune(arguments.data, arguments.reader, arguments.index)
    else:
        test(arguments.data, arguments.reader, arguments.pool, arguments.limit)


if __name__ == "__main__":
    main()
