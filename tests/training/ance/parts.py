"""What the tests of ANCE share."""

import json

import pytest

from mundap.training.recipe import AnceRecipe, DataSet

torch = pytest.importorskip("torch")


def recipe(files, pool, out, **changes):
    facts = {
        "train": (DataSet(str(files / "a.jsonl")), DataSet(str(files / "b.jsonl"))),
        "output_dir": str(out),
        "base_model": str(files / "start"),
        "index": str(pool),
        "batch_size": 8,
        "epochs": 100,
        "learning_rate": 1e-3,
        "question_length": 16,
        "passage_length": 48,
        "shard_size": 60,
        "top_k": 20,
    }
    return AnceRecipe(**{**facts, **changes})


def inferencer(chosen, exchange, **options):
    from mundap.training.ance.inferencer import Inferencer
    from mundap.training.examples import ExampleFile

    sets = [ExampleFile(one, None) for one in chosen.train]
    return Inferencer(chosen, sets, exchange, torch.device("cpu"), **options), sets


def weights(chosen):
    from mundap.training import towers

    return towers.build(chosen)[0]


def log_of(folder):
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [(row["step"], row.get("loss"), row.get("negatives_age")) for row in rows if "loss" in row]


def write_pool(files, folder):
    """An index of all passages of the training files."""
    from mundap.index.index import Index

    folder.mkdir()
    rows, seen = ["id\ttext\ttitle"], set()
    for name in ("a", "b"):
        for line in (files / f"{name}.jsonl").read_text().splitlines():
            found = json.loads(line)
            for context in found["positive_ctxs"] + found["hard_negative_ctxs"]:
                if context["text"] not in seen:
                    seen.add(context["text"])
                    rows.append(f"{name}{len(seen)}\t{context['text']}\t{context['title']}")
    (folder / "passages.tsv").write_text("\n".join(rows) + "\n")
    Index.build([folder / "passages.tsv"], folder / "index", model="none")
    return folder / "index"
