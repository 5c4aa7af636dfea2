"""What the tests of the dual encoder's training are made of."""

import numpy as np

from mundap.records import Context, Example, Question
from mundap.training.formats import writing
from mundap.training.recipe import DataSet, Recipe

WORDS = [
    "the",
    "river",
    "runs",
    "to",
    "a",
    "sea",
    "king",
    "of",
    "hill",
    "in",
    "old",
    "city",
    "by",
    "night",
    "and",
    "day",
    "we",
    "walk",
    "along",
    "it",
    "with",
    "our",
    "dog",
]


def example(number, chance):
    def text(length):
        return " ".join(chance.choice(WORDS, length))

    name = "".join(chance.choice(list("abcdefghijklmnopqrstuvwxyz"), 5))  # what question and passage have in common
    positive = Context(f"p{number}", name, f"{text(int(chance.integers(5, 40)))} answer{chr(97 + number % 26)}")
    hard = tuple(Context(f"h{number}.{n}", "t", text(int(chance.integers(5, 40)))) for n in range(3))
    return Example(
        Question(str(number), f"{name} {text(3)} {name}", (f"answer{chr(97 + number % 26)}",)),
        (positive,),
        hard,
        hard[:1],
    )


def write_files(folder, make=example, sets=(("a", 1, 40), ("b", 2, 12), ("dev", 3, 20))):
    """A tiny checkpoint, training sets and a dev set: their names, seeds and sizes."""
    from tests.models.test_export import make_checkpoint

    make_checkpoint(folder / "start")
    for name, seed, number in sets:
        chance = np.random.default_rng(seed)
        with writing(folder / f"{name}.jsonl", "dpr-jsonl") as write:
            for n in range(number):
                write(make(n, chance))
    return folder


def recipe(files, out, **changes):
    facts = {
        "train": (DataSet(str(files / "a.jsonl")), DataSet(str(files / "b.jsonl"), weight=2.0)),
        "dev": (DataSet(str(files / "dev.jsonl")),),
        "out": str(out),
        "start": str(files / "start"),
        "batch": 8,
        "epochs": 2,
        "rate": 1e-3,
        "question_length": 16,
        "passage_length": 48,
    }
    return Recipe(**{**facts, **changes})
