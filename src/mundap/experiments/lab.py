"""Where the arms of an experiment are trained and measured."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mundap.experiments.data import DataFiles, Prepared, prepare
from mundap.experiments.ranking import Model, Ranking, TrainedEncoder, figures_of
from mundap.experiments.reading import Reading
from mundap.experiments.scales import Scale
from mundap.training import reader, retriever
from mundap.training.ance import trainer
from mundap.training.learner import Tell
from mundap.training.recipe import AnceRecipe, DataSet, ReaderRecipe, RetrieverRecipe

QUESTION_LENGTH = 32
_RUN_STATE = ("checkpoints", "best.safetensors", "data", "tensorboard")


@dataclass(frozen=True, slots=True)
class Inputs:
    """What an experiment is made with.

    Attributes:
        files: Its data.
        base_model: A checkpoint.
        out: Where everything goes; an experiment that was stopped goes on there.
        scale: How large.
        reader: The checkpoint that readers start from, if it is not `base_model`.
        keep_models: Keep the trained models when the experiment is done.
    """

    files: DataFiles
    base_model: Path
    out: Path
    scale: Scale
    reader: Path | None = None
    keep_models: bool = False


class Lab:
    """Trains and measures, and keeps what is done.

    Args:
        inputs: What the experiment is made with.
        tell: Called with lines on the progress.
    """

    def __init__(self, inputs: Inputs, tell: Tell = lambda line: None) -> None:
        self.inputs = inputs
        self.out = inputs.out
        self.scale = inputs.scale
        self.tell = tell
        self._open: dict[Path, Model] = {}

    @cached_property
    def data(self) -> Prepared:
        """The data, cut to the scale."""
        scale, folder = self.scale, self.out / "data"
        return prepare(self.inputs.files, self.inputs.base_model, scale, folder, self.tell)

    @property
    def reader_base(self) -> Path:
        """What readers start from."""
        return self.inputs.reader or self.inputs.base_model

    def describe(self) -> dict[str, Any]:
        """The setting, for reports."""
        return {
            "base_model": self.inputs.base_model.name,
            "passages": self.data.passages,
            "training_questions": dict(self.data.questions),
            "test_questions": {name: len(one.questions) for name, one in self.data.test.items()},
            "layers": self.scale.layers or "all",
            "new_layers": self.scale.new_layers,
            "steps": self.scale.steps or f"{self.scale.epochs} epochs",
            "batch_size": self.scale.batch_size,
            "passage_length": self.scale.passage_length,
        }

    def folder(self, arm: str, seed: int) -> Path:
        """The folder of a run."""
        return self.out / "runs" / f"{arm}-{seed}"

    def recipe(self, seed: int, sets: Sequence[DataSet] | None = None, **changes: Any) -> AnceRecipe:
        """The recipe that all retrievers share, changed for an arm."""
        scale, name = self.scale, self.data.first
        shared: dict[str, Any] = {
            "train": tuple(sets or (self.data_set(name),)),
            "base_model": str(self.data.base_model),
            "index": str(self.data.index),
            "batch_size": scale.batch_size,
            "epochs": scale.epochs,
            "max_steps": scale.steps,
            "learning_rate": scale.learning_rate,
            "dropout": 0.0 if scale.new_layers else -1.0,
            "question_length": QUESTION_LENGTH,
            "passage_length": scale.passage_length,
            "checkpoint_minutes": 5.0,
            "refresh_batches": scale.refresh_batches,
            "synchronous": True,
            "seed": seed,
        }
        return AnceRecipe(**{**shared, **changes})

    def data_set(self, name: str, **changes: Any) -> DataSet:
        """The training examples of a data set."""
        return DataSet(str(self.data.train[name]), match=self.data.test[name].match, **changes)

    def trained(self, arm: str, seed: int, sets: Sequence[DataSet] | None = None, **changes: Any) -> Path:
        """The model of an arm and seed, trained now if it is not there."""
        out = self.folder(arm, seed)
        if not (out / "model").exists():
            whole = self.recipe(seed, sets, output_dir=str(out), **changes_of(changes))
            retriever.train(_plain(whole, changes))
            _tidy_run(out)
        return out / "model"

    def trained_by_ance(self, arm: str, seed: int, **changes: Any) -> Path:
        """The same with ANCE's negatives."""
        out = self.folder(arm, seed)
        if not (out / "model").exists():
            trainer.train(self.recipe(seed, output_dir=str(out), **changes))
            _tidy_run(out)
            for part in ("rounds", "tokens", "weights"):
                shutil.rmtree(out / trainer.EXCHANGE / part, ignore_errors=True)
        return out / "model"

    def trained_reader(self, arm: str, seed: int, examples: Path, **changes: Any) -> Path:
        """The folder of a reader's run: `model`, and after joint training `retriever`."""
        out, scale = self.folder(arm, seed), self.scale
        parts = ("model", "retriever") if changes.get("retriever") else ("model",)
        if all((out / part).exists() for part in parts):
            return out
        shared: dict[str, Any] = {
            "train": (DataSet(str(examples), match=self.data.test[self.data.first].match),),
            "base_model": str(self.reader_base),
            "output_dir": str(out),
            "batch_size": scale.reader_batch_size,
            "num_passages": scale.num_passages,
            "no_answer_ratio": 0.0,  # every question teaches both selection and span
            "epochs": scale.epochs,
            "max_steps": scale.reader_steps,
            "dropout": 0.0 if scale.new_layers else -1.0,
            "question_length": QUESTION_LENGTH,
            "passage_length": scale.reader_length,
            "seed": seed,
        }
        reader.train(ReaderRecipe(**{**shared, **changes}))
        _tidy_run(out)
        return out

    def model(self, folder: Path, vectors: Any | None = None, **changes: Any) -> Model:
        """A trained retriever with the vectors of the corpus; the last one that was opened is kept open."""
        if folder not in self._open:
            self._open.clear()
            self._open[folder] = Model(folder, self.recipe(0, **changes), self.out / "data" / "tokens", vectors)
        return self._open[folder]

    def encoder(self, folder: Path) -> TrainedEncoder:
        """A retriever without the vectors of the corpus."""
        return TrainedEncoder(folder, self.recipe(0))

    def ranking(self, name: str = "") -> Ranking:
        """The held-back questions of a data set, and who ranks what for them."""
        return Ranking(self.data.index, self.data.test[name or self.data.first])

    def retrieval(self, folder: Path, name: str = "", **changes: Any) -> dict[str, np.ndarray]:
        """How well a retriever does on the held-back questions: top-k and MRR@10 for every question."""
        model = self.model(folder, **changes)
        ranking = self.ranking(name)
        return figures_of(ranking.of_model(model))

    def bm25(self, name: str = "") -> dict[str, np.ndarray]:
        """How well BM25 does."""
        return figures_of(self.ranking(name).of_bm25())

    def reading(self, folder: Path, name: str = "") -> Reading:
        """A trained reader."""
        return Reading(folder, QUESTION_LENGTH, self.data.test[name or self.data.first].match)

    def recipes(self) -> dict[str, str]:
        """The recipe of the first run of every arm, as TOML."""
        paths = sorted(self.out.glob("runs/*-0/recipe.toml"))
        return {path.parent.name.removesuffix("-0"): path.read_text("utf-8") for path in paths}

    def tidy(self) -> None:
        """Remove what is no longer needed when all figures are known: models, token ids, the pool."""
        self._open.clear()
        if self.inputs.keep_models:
            return
        for path in (*self.out.glob("runs/*/model"), *self.out.glob("runs/*/retriever"), *self.out.glob("runs/*/ance")):
            shutil.rmtree(path, ignore_errors=True)
        shutil.rmtree(self.out / "data" / "tokens", ignore_errors=True)
        if self.scale.passages:  # at full scale the pool is the corpus
            shutil.rmtree(self.out / "data" / "pool", ignore_errors=True)


def changes_of(changes: dict[str, Any]) -> dict[str, Any]:
    """An AnceRecipe needs a hard negative; whether there is one in the end, `_plain` decides."""
    return {**changes, "hard_negatives": max(1, changes.get("hard_negatives", 1))}


def _plain(whole: AnceRecipe, changes: dict[str, Any]) -> RetrieverRecipe:
    """The recipe without ANCE's keys."""
    values = {one.name: getattr(whole, one.name) for one in fields(RetrieverRecipe)}
    return RetrieverRecipe(**{**values, **changes})


def _tidy_run(run: Path) -> None:
    """A run's state is several times as large as its model."""
    for part in _RUN_STATE:
        path = run / part
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
