"""What the tests of ANCE share."""

import json

import pytest

from mundap.training.recipe import AnceRecipe, DataSet

torch = pytest.importorskip("torch")


def recipe(files, pool, out, **changes):
    facts = {
        "train": (DataSet(str(files / "a.jsonl")), DataSet(str(files / "b.jsonl"))),
        "out": str(out),
        "start": str(files / "start"),
        "index": str(pool),
        "batch": 8,
        "epochs": 100,
        "rate": 1e-3,
        "question_length": 16,
        "passage_length": 48,
        "shard": 60,
        "depth": 20,
    }
    return AnceRecipe(**{**facts, **changes})


def inferencer(chosen, meeting, **options):
    from mundap.training.ance.inferencer import Inferencer
    from mundap.training.examples import ExampleFile

    sets = [ExampleFile(one, None) for one in chosen.train]
    return Inferencer(chosen, sets, meeting, torch.device("cpu"), **options), sets


def weights(chosen):
    from mundap.training import towers

    return towers.build(chosen)[0]


def log_of(folder):
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [(row["step"], row.get("loss"), row.get("stale")) for row in rows if "loss" in row]
