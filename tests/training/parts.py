"""What the tests of the dual encoder's training are made of."""

import numpy as np

from mundap.datasets.examples import writing
from mundap.records import Context, Example, Question
from mundap.training.recipe import DataSet, RetrieverRecipe

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


def example(number, rng):
    def text(length):
        return " ".join(rng.choice(WORDS, length))

    name = "".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), 5))  # what question and passage have in common
    positive = Context(f"p{number}", name, f"{text(int(rng.integers(5, 40)))} answer{chr(97 + number % 26)}")
    hard = tuple(Context(f"h{number}.{n}", "t", text(int(rng.integers(5, 40)))) for n in range(3))
    return Example(
        Question(str(number), f"{name} {text(3)} {name}", (f"answer{chr(97 + number % 26)}",)),
        (positive,),
        hard,
        hard[:1],
    )


def write_files(folder, make=example, sets=(("a", 1, 40), ("b", 2, 12), ("dev", 3, 20))):
    """A tiny checkpoint, training sets and a dev set: their names, seeds and sizes."""
    from tests.encoder.test_export import make_checkpoint

    make_checkpoint(folder / "start")
    for name, seed, number in sets:
        rng = np.random.default_rng(seed)
        with writing(folder / f"{name}.jsonl", "dpr-jsonl") as write:
            for n in range(number):
                write(make(n, rng))
    return folder


def recipe(files, out, **changes):
    facts = {
        "train": (DataSet(str(files / "a.jsonl")), DataSet(str(files / "b.jsonl"), weight=2.0)),
        "dev": (DataSet(str(files / "dev.jsonl")),),
        "output_dir": str(out),
        "base_model": str(files / "start"),
        "batch_size": 8,
        "epochs": 2,
        "learning_rate": 1e-3,
        "question_length": 16,
        "passage_length": 48,
    }
    return RetrieverRecipe(**{**facts, **changes})
