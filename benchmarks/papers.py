"""Data folders for `mundap reproduce` out of SQuAD-shaped sets, as docs/findings.md was made with.

    python benchmarks/papers.py DATA -o OUT

OUT/nq has one data set: Natural Questions with the paragraph each was asked about (QED's), every sixth question held
back. OUT/sets has also SQuAD and TyDi, and TREC (answers as regular expressions) and WebQuestions, both without
passages and with test questions of their own, less what is a test question of any set, for tables of several sets.
The corpus is all paragraphs of the questions, and 9,300 passages of psgs_w100.

    python benchmarks/papers.py DATA -o OUT --reader ./all-MiniLM-L6-v2

OUT/reader gets what a reader can be trained on that has seen none of these questions, held back or not, and none of
their paragraphs: a part of SQuAD train, and the lower half of MiniLM's layers to begin with.
"""

import argparse
import gzip
import json
import random
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
WQ = ("webquestions/trainmodel.json.gz", "webquestions/devtest.json.gz", "webquestions/val.json.gz")
WQ_TEST = "dpr-qa/topics.dpr.wq.test.txt.gz"
SQUAD = [f"squad-v1.1-train/train-v1.1.part{part}.json.gz" for part in (1, 2, 3)]
READER_QUESTIONS = 12_000
READER_DEV = 200
READER_NEGATIVES = 6  # paragraphs of the same article; those that have the answer are left out
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


def web_questions(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of WebQuestions."""
    for row in json.loads(gzip.decompress(path.read_bytes())):
        yield {"question": row["qText"], "answers": row["answers"]}


def held_back(folder: Path) -> set[str]:
    """The words of all questions of dpr-qa: JSON lines, or the question, a tab and a list of answers."""
    found = set()
    for path in sorted(folder.glob("topics.dpr.*.gz")):
        for line in gzip.decompress(path.read_bytes()).decode().splitlines():
            question = line.split("\t")[0]
            if line.startswith("{"):
                question = json.loads(line)["question"]
            found.add(plain(question))
    return found


def plain(question: str) -> str:
    """The words of a question."""
    return " ".join(re.findall(r"\w+", question.lower()))


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


def make_reader(folder: Path, data: Path, sets: dict[str, list[dict[str, Any]]], base: Path) -> None:
    """Questions on other articles of SQuAD, each with its paragraph and others of its article; a base for a reader."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {plain(row["question"]) for rows in sets.values() for row in rows} | held_back(data / "dpr-qa")
    articles = {row["positive_ctxs"][0]["title"] for row in sets["squad"]}
    rows = []
    for row in questions([data / path for path in SQUAD]):
        if row["positive_ctxs"][0]["title"] not in articles and plain(row["question"]) not in known:
            rows.append(row)
    rng = random.Random(1)
    rng.shuffle(rows)
    rows = rows[: READER_QUESTIONS + READER_DEV]
    by_article: dict[str, dict[str, dict[str, str]]] = {}
    for row in rows:
        one = row["positive_ctxs"][0]
        by_article.setdefault(one["title"], {})[one["text"]] = one
    for row in rows:
        others = list(by_article[row["positive_ctxs"][0]["title"]].values())
        row["hard_negative_ctxs"] = [
            one
            for one in rng.sample(others, min(READER_NEGATIVES, len(others)))
            if not any(answer.lower() in one["text"].lower() for answer in row["answers"])
        ]
    write(rows[READER_DEV:], folder / "train.jsonl")
    write(rows[:READER_DEV], folder / "dev.jsonl")
    lower_half(base, folder / "base")


def lower_half(base: Path, folder: Path) -> None:
    """A BERT checkpoint with the lower half of its layers."""
    from safetensors.numpy import load_file, save_file

    shutil.copytree(base, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.safetensors", "*.onnx", "*.bin"))
    config = json.loads((base / "config.json").read_text("utf-8"))
    layers = config["num_hidden_layers"] // 2
    kept = {}
    for name, tensor in load_file(base / "model.safetensors").items():
        number = re.search(r"encoder\.layer\.(\d+)\.", name)
        if number is None or int(number[1]) < layers:
            kept[name] = tensor
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": layers}, indent=1), "utf-8")


def main() -> None:
    """Make both folders, and with a base model what a reader learns from."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--reader", type=Path, metavar="BASE", help="Make OUT/reader too, its base out of this one.")
    given = parser.parse_args()
    sets = {name: list(questions([given.data / path for path in paths])) for name, paths in SETS.items()}
    if given.reader:
        make_reader(given.out / "reader", given.data, sets, given.reader)
    make(given.out / "nq", {"nq": sets["nq"]}, given.data / PSGS)
    make(given.out / "sets", sets, given.data / PSGS)
    known = held_back((given.data / TREC_TEST).parent)
    learnt = {
        "trec": list(trec(given.data / TREC)),
        "wq": [row for path in WQ for row in web_questions(given.data / path)],
    }
    for name, test in (("trec", TREC_TEST), ("wq", WQ_TEST)):
        rows = [row for row in learnt[name] if plain(row["question"]) not in known]
        write(rows, given.out / "sets" / f"{name}-train.jsonl")
        (given.out / "sets" / f"{name}-test.jsonl").write_bytes(gzip.decompress((given.data / test).read_bytes()))


if __name__ == "__main__":
    main()
