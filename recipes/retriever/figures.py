"""The figures of the default retriever's card.

    python recipes/retriever/figures.py tune DATA --model FOLDER -o WORK
    python recipes/retriever/figures.py test DATA [--start FOLDER] --model FOLDER -o WORK

`tune` looks at TyDi's English dev questions alone, and says which dense share of the hybrid ranking is best there.
`test` compares BM25, the start weights (where given) and the trained ones on questions that no training saw, with
significance.
Indexes in WORK are kept, so a run that was stopped goes on.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from prepare import mundap

from mundap.evaluation.outcomes import System
from mundap.evaluation.retrieval import RetrievalTask, measure
from mundap.evaluation.significance import compare

CUTS = (1, 5, 20, 100)
WEIGHTS = (0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)
DEV = "tydiqa-goldp/english_tydiqa_dev.json.gz"
TUNING = (
    DEV,
    "tydiqa-goldp/english_tydiqa_train.json.gz",
    "multihop-wiki/2wikimultihopqa_corpus.json.gz",
)
POOL = (
    "psgs-w100-nqtest-slice/psgs_w100.slice.tsv.gz",
    "psgs-w100-nqtest-slice/wiki18-100w.noid.jsonl.gz",
    "multihop-wiki/2wikimultihopqa_corpus.json.gz",
    "squad-v1.1-dev/dev-v1.1.rebuilt.json.gz",
    "squad-v1.1-train-slice/du-test-split.json.gz",
    "squadshifts/new_wiki_v1.0.json.gz",
)
PAIRS = (
    ("start dense", "trained dense"),
    ("bm25", "trained dense"),
    ("start hybrid", "trained hybrid"),
    ("bm25", "trained hybrid"),
)
SQUAD, NQ = "squad-v1.1-dev/dev-v1.1.rebuilt.json.gz", "dpr-qa/topics.dpr.nq.test.txt.gz"


def wikitext(data: Path, out: Path) -> Path:
    """WikiText's paragraphs, each with the title of its article."""
    path = out / "wikitext.jsonl"
    title, number = "", 0
    with gzip.open(data / "wikipedia/wikitext-2.train.raw.gz", "rt") as file, path.open("w") as into:
        for line in map(str.strip, file):
            if line.startswith("= ") and not line.startswith("= ="):
                title = line.strip("= ")
            elif len(line.split()) >= 20 and not line.startswith("="):
                number += 1
                into.write(json.dumps({"_id": f"wikitext-{number}", "title": title, "text": line}) + "\n")
    return path


def tales(data: Path, out: Path) -> tuple[Path, Path]:
    """FairytaleQA's sections, train and val, as passages, and the val questions with the sections that answer them."""
    sections, questions = out / "tales.jsonl", out / "tales-val.jsonl"
    with sections.open("w") as into:
        for part in ("train", "val"):
            for row in rows(data / f"fairytaleqa/sections.{part}.jsonl.gz"):
                name, title = f"{row['book']}:{row['section']}", str(row["book"]).replace("-", " ")
                into.write(json.dumps({"_id": name, "title": title, "text": row["text"]}) + "\n")
    with questions.open("w") as into:
        for row in rows(data / "fairytaleqa/questions.val.jsonl.gz"):
            answers = [row[f"answer{n}"] for n in range(1, 7) if row[f"answer{n}"]]
            gold = [f"{row['book']}:{section.strip()}" for section in str(row["cor_section"]).split(",")]
            into.write(json.dumps({"question": row["question"], "answers": answers, "gold": gold}) + "\n")
    return sections, questions


def rows(path: Path) -> Iterator[dict[str, object]]:
    """The objects of a compressed file of JSON lines."""
    with gzip.open(path, "rt") as file:
        yield from map(json.loads, file)


def tune(data: Path, model: Path, work: Path) -> None:
    """Accuracy on the dev questions by the dense share."""
    index = work / f"tune-{model.name}"
    mundap("index", *(data / path for path in TUNING), "-o", index, "--model", model)
    for weight in (*WEIGHTS, None):
        options = {"fusing": {"weight": weight}} if weight else {}
        modes = ("hybrid",) if weight else ("bm25", "dense")
        found = measure(RetrievalTask(index=str(index), questions=str(data / DEV), modes=modes, cuts=CUTS, **options))
        for system in found.systems:
            values = list(system.accuracy(CUTS).values())
            print(system.name, weight or "", *values, "mean of top 1, 5, 20:", round(sum(values[:3]) / 3, 2))


def test(data: Path, start: Path | None, model: Path, work: Path) -> None:
    """The card's table."""
    sections, questions = tales(data, work)
    pool = [*(data / path for path in POOL), wikitext(data, work), sections]
    sets = {"SQuAD dev": (data / SQUAD, False), "NQ test": (data / NQ, False), "FairytaleQA val": (questions, True)}
    models = {"trained": model}
    if start:
        models["start"] = start
    for name, folder in models.items():
        mundap("index", *pool, "-o", work / f"pool-{name}", "--model", folder, "--words", 10000)
    for label, (path, by_gold) in sets.items():
        systems: dict[str, System] = {}
        for name in models:
            modes = ("bm25", "dense", "hybrid") if name == "trained" else ("dense", "hybrid")
            index = str(work / f"pool-{name}")
            found = measure(RetrievalTask(index=index, questions=str(path), modes=modes, cuts=CUTS))
            systems |= {s.name if s.name == "bm25" else f"{name} {s.name}": s for s in found.systems}
        show(label, systems, by_gold)


def show(label: str, systems: dict[str, System], by_gold: bool) -> None:
    """Rows of the table, and which differences are more than chance."""
    known = len(systems["bm25"].outcomes)
    print(f"\n{label}, {known:,} questions, top-{'/'.join(map(str, CUTS))} by {'section' if by_gold else 'answer'}")
    for name, system in systems.items():
        values = system.gold_accuracy(CUTS) if by_gold else system.accuracy(CUTS)
        print(f"| {name} | {' / '.join(f'{value:.1f}' for value in values.values())} |")
    for first, second in PAIRS:
        if first not in systems:
            continue
        cells = []
        for k in CUTS:
            one = compare(right(systems[first], k, by_gold), right(systems[second], k, by_gold))
            cells.append(f"{100 * one.mean:+.1f} (p {one.p:.2g})")
        print(f"  {second} less {first}: {', '.join(cells)}")


def right(system: System, k: int, by_gold: bool):  # noqa: ANN201
    """For each question whether it was answered within the top k."""
    import numpy as np

    if not by_gold:
        return system.hits(k)
    return np.array([0 < outcome.gold <= k for outcome in system.outcomes if outcome.gold is not None])


def main() -> None:
    """Tune or test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tune", "test"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--start", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.what == "tune":
        tune(arguments.data.resolve(), arguments.model.resolve(), arguments.out)
    else:
        start = arguments.start and arguments.start.resolve()
        test(arguments.data.resolve(), start, arguments.model.resolve(), arguments.out)


if __name__ == "__main__":
    main()
