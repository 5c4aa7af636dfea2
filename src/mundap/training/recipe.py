"""Recipes: everything a training run is made of, in one record, from a TOML file and from flags."""

import difflib
import tomllib
from collections.abc import Container, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from mundap.errors import UsageError


@dataclass(frozen=True, slots=True)
class DataSet:
    """A file of training examples.

    Attributes:
        path: Any file that `mundap data check` accepts.
        name: What it is called in logs; the file's name by default.
        weight: How often each example is seen in an epoch; .5 takes half of them, a different half each epoch.
        match: How answers are looked for; `auto`: as the answers suggest.
    """

    path: str
    name: str = ""
    weight: float = 1.0
    match: Literal["auto", "string", "regex", "cjk"] = "auto"

    @property
    def label(self) -> str:
        """Its name, or its file's."""
        return self.name or Path(self.path).name.split(".", 1)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What every training run is made of.

    Attributes:
        train: What to learn from.
        dev: What to validate on.
        out: The folder of the run: checkpoints, log, report, and the model.
        start: A checkpoint to start from (Hugging Face, sentence-transformers, DPR).
        batch: Questions a step, over all processes.
        accumulate: Batches a step of the optimizer.
        epochs: How often the data is gone through.
        steps: At most so many steps of the optimizer; 0 for no limit.
        rate: The highest learning rate.
        warmup: The share of the steps in which it rises.
        decay: `linear` to zero, or `constant`.
        weight_decay: Of AdamW.
        dropout: In place of the checkpoint's own; negative keeps that.
        attention_dropout: Inside of the attention, if another; 0 lets a CPU use its fast kernel (1.7 times the steps).
        clip: The largest norm of the gradient.
        precision: `fp32`, or on a GPU `bf16` or `fp16`.
        cache: Texts that are in memory at a time (gradient caching); 0 keeps the whole batch.
        recompute: Trade time for memory inside the network (gradient checkpointing).
        question_length: The most tokens of a question.
        passage_length: The most tokens of a passage.
        group: Put passages of like length into a batch.
        validate: Steps between validations; 0: at the end of each epoch.
        checkpoint: Minutes between checkpoints.
        patience: Validations without improvement before it stops; 0 for never.
        dev_limit: Questions of each dev set.
        mean: The share of the steps, the last ones, whose weights are averaged; taken if no worse on the dev sets.
        average: Blend the best weights with those it started from: this share of the start.
        seed: Of everything random.
    """

    train: tuple[DataSet, ...] = ()
    dev: tuple[DataSet, ...] = ()
    out: str = ""
    start: str = ""
    batch: int = 32
    accumulate: int = 1
    epochs: int = 3
    steps: int = 0
    rate: float = 2e-5
    warmup: float = 0.1
    decay: Literal["linear", "constant"] = "linear"
    weight_decay: float = 0.01
    dropout: float = -1.0
    attention_dropout: float = -1.0
    clip: float = 2.0
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    cache: int = 0
    recompute: bool = False
    question_length: int = 64
    passage_length: int = 256
    group: bool = True
    validate: int = 0
    checkpoint: float = 5.0
    patience: int = 0
    dev_limit: int = 1000
    mean: float = 0.0
    average: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (
            ("batch", 1),
            ("accumulate", 1),
            ("epochs", 1),
            ("question_length", 4),
            ("passage_length", 8),
        ):
            if getattr(self, name) < least:
                raise UsageError(f"{name} = {getattr(self, name)}: at least {least}")
        for name in ("rate", "clip"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} = {getattr(self, name)}: it must be greater than 0")
        if not all(0 <= share < 1 for share in (self.warmup, self.mean, self.average)):
            raise UsageError("warmup, mean and average are shares: from 0 up to, not including, 1")
        if any(one.weight <= 0 for one in self.train):
            raise UsageError("the weight of a training set must be greater than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe(Run):
    """How a dual encoder is trained. The defaults are DPR's, scaled to one machine.

    Attributes:
        passage_start: Another checkpoint for the passage tower.
        towers: `shared`: one network for both; `two`: one each.
        freeze: A tower that does not learn (with two towers), as ORQA's passage encoder.
        pooling: `auto` is the checkpoint's own.
        projection: The size of a linear layer on top; 0 for none.
        similarity: `dot`, `cosine` or `l2` (the negative squared distance).
        temperature: Scores are divided by it.
        loss: `nll` or `triplet`.
        margin: Of the triplet loss.
        in_batch: Whether other questions' passages are negatives.
        hard: Hard negatives a question, drawn anew each epoch.
        together: Questions of the same passage that are put into one batch, where it is encoded once and brings its
            negatives once: much cheaper where a passage has many questions, as in SQuAD.
        neighbours: Questions on the same article (by title) that are put into one batch, where its other passages are
            hard negatives that cost nothing.
        random: Random negatives a question, from the example's own list.
        mask: Leave out negatives of the batch that are the positive, or contain the answer.
        chunks: Vectors of a passage: 1 for its first `passage_length` tokens (FirstP), 4 for up to four chunks, the
            best of which counts (MaxP). The same as `mundap index --words … --chunks …`.
        chunk_words: Words of a chunk, where there are several.
        metric: What decides which checkpoint is best: `nll`, `rank`, or `top1`, `top5`, `top20`.
    """

    passage_start: str = ""
    towers: Literal["shared", "two"] = "shared"
    freeze: Literal["", "question", "passage"] = ""
    pooling: Literal["auto", "cls", "mean"] = "auto"
    projection: int = 0
    similarity: Literal["dot", "cosine", "l2"] = "dot"
    temperature: float = 1.0
    loss: Literal["nll", "triplet"] = "nll"
    margin: float = 1.0
    in_batch: bool = True
    hard: int = 1
    random: int = 0
    together: int = 1
    neighbours: int = 1
    mask: bool = True
    chunks: int = 1
    chunk_words: int = 350
    metric: Literal["nll", "rank", "top1", "top5", "top20"] = "rank"

    def __post_init__(self) -> None:
        Run.__post_init__(self)
        if not self.temperature > 0:
            raise UsageError(f"temperature = {self.temperature}: it must be greater than 0")
        if self.freeze and self.towers == "shared":
            raise UsageError("freeze needs two towers: a frozen shared network would not learn at all")
        if min(self.chunks, self.chunk_words, self.together, self.neighbours) < 1:
            raise UsageError("chunks, chunk_words, together and neighbours are at least 1")
        if self.together > 1 and not self.in_batch:
            raise UsageError("together needs in_batch: questions of one passage share its negatives")
        if not self.in_batch and not self.hard and not self.random:
            raise UsageError("no negatives: set in_batch, hard or random")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnceRecipe(Recipe):
    """How a dual encoder is trained with negatives from the whole corpus. `hard` of them go with each question.

    Attributes:
        index: The corpus.
        refresh: Batches between two sets of weights that are handed to the inferencer.
        synchronous: Stop, refresh, go on: slower, and the same run each time.
        own: Batches with the examples' own hard negatives first: a warm-up.
        depth: Passages searched for each question.
        sampling: Negatives are drawn from all of those (`uniform`), from a `window` of ranks, or from those that come
            within a `margin` of the positive's score.
        first: The best rank of the window.
        last: The worst.
        gap: How far a score may be below the positive's, for `margin`.
        search: `exact`, `ivf`, or `auto` by size.
        shard: Passages that are encoded and kept together.
    """

    index: str = ""
    refresh: int = 100
    synchronous: bool = False
    own: int = 0
    depth: int = 200
    sampling: Literal["uniform", "window", "margin"] = "uniform"
    first: int = 1
    last: int = 200
    gap: float = 0.0
    search: Literal["auto", "exact", "ivf"] = "auto"
    shard: int = 50_000

    def __post_init__(self) -> None:
        Recipe.__post_init__(self)
        for name in ("refresh", "depth", "shard", "hard", "first"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} = {getattr(self, name)}: at least 1")
        if not self.first <= self.last <= self.depth and self.sampling == "window":
            raise UsageError(
                f"a window from rank {self.first} to {self.last} is not within the {self.depth} searched for"
            )
        if self.own < 0 or self.gap < 0:
            raise UsageError("own and gap are at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderRecipe(Run):
    """How a reader is trained.

    Attributes:
        passages: Passages a question (the papers' m): one with the answer, the rest without.
        null: The share of questions that get passages without the answer only, and must say so.
        null_span: How much it counts that the span of a passage without the answer is none.
        spans: `all`: the likelihood of all spans that match the answer; `best`: of the best of them (HardEM).
        selection_only: Learn to choose the passage and nothing else: a reranker.
        longest: The most tokens of an answer.
        stride: Tokens that neighbouring windows of a long passage share.
        retriever: A dual encoder whose question side learns along, from the same passages (joint training); its passage
            side stays as it is, and so do the vectors of an index.
        retriever_weight: How much the retriever's loss counts.
        teacher: The model folder of a larger reader, whose opinion of every passage is learnt too (distillation).
        teacher_weight: The teacher's share in what is learnt; the rest is the answers'.
        metric: What decides which checkpoint is best.
    """

    batch: int = 8
    passage_length: int = 350
    rate: float = 1e-4
    passages: int = 4
    null: float = 0.25
    null_span: float = 0.3
    spans: Literal["all", "best"] = "all"
    selection_only: bool = False
    longest: int = 30
    stride: int = 96
    retriever: str = ""
    retriever_weight: float = 1.0
    teacher: str = ""
    teacher_weight: float = 0.7
    metric: Literal["nll", "rank", "top1", "em", "f1", "gold_em", "gold_f1"] = "f1"

    def __post_init__(self) -> None:
        Run.__post_init__(self)
        if self.passages < 1 or self.longest < 1:
            raise UsageError("passages and longest are at least 1")
        if not 0 <= self.null < 1:
            raise UsageError(f"null = {self.null}: a share, from 0 up to, not including, 1")
        if not 0 <= self.teacher_weight <= 1:
            raise UsageError(f"teacher_weight = {self.teacher_weight}: a share, from 0 to 1")
        if self.teacher and self.selection_only:
            raise UsageError("a teacher teaches spans too: leave out selection_only")


R = TypeVar("R", bound=Run)

_SYNONYMS = {
    "learning_rate": "rate",
    "lr": "rate",
    "batch_size": "batch",
    "num_train_epochs": "epochs",
    "max_steps": "steps",
    "warmup_ratio": "warmup",
    "model": "start",
    "output_dir": "out",
    "fp16": "precision",
    "bf16": "precision",
    "max_grad_norm": "clip",
    "gradient_accumulation_steps": "accumulate",
}
"""What other trainers call our keys."""


def load(kind: type[R], path: str | Path | None, overrides: Mapping[str, Any] | None = None) -> R:
    """A recipe of some kind from a TOML file, changed by flags. Paths in it are relative to the file.

    Raises:
        UsageError: A key is unknown (the nearest known one is named) or a value does not fit.
    """
    facts: dict[str, Any] = {}
    base = Path()
    if path is not None:
        base = Path(path).parent
        try:
            facts = tomllib.loads(Path(path).read_text("utf-8"))
        except FileNotFoundError:
            raise UsageError(f"{path}: no such file") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: {error}") from None
    values = _checked(facts, str(path), base, kind)
    for key in ("start", "passage_start", "retriever", "teacher", "index", "out"):
        if values.get(key):
            values[key] = _resolved(values[key], base)
    # Together, for what is wrong in the file may be put right by a flag.
    return kind(**values | _checked(overrides or {}, "", Path(), kind))


def _checked(facts: Mapping[str, Any], where: str, base: Path, kind: type[Run]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    checked: dict[str, Any] = {}
    for key, value in facts.items():
        if key not in hints:
            near = [_SYNONYMS[key]] if key in _SYNONYMS else difflib.get_close_matches(key, hints, 1)
            hint = f" Did you mean {near[0]}?" if near else f" The keys are: {', '.join(hints)}."
            raise UsageError(f"{where + ': ' if where else ''}unknown key {key!r}.{hint}")
        checked[key] = _fitting(key, value, hints[key], base)
    return checked


def _fitting(key: str, value: Any, kind: Any, base: Path) -> Any:
    """The value as the field wants it; text from the command line becomes a number or a truth."""
    if get_origin(kind) is tuple:
        rows = value if isinstance(value, list | tuple) else [value]
        return tuple(_data_set(key, row, base) for row in rows)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise UsageError(f"{key} = {value!r}: choose one of {', '.join(map(repr, get_args(kind)))}")
        return value
    if kind is bool and str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    if kind in (int, float) and not isinstance(value, bool):
        try:
            number = kind(value)
            if number == float(value):
                return number
        except (TypeError, ValueError):
            pass
    if kind is str and isinstance(value, str):
        return value
    raise UsageError(f"{key} = {value!r}: expected {kind.__name__}")


def _data_set(key: str, row: Any, base: Path) -> DataSet:
    if isinstance(row, DataSet):
        return row
    if isinstance(row, str):
        row = {"path": row}
    known = {one.name for one in fields(DataSet)}
    if not isinstance(row, dict) or "path" not in row or set(row) - known:
        raise UsageError(f"{key}: each is a path, or a table with the keys {', '.join(sorted(known))}")
    hints = get_type_hints(DataSet)
    values = {name: _fitting(f"{key}: {name}", value, hints[name], base) for name, value in row.items()}
    return DataSet(**{**values, "path": _resolved(values["path"], base)})


def _resolved(path: str, base: Path) -> str:
    return str(base / Path(path).expanduser()) if str(base) != "." else str(Path(path).expanduser())


def difference(kept: str, recipe: Run, free: Container[str]) -> str:
    """The first key in which a recipe differs from one that was kept, as it would be written; empty if none does.

    Keys that the program has got since then had their default; those it has no more do not count.
    """
    old = tomllib.loads(kept)
    for one in fields(recipe):
        value = getattr(recipe, one.name)
        if one.name in free:
            continue
        if isinstance(value, tuple):
            known = {part.name for part in fields(DataSet)}
            rows = old.get(one.name, [])
            before: Any = tuple(DataSet(**{key: row[key] for key in row if key in known}) for row in rows)
        else:
            before = old.get(one.name, one.default)
        if before != value:
            return f"{one.name} = {value if isinstance(value, tuple) else _toml(value)}"
    return ""


def dump(recipe: Run) -> str:
    """The whole recipe as TOML, to be kept beside what it made."""
    lines: list[str] = []
    tables: list[str] = []
    for one in fields(recipe):
        value = getattr(recipe, one.name)
        if isinstance(value, tuple):
            for row in value:
                cells = (f"{part.name} = {_toml(getattr(row, part.name))}" for part in fields(row))
                tables.append(f"\n[[{one.name}]]\n" + "\n".join(cells))
        else:
            lines.append(f"{one.name} = {_toml(value)}")
    return "\n".join([*lines, *tables]) + "\n"


def _toml(value: Any) -> str:
    import json

    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
