"""Answer matching, metrics and making of training data, beside what others use for the same.

    python benchmarks/evaluation.py [--pyserini PYTHON] [-n 10000]

Questions are made from the benchmark corpus: some words of a passage, and a few of its words in a row as the answer.
Pyserini's matching is that of the DPR papers' results; it runs in an interpreter of its own, on a part.
"""

import argparse
import json
import random
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from common import RUNS, read_passages, report
from mundap import Index
from mundap.datasets.examples import writing
from mundap.evaluation.outcomes import by_answers, by_qrels
from mundap.mining.make import MiningReport, Rules, make
from mundap.records import Context, Question, Result
from mundap.text.answers import has_answer

PEER = """
import json, sys, time
from pyserini.eval.evaluate_dpr_retrieval import SimpleTokenizer, has_answers
rows = json.load(open(sys.argv[1]))
tokenizer = SimpleTokenizer()
started = time.perf_counter()
found = [sum(has_answers(text, answers, tokenizer) for text in texts) for answers, texts in rows]
print(json.dumps([time.perf_counter() - started, found]))
"""


def questions(passages: list[tuple[str, str]], number: int, gold: bool) -> list[Question]:
    """A question for each of some passages."""
    chance = random.Random(1)
    made = []
    for position, (title, text) in enumerate(chance.sample(passages, number)):
        words = re.findall(r"\w+", text)
        at = chance.randrange(max(1, len(words) - 3))
        asked = " ".join(chance.sample(words, min(8, len(words))))
        known = (Context("", title, text),) if gold else ()
        made.append(Question(str(position), f"{title} {asked}", (" ".join(words[at : at + 2]),), known))
    return made


def matching(passages: list[tuple[str, str]], number: int, pyserini: str | None) -> dict[str, Any]:
    """Look for the answers of each question in a hundred passages."""
    chance = random.Random(2)
    asked = questions(passages, number, gold=False)
    rows = [(question.answers, [text for _, text in chance.sample(passages, 100)]) for question in asked]
    results = [
        Result(question, tuple(Context(str(n), "", text) for n, text in enumerate(texts)))
        for question, (_, texts) in zip(asked, rows, strict=True)
    ]
    started = time.perf_counter()
    by_answers("x", asked, results)
    seconds = time.perf_counter() - started
    figures = {"questions": number, "seconds, one process": round(seconds, 1)}
    if pyserini:
        part = rows[:200]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(part, file)
            file.flush()
            done = subprocess.run([pyserini, "-c", PEER, file.name], capture_output=True, text=True, check=True)
        theirs, found = json.loads(done.stdout.splitlines()[-1])
        started = time.perf_counter()
        ours = [sum(has_answer(text, answers) for text in texts) for answers, texts in part]
        figures |= {
            "ratio to pyserini": round(theirs / (time.perf_counter() - started), 1),
            "same verdicts": ours == found,
        }
    return figures


def metrics(number: int = 5000) -> dict[str, float]:
    """Metrics over a thousand documents a question, against pytrec_eval and ranx."""
    import pytrec_eval
    import ranx

    chance = random.Random(3)
    names = [f"d{n}" for n in range(20_000)]
    qrels = {str(q): {name: 1 for name in chance.sample(names, 5)} for q in range(number)}
    run = {str(q): {name: chance.random() for name in chance.sample(names, 1000)} for q in range(number)}
    results = [
        Result(Question(q, ""), tuple(Context(name, score=s) for name, s in sorted(found.items(), key=lambda p: -p[1])))
        for q, found in run.items()
    ]
    wanted = ["ndcg@10", "mrr@10", "recall@100", "map"]
    ranx.evaluate(ranx.Qrels({"q": {"d": 1}}), ranx.Run({"q": {"d": 1.0}}), wanted)  # compile
    seconds = {}
    started = time.perf_counter()
    by_qrels("x", qrels, results, (10, 100))
    seconds["mundap"] = time.perf_counter() - started
    started = time.perf_counter()
    pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10,100", "recip_rank", "recall.10,100", "map"}).evaluate(run)
    seconds["pytrec_eval"] = time.perf_counter() - started
    started = time.perf_counter()
    ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), wanted)
    seconds["ranx"] = time.perf_counter() - started
    return {name: round(value, 2) for name, value in seconds.items()}


def mining(passages: list[tuple[str, str]], number: int) -> dict[str, Any]:
    """Training examples with 30 BM25 negatives each, written to a file, over 100,000 passages."""
    folder = RUNS / "index-mining"
    source = RUNS / "mining.tsv"
    if not source.exists():
        rows = (f"{n}\t{' '.join(text.split())}\t{title}\n" for n, (title, text) in enumerate(passages))
        source.write_text("id\ttext\ttitle\n" + "".join(rows))
    index = Index.build([source], folder, model="none")
    figures: dict[str, Any] = {"passages": len(index), "questions": number}
    for name, gold in (("gold passages", True), ("distant supervision", False)):
        made = MiningReport()
        with tempfile.TemporaryDirectory() as scratch, writing(Path(scratch) / "train.jsonl", "dpr-jsonl") as write:
            started = time.perf_counter()
            for example in make(index, questions(passages, number, gold), Rules(), made):
                write(example)
            seconds = time.perf_counter() - started
        figures[name] = {"seconds": round(seconds, 1), "kept": made.kept, "hard negatives": made.hard}
    return figures


def main() -> None:
    """Measure all three."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=10_000)
    parser.add_argument("--pyserini", help="an interpreter that has pyserini")
    arguments = parser.parse_args()
    passages = read_passages(100_000)
    report(
        "evaluation",
        {
            "matching": matching(passages, arguments.n, arguments.pyserini),
            "metrics, seconds for 5,000 x 1,000": metrics(),
            "mining": mining(passages, arguments.n),
        },
    )


if __name__ == "__main__":
    main()
