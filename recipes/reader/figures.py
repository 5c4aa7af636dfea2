"""The figures of the default reader's card.

    python recipes/reader/figures.py tune DATA --reader FOLDER --index INDEX
    python recipes/reader/figures.py test DATA --reader FOLDER --pool INDEX --fp32 FOLDER

`tune` looks at TyDi's English dev questions alone, over an index with their articles in it (`tune-…`, made by
recipes/retriever/figures.py): which way of ranking spans is best, for how many passages. `test` prints the card's
table: SQuAD dev, which no training saw, on its own paragraphs (int8, and fp32 if there is a folder or a checkpoint of
it) and from the pool of recipes/retriever/figures.py, and the English example questions over an index made on the way.
"""

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path

from mundap import Index
from mundap.datasets.queries import read_all
from mundap.evaluation.answers import AnswersTask, measure
from mundap.models.folder import ReaderConfig
from mundap.reader.answering import rank_answers, read_passages
from mundap.reader.runtime import Reader
from mundap.text.scores import judge

DEV = "tydiqa-goldp/english_tydiqa_dev.json.gz"
SQUAD = "squad-v1.1-dev/dev-v1.1.rebuilt.json.gz"
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
CUTS = (1, 5, 10, 20)


def tune(data: Path, folder: Path, index_path: Path) -> None:
    """Exact match and F1 on dev questions for each way of ranking; every passage is read once."""
    index, reader = Index(index_path), Reader(folder)
    asked, _ = read_all(data / DEV)
    read = []
    for question in asked:
        hits = index.search(question.text, CUTS[-1])
        read.append((question, hits, read_passages(reader, question.text, hits)))
    for ranking in ("selection", "product"):
        for weight in (0.0, 0.3, 0.7, 1.0, 1.5, 2.0, 3.0) if ranking == "product" else (0.0,):
            reader.config = replace(reader.config, ranking=ranking, retrieval_weight=weight)
            cells = []
            for k in CUTS:
                found = [rank_answers(reader, question.text, hits[:k], scored[:k]) for question, hits, scored in read]
                values = [
                    judge(answers[0].text if answers else "", question.answers, "string")
                    for (question, _, _), answers in zip(read, found, strict=True)
                ]
                em, overlap = (100 * sum(column) / len(values) for column in zip(*values, strict=True))
                cells.append(f"{k}: {em:.1f} / {overlap:.1f}")
            print(ranking, weight, "EM / F1 by passages read:", ", ".join(cells), flush=True)


def test(data: Path, folder: Path, pool: Path | None, fp32: Path | None, most: int | None) -> None:
    """The card's table, row by row; what a row needs and was not given is said."""
    squad = AnswersTask(str(data / SQUAD), reader=str(folder))
    squad_gold(squad, most)
    squad_some(squad, most)
    with tempfile.TemporaryDirectory() as scratch:
        if fp32:
            squad_exact(squad, fp32, Path(scratch), most)
        if pool:
            squad_pool(squad, pool, most)
        examples(folder, Path(scratch), most)
    missing = [f"--{name}" for name, given in (("fp32", fp32), ("pool", pool)) if not given]
    if missing:
        print("left out without", " and ".join(missing))


def squad_gold(squad: AnswersTask, most: int | None) -> None:
    """All questions of SQuAD dev on their own paragraphs, int8."""
    show(f"SQuAD dev, {most or 'all'} questions, gold paragraph, int8", replace(squad, precision="int8", limit=most))


def squad_some(squad: AnswersTask, most: int | None) -> None:
    """As many of them as fp32 is measured on."""
    task = replace(squad, precision="int8", limit=least(1000, most))
    show(f"SQuAD dev, {task.limit:,} questions, gold paragraph, int8", task)


def squad_exact(squad: AnswersTask, fp32: Path, scratch: Path, most: int | None) -> None:
    """The same in fp32, of a model folder or of the checkpoint that int8 was made from, with the reader's settings."""
    if not (fp32 / "reader.fp32.onnx").exists():
        from mundap.reader.export import export_reader

        export_reader(fp32, scratch / "fp32", precisions=["fp32"])
        fp32 = scratch / "fp32"
        sums = ReaderConfig.load(fp32).sha256
        replace(ReaderConfig.load(Path(str(squad.reader))), sha256=sums).save(fp32)
    task = replace(squad, reader=str(fp32), precision="fp32", limit=least(1000, most))
    show(f"SQuAD dev, {task.limit:,} questions, gold paragraph, fp32", task)


def squad_pool(squad: AnswersTask, pool: Path, most: int | None) -> None:
    """Questions of SQuAD dev, asked the pool of recipes/retriever/figures.py."""
    task = replace(squad, index=str(pool), cuts=(10,), limit=least(500, most))
    show(f"SQuAD dev, {task.limit:,} questions, 10 passages of a pool of {len(Index(pool)):,}", task)


def examples(folder: Path, scratch: Path, most: int | None) -> None:
    """The English example questions, asked the example encyclopaedia, also without the answers in it."""
    lines = (EXAMPLES / "questions.jsonl").read_text("utf-8").splitlines(keepends=True)
    english = scratch / "en.jsonl"
    english.write_text("".join(line for line in lines if json.loads(line)["language"] == "en"), "utf-8")
    Index.build([EXAMPLES / "encyclopedia"], scratch / "examples")
    task = AnswersTask(str(english), index=str(scratch / "examples"), reader=str(folder), removed=True, limit=most)
    show("example encyclopaedia, English questions, 10 passages", task)


def least(wanted: int, most: int | None) -> int:
    """How many questions a row has, if there is a limit for all."""
    return min(wanted, most or wanted)


def show(label: str, task: AnswersTask) -> None:
    """One row: a line to read, and all of its figures as JSON."""
    found = measure(task).as_dict()
    print(f"{label}: exact match {found['exact_match']:.1f}, F1 {found['f1']:.1f} ({found['questions']:,} questions)")
    print(json.dumps({"row": label, **found}), flush=True)


def main() -> None:
    """Tune or test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tune", "test"])
    parser.add_argument("data", type=Path)
    parser.add_argument("--reader", type=Path, required=True)
    parser.add_argument("--index", type=Path)
    parser.add_argument("--pool", type=Path, help="The index pool-trained that recipes/retriever/figures.py test made.")
    parser.add_argument("--fp32", type=Path, help="A folder with reader.fp32.onnx, or the torch checkpoint.")
    parser.add_argument("--limit", type=int, help="At most so many questions a row, to try it out.")
    arguments = parser.parse_args()
    if arguments.what == "tune":
        tune(arguments.data, arguments.reader, arguments.index)
    else:
        test(arguments.data, arguments.reader, arguments.pool, arguments.fp32, arguments.limit)


if __name__ == "__main__":
    main()
