"""Where the arms of an experiment are trained and measured."""

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mundap.disk import json_bytes, write_atomic
from mundap.experiments.data import DataFiles, Prepared, prepare
from mundap.experiments.ranking import Model, Ranking, TrainedEncoder, figures_of
from mundap.experiments.reading import Reading
from mundap.experiments.scales import Scale
from mundap.index.index import Index
from mundap.training import reader, retriever
from mundap.training.ance import trainer
from mundap.training.learner import Tell
from mundap.training.loop import cpu_has_bf16
from mundap.training.recipe import AnceRecipe, DataSet, ReaderRecipe, RetrieverRecipe, TrainingRecipe

QUESTION_LENGTH = 32
_VECTORS = "-vectors.npy"
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
        shared: Where data and models are, which experiments with the same data share; by default `out`.
    """

    files: DataFiles
    base_model: Path
    out: Path
    scale: Scale
    reader: Path | None = None
    keep_models: bool = False
    shared: Path | None = None


class Lab:
    """Train and measure the arms of an experiment, and keep the results.

    Args:
        inputs: What the experiment is made with.
        tell: Called with lines on the progress.
    """

    def __init__(self, inputs: Inputs, tell: Tell = lambda line: None) -> None:
        self.inputs = inputs
        self.out = inputs.out
        self.shared = inputs.shared or inputs.out
        self.scale = inputs.scale
        self.tell = tell
        self._open: dict[Path, Model] = {}

    @cached_property
    def data(self) -> Prepared:
        """The data, cut to the scale."""
        return prepare(self.inputs.files, self.inputs.base_model, self.scale, self.data_folder, self.tell)

    @property
    def data_folder(self) -> Path:
        """Where the data is, and what experiments make of it."""
        return self.shared / "data"

    @cached_property
    def documents(self) -> Path | None:
        """The corpus again, its texts whole and as up to four chunks each, for MaxP.

        None at full scale if the corpus was given as an index, whose documents are cut already.
        """
        files = [self.data.index.with_name("corpus.jsonl")]
        if not self.scale.passages:
            files = list(self.inputs.files.corpus)
            if any((one / "manifest.json").is_file() for one in files):
                return None
        out = self.data_folder / "documents"
        if not (out / "manifest.json").exists():
            words, chunks = self.chunked["chunk_words"], self.chunked["chunks"]
            Index.build(files, out, model="none", words=words, chunks=chunks, sentences=False)
        return out

    @property
    def chunked(self) -> dict[str, int]:
        """How a document is cut for MaxP: a chunk has about as many tokens as a passage may have."""
        return {"chunks": 4, "chunk_words": 2 * self.scale.passage_length // 3}

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
            "precision": self._precision,
        }

    @property
    def twice_the_steps(self) -> dict[str, Any]:
        """The change that trains a row for as long as one that goes on from another run."""
        return {"max_steps": 2 * self.scale.steps, "epochs": 2 * self.scale.epochs}

    @property
    def width(self) -> int:
        """Numbers in a vector of the base."""
        return int(json.loads((self.data.base_model / "config.json").read_text("utf-8"))["hidden_size"])

    @property
    def _precision(self) -> str:
        """A cut scale is for a CPU, and takes half the time in bf16 where that has instructions for it."""
        if self.scale.passages and not torch.cuda.is_available() and cpu_has_bf16():
            return "bf16"
        return "fp32"

    @property
    def _dropout(self) -> float:
        """None where layers are new: few steps do not overfit them."""
        if self.scale.new_layers:
            return 0.0
        return -1.0

    def folder(self, arm: str, seed: int) -> Path:
        """The folder of a run of this experiment, be it made here or by another one."""
        return self.shared / "runs" / self._runs.get(f"{arm}-{seed}", "none")

    @cached_property
    def _runs(self) -> dict[str, str]:
        """By arm and seed: the name of the run's folder."""
        path = self.out / "runs.json"
        if not path.exists():
            return {}
        return dict(json.loads(path.read_text("utf-8")))

    def _claimed(self, arm: str, seed: int, recipe: TrainingRecipe) -> Path:
        """The folder of a run. Its name is made of the recipe, so that experiments share runs that are the same.

        Only what differs from the defaults counts: a key that a later version adds changes no name.
        """
        defaults = asdict(type(recipe)())
        facts = {key: value for key, value in asdict(recipe).items() if value != defaults[key]}
        facts["kind"] = type(recipe).__name__
        name = hashlib.sha256(json.dumps(facts, default=str, sort_keys=True).encode()).hexdigest()[:16]
        if self._runs.get(f"{arm}-{seed}") != name:
            self._runs[f"{arm}-{seed}"] = name
            self.out.mkdir(parents=True, exist_ok=True)
            write_atomic(self.out / "runs.json", json_bytes(self._runs))
        return self.shared / "runs" / name

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
            "dropout": self._dropout,
            "precision": self._precision,
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
        recipe = self._recipe_of(seed, sets, changes)
        out = self._claimed(arm, seed, recipe)
        if not (out / "model").exists():
            retriever.train(replace(recipe, output_dir=str(out)))
            _tidy_run(out)
        return out / "model"

    def _recipe_of(self, seed: int, sets: Sequence[DataSet] | None, changes: dict[str, Any]) -> RetrieverRecipe:
        # An AnceRecipe needs a hard negative; whether there is one in the end, `_plain` decides.
        needed = {**changes, "hard_negatives": max(1, changes.get("hard_negatives", 1))}
        return _plain(self.recipe(seed, sets, **needed), changes)

    def trained_by_ance(self, arm: str, seed: int, **changes: Any) -> Path:
        """The same with ANCE's negatives."""
        recipe = self.recipe(seed, **changes)
        out = self._claimed(arm, seed, recipe)
        if not (out / "model").exists():
            trainer.train(replace(recipe, output_dir=str(out)))
            _tidy_run(out)
            for part in ("rounds", "tokens", "weights"):
                shutil.rmtree(out / trainer.EXCHANGE / part, ignore_errors=True)
        return out / "model"

    def trained_reader(self, arm: str, seed: int, examples: Path, name: str = "", **changes: Any) -> Path:
        """The folder of a reader's run: `model`, and after joint training `retriever`."""
        scale = self.scale
        shared: dict[str, Any] = {
            "train": (DataSet(str(examples), match=self.data.test[name or self.data.first].match),),
            "base_model": str(self.reader_base),
            "batch_size": scale.reader_batch_size,
            "num_passages": scale.num_passages,
            "no_answer_ratio": 0.0,  # every question teaches both selection and span
            "epochs": scale.epochs,
            "max_steps": scale.reader_steps,
            "dropout": self._dropout,
            "question_length": QUESTION_LENGTH,
            "passage_length": scale.reader_length,
            "precision": self._precision,
            "seed": seed,
        }
        recipe = ReaderRecipe(**{**shared, **changes})
        out = self._claimed(arm, seed, recipe)
        is_made = (out / "model").exists()
        if recipe.retriever:
            is_made = is_made and (out / "retriever").exists()
        if not is_made:
            reader.train(replace(recipe, output_dir=str(out)))
            _tidy_run(out)
        return out

    def model(self, folder: Path, vectors: Any | None = None, **changes: Any) -> Model:
        """A trained retriever with the vectors of the corpus; the last one that was opened is kept open."""
        if folder not in self._open:
            self._open.clear()
            kept = self._vectors_at(folder, changes)
            self._open[folder] = Model(folder, self.recipe(0, **changes), self.data_folder / "tokens", vectors, kept)
        return self._open[folder]

    def _vectors_at(self, folder: Path, changes: dict[str, Any]) -> Path | None:
        """Where a run keeps the vectors of the corpus: several arms, and several tables, ask the same model."""
        is_run = folder.parent.parent == self.shared / "runs"
        if not is_run or changes or not self.scale.passages:  # at full scale they are as large as the corpus
            return None
        return folder.parent / f"{folder.name}{_VECTORS}"

    def encoder(self, folder: Path) -> TrainedEncoder:
        """A retriever without the vectors of the corpus."""
        return TrainedEncoder(folder, self.recipe(0))

    def ranking(self, name: str = "") -> Ranking:
        """The held-out questions of a data set, and the rankings of each system."""
        return Ranking(self.data.index, self.data.test[name or self.data.first])

    def retrieval(
        self, arm: str, seed: int, sets: Sequence[DataSet] | None = None, name: str = "", **changes: Any
    ) -> dict[str, np.ndarray]:
        """Train a retriever and ask it the held-out questions: top-k and MRR@10 for every question.

        The ranks are kept with the run, for other experiments that have it too.
        """
        name = name or self.data.first
        run = self._claimed(arm, seed, self._recipe_of(seed, sets, changes))
        path = run / f"ranks-{name}.json"
        if not path.exists():
            compared = {key: changes[key] for key in ("similarity", "temperature") if key in changes}
            model = self.model(self.trained(arm, seed, sets, **changes), **compared)
            write_atomic(path, json_bytes(self.ranking(name).of_model(model).tolist()))
        return figures_of(np.array(json.loads(path.read_text("utf-8"))))

    def bm25(self, name: str = "") -> dict[str, np.ndarray]:
        """How well BM25 does."""
        return figures_of(self.ranking(name).of_bm25())

    def reading(self, folder: Path, name: str = "") -> Reading:
        """A trained reader."""
        match = self.data.test[name or self.data.first].match
        return Reading(folder, QUESTION_LENGTH, match, self._precision)

    def recipes(self) -> dict[str, str]:
        """The recipe of the first run of every arm, as TOML."""
        found = {}
        for arm in sorted(self._runs):
            path = self.shared / "runs" / self._runs[arm] / "recipe.toml"
            if arm.endswith("-0") and path.exists():
                found[arm.removesuffix("-0")] = path.read_text("utf-8")
        return found

    def tidy(self) -> None:
        """Remove what is no longer needed when all figures are known: models, token ids, the pool."""
        self._open.clear()
        if self.inputs.keep_models:
            return
        for part in ("model", "retriever", trainer.EXCHANGE):
            for path in self.shared.glob(f"runs/*/{part}"):
                shutil.rmtree(path, ignore_errors=True)
        for path in self.shared.glob(f"runs/*/*{_VECTORS}"):
            path.unlink()
        shutil.rmtree(self.data_folder / "tokens", ignore_errors=True)
        if self.scale.passages:  # at full scale the pool is the corpus
            shutil.rmtree(self.data_folder / "pool", ignore_errors=True)


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
