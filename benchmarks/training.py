"""Steps per second of the retriever's trainer beside sentence-transformers', and its memory with gradient caching.

    python benchmarks/training.py TRAIN.jsonl --base-model CHECKPOINT [--steps 8]

Both train the same network on the same examples (question, positive, one hard negative), in batches of 32, with the
same lengths, on all cores. Each in a process of its own, in turn.
"""

import argparse
import itertools
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import report

BATCH, QUESTION, PASSAGE = 32, 48, 192


def ours(train: Path, start: Path, steps: int, **changes: Any) -> dict[str, float]:
    """Our trainer."""
    from mundap.training.recipe import DataSet, RetrieverRecipe
    from mundap.training.retriever import train as run

    marks: list[float] = []
    with tempfile.TemporaryDirectory() as out:
        facts: dict[str, Any] = {
            "train": (DataSet(str(train)),), "output_dir": out, "base_model": str(start), "batch_size": BATCH,
            "max_steps": steps,
            "similarity": "cosine", "temperature": 0.05, "question_length": QUESTION, "passage_length": PASSAGE,
            "checkpoint_minutes": 1e9,
        }  # fmt: skip
        run(RetrieverRecipe(**{**facts, **changes}), lambda progress: marks.append(time.perf_counter()))
    return _figures(marks)


def theirs(train: Path, start: Path, steps: int) -> dict[str, float]:
    """sentence-transformers with its in-batch loss, which takes hard negatives as a third column."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, losses
    from sentence_transformers import SentenceTransformerTrainingArguments as Arguments
    from transformers import TrainerCallback

    marks: list[float] = []

    class Watch(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            marks.append(time.perf_counter())

    rows = [json.loads(line) for line in train.read_text("utf-8").splitlines()]
    rows = [row for row in rows if row["hard_negative_ctxs"]]
    model = SentenceTransformer(str(start), device="cpu")
    model.max_seq_length = PASSAGE

    def text(context: dict[str, str]) -> str:
        return f"{context['title']} {context['text']}"

    data = Dataset.from_dict(
        {
            "anchor": [row["question"] for row in rows],
            "positive": [text(row["positive_ctxs"][0]) for row in rows],
            "negative": [text(row["hard_negative_ctxs"][0]) for row in rows],
        }
    )
    with tempfile.TemporaryDirectory() as out:
        settings = Arguments(
            output_dir=out, per_device_train_batch_size=BATCH, max_steps=steps, report_to=[], save_strategy="no",
            logging_strategy="no", disable_tqdm=True, use_cpu=True,
        )  # fmt: skip
        loss = losses.MultipleNegativesRankingLoss(model)
        SentenceTransformerTrainer(model, settings, data, loss=loss, callbacks=[Watch()]).train()
    return _figures(marks)


def _figures(marks: list[float]) -> dict[str, float]:
    gaps = [later - sooner for sooner, later in itertools.pairwise(marks)]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds a step": round(statistics.mean(gaps), 3), "peak MB": round(memory)}


def alone(what: str, arguments: argparse.Namespace, **changes: Any) -> dict[str, float]:
    """One measurement in a fresh process."""
    command = [sys.executable, __file__, str(arguments.train), "--base-model", str(arguments.base_model), "--one", what]
    command += ["--steps", str(arguments.steps), "--changes", json.dumps(changes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Both trainers in turn, twice; then the memory of large batches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("train", type=Path)
    parser.add_argument("--base-model", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--one", choices=["ours", "theirs"])
    parser.add_argument("--changes", default="{}")
    arguments = parser.parse_args()
    if arguments.one:
        run = ours if arguments.one == "ours" else theirs
        found = run(arguments.train, arguments.base_model, arguments.steps, **json.loads(arguments.changes))
        sys.stdout.write("\n" + json.dumps(found) + "\n")
        return
    figures: dict[str, Any] = {"mundap": [], "sentence-transformers": []}
    for _ in range(2):
        figures["mundap"].append(alone("ours", arguments))
        figures["sentence-transformers"].append(alone("theirs", arguments))
    means = {name: statistics.mean(one["seconds a step"] for one in rows) for name, rows in figures.items()}
    figures["ratio"] = round(means["sentence-transformers"] / means["mundap"], 2)
    arguments.steps = 3
    memory = {
        "batch 16": alone("ours", arguments, batch_size=16)["peak MB"],
        "batch 128, cache 16": alone("ours", arguments, batch_size=128, grad_cache=16)["peak MB"],
    }
    figures["memory, MB"] = {**memory, "ratio": round(memory["batch 128, cache 16"] / memory["batch 16"], 2)}
    report("training", figures)


if __name__ == "__main__":
    main()
