"""What the dual encoders of all experiments have in common: the recipe, where a run is, how its model is opened."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from mundap.reproduce import Task
from mundap.reproduce.ranking import Model
from mundap.reproduce.setting import Setting
from mundap.training.recipe import AnceRecipe, DataSet, Recipe

QUESTION_LENGTH = 32


def recipe(task: Task, setting: Setting, seed: int) -> AnceRecipe:
    """How a retriever is trained, but for the steps and the negatives."""
    scale = task.scale
    return AnceRecipe(
        train=(DataSet(str(setting.examples), match=setting.match),),
        start=str(setting.start),
        index=str(setting.index),
        batch=scale.batch,
        epochs=1000,
        rate=2e-4,
        warmup=0.1,
        dropout=0.0,
        question_length=QUESTION_LENGTH,
        passage_length=scale.length,
        temperature=0.05,
        similarity="cosine",
        checkpoint=2.0,
        seed=seed,
    )


def plain(whole: AnceRecipe, **changes: Any) -> Recipe:
    """The same without ANCE."""
    return Recipe(**{one.name: getattr(whole, one.name) for one in fields(Recipe)} | changes)


def opened(task: Task, setting: Setting, model: Path, vectors: Any | None = None) -> Model:
    """A model with the vectors of the corpus, which need not be made where they are known."""
    return Model(model, recipe(task, setting, 0), task.out / "data" / "tokens", vectors)


def folder(task: Task, arm: str, seed: int) -> Path:
    """Of a run."""
    return task.out / "runs" / f"{name(arm)}-{seed}"


def name(arm: str) -> str:
    """Of an arm, in names of files."""
    return re.sub(r"[^a-z0-9]+", "-", arm.lower()).strip("-")
