"""Training data for the default reader, out of what recipes/retriever/prepare.py made.

    python recipes/reader/prepare.py DATA --retriever FOLDER -o OUT

An example has two passages with the answer, of which training takes either: the 100 words that the retriever finds,
and the whole paragraph in which the question was asked. Its negatives are what BM25 and the packaged retriever find for
it. Of the paragraphs of reddit and amazon every fortieth is held back for tuning.
"""

import argparse
import json
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "retriever"))
from prepare import mundap

from mundap.datasets import queries
from mundap.datasets.examples import read_examples, writing
from mundap.records import Context, Example, Question
from mundap.text.answers import has_answer

PARAGRAPHS = {
    "squad": "squad-v1.1-train-slice/du-test-split.json.gz",
    "new_wiki": "squadshifts/new_wiki_v1.0.json.gz",
    "tydi": "tydiqa-goldp/english_tydiqa_train.json.gz",
    "reddit": "squadshifts/reddit_v1.0.json.gz",
    "amazon": "squadshifts/amazon_reviews_v1.0.json.gz",
    "dev": "tydiqa-goldp/english_tydiqa_dev.json.gz",
}
SHIFTED = ("reddit", "amazon")


def main() -> None:
    """A file for each set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--retriever", type=Path, required=True, help="What recipes/retriever/prepare.py wrote.")
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    mine(arguments.data, arguments.retriever)
    for name in (*PARAGRAPHS, "fairytale"):
        asked = []
        if name in PARAGRAPHS:
            found = queries.read(arguments.data / PARAGRAPHS[name])
            asked = [one for one in found if isinstance(one, Question) and one.gold and one.answers]
        mined = {}
        path = arguments.retriever / f"{name}.jsonl"
        if path.exists():
            mined = {one.question.id: one for one in read_examples(path) if isinstance(one, Example)}
        with writing(arguments.out / f"{name}.jsonl", "dpr-jsonl") as write:
            for one in asked:
                if not mined or one.id in mined:  # what is left out there, as a question of a test set is, stays out
                    write(joined(one, mined.get(one.id)))
            for example in mined.values() if not asked else ():
                write(example)
    for name in SHIFTED:
        divide(arguments.out / name)


def mine(data: Path, folder: Path) -> None:
    """Examples of the sets that the retriever does not learn from, with BM25's negatives out of each other."""
    paths = {name: data / PARAGRAPHS[name] for name in SHIFTED}
    pool = folder / "pool-shifted"
    mundap("index", *paths.values(), "-o", pool, "--model", "none")
    for name, path in paths.items():
        if not (folder / f"{name}.jsonl").exists():
            mundap("data", "make", "-i", pool, "-q", path, "-o", folder / f"{name}.jsonl", "--bm25", 6)


def divide(made: Path) -> None:
    """NAME.jsonl into NAME-train.jsonl and NAME-dev.jsonl."""
    parts: dict[bool, list[str]] = {True: [], False: []}
    for line in made.with_suffix(".jsonl").read_text().splitlines(keepends=True):
        text = json.loads(line)["positive_ctxs"][-1]["text"]
        parts[zlib.crc32(text.encode()) % 40 == 0].append(line)
    for held, part in ((True, "dev"), (False, "train")):
        made.with_name(f"{made.name}-{part}.jsonl").write_text("".join(parts[held]))


def joined(asked: Question, known: Example | None) -> Example:
    """The whole paragraph, and the mined passages if there are any."""
    paragraph = Context("", asked.gold[0].title, asked.gold[0].text)
    plain = Question(asked.id, asked.text, asked.answers)
    if known is None:
        return Example(plain, (paragraph,))
    short = [one for one in known.positives[:1] if has_answer(one.text, asked.answers)]
    different = [paragraph] if not short or len(paragraph.text) > len(short[0].text) + 20 else []
    return Example(plain, (*short, *different), known.hard, known.negatives)


if __name__ == "__main__":
    main()
