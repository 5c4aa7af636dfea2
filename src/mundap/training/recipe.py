"""Recipes: everything a training run is made of, in one record. `recipe_files.py` reads and writes them as TOML."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mundap.errors import UsageError


@dataclass(frozen=True, slots=True)
class DataSet:
    """A file of training examples.

    Attributes:
        path: Any file that `mundap data check` accepts.
        name: Its name in logs; by default the file's name.
        weight: How often each example is seen in an epoch; .5 takes half of them, a different half each epoch.
        max_examples: Use only this many, drawn once: the same ones in every epoch. 0 uses all.
        sample_seed: Seed of that draw. A larger `max_examples` with the same seed adds to the smaller draw.
        match: How answers are matched; `auto`: as the answers suggest.
    """

    path: str
    name: str = ""
    weight: float = 1.0
    max_examples: int = 0
    sample_seed: int = 0
    match: Literal["auto", "string", "regex", "cjk"] = "auto"

    @property
    def label(self) -> str:
        """Its name, or its file's."""
        return self.name or Path(self.path).name.split(".", 1)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecipe:
    """The settings that all trainers share.

    Attributes:
        train: Training sets.
        dev: Dev sets, for validation.
        output_dir: The folder of the run: checkpoints, log, report, and the model.
        base_model: The checkpoint to start from (Hugging Face, sentence-transformers, DPR); for a reader also one of
            ours that is installed, by name.
        batch_size: Questions in a batch, over all processes.
        gradient_accumulation_steps: Batches in one step of the optimizer.
        epochs: Passes over the training sets.
        max_steps: Upper limit on optimizer steps; 0 for none.
        learning_rate: The peak learning rate.
        warmup_ratio: The share of the steps in which the learning rate rises.
        lr_scheduler_type: `linear` decay to zero, or `constant`.
        weight_decay: Of AdamW.
        dropout: Replaces the checkpoint's dropout; negative keeps it.
        attention_dropout: Dropout on attention weights, if different; 0 lets a CPU use its fast kernel (1.7 times the
            steps).
        max_grad_norm: Gradients are clipped to this norm.
        precision: `fp32`; `bf16` on a GPU or a CPU with bf16 instructions; `fp16` on a GPU.
        grad_cache: Texts in memory at a time (gradient caching); 0 keeps the whole batch.
        gradient_checkpointing: Recompute activations in the backward pass: less memory, more time.
        freeze_layers: The bottom layers that do not learn, and the embeddings with them: cheaper steps.
        question_length: The maximum number of tokens of a question.
        passage_length: The maximum number of tokens of a passage.
        group_by_length: Put passages of similar length into one batch.
        eval_steps: Steps between validations; 0: at the end of each epoch.
        checkpoint_minutes: Minutes between checkpoints.
        early_stopping_patience: Stop after this many validations without improvement; 0 for never.
        max_dev_questions: Questions used of each dev set.
        average_last: Average the weights of this share of the steps, the last ones; kept if no worse on the dev sets.
        interpolate_with_base: The share of the base model's weights in the result.
        seed: Random seed of the whole run.
    """

    train: tuple[DataSet, ...] = ()
    dev: tuple[DataSet, ...] = ()
    output_dir: str = ""
    base_model: str = ""
    batch_size: int = 32
    gradient_accumulation_steps: int = 1
    epochs: int = 3
    max_steps: int = 0
    learning_rate: float = 2e-5
    warmup_ratio: float = 0.1
    lr_scheduler_type: Literal["linear", "constant"] = "linear"
    weight_decay: float = 0.01
    dropout: float = -1.0
    attention_dropout: float = -1.0
    max_grad_norm: float = 2.0
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    grad_cache: int = 0
    gradient_checkpointing: bool = False
    freeze_layers: int = 0
    question_length: int = 64
    passage_length: int = 256
    group_by_length: bool = True
    eval_steps: int = 0
    checkpoint_minutes: float = 5.0
    early_stopping_patience: int = 0
    max_dev_questions: int = 1000
    average_last: float = 0.0
    interpolate_with_base: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        _refuse_below(
            self, batch_size=1, gradient_accumulation_steps=1, epochs=1, question_length=4, passage_length=8,
            max_steps=0, grad_cache=0, freeze_layers=0, eval_steps=0, early_stopping_patience=0, max_dev_questions=1,
        )  # fmt: skip
        _refuse_not_positive(self, "learning_rate", "max_grad_norm")
        _refuse_not_share(self, "warmup_ratio", "average_last", "interpolate_with_base")
        for one in self.train:
            if one.weight <= 0:
                raise UsageError(f"{one.path}: the weight of a training set must be greater than 0")
            if one.max_examples < 0:
                raise UsageError(f"{one.path}: max_examples = {one.max_examples}: at least 0, which means all")

    def learning_rate_at(self, step: int, steps: int) -> float:
        """The learning rate of a step, counted from 0, of `steps` in all: a linear rise, then the decay."""
        warmup = math.ceil(self.warmup_ratio * steps)
        if step < warmup:
            return self.learning_rate * (step + 1) / warmup
        if self.lr_scheduler_type == "constant":
            return self.learning_rate
        return self.learning_rate * (steps - step) / max(1, steps - warmup)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieverRecipe(TrainingRecipe):
    """How a dual encoder is trained. The defaults are DPR's, scaled to one machine.

    Attributes:
        passage_base_model: Another checkpoint for the passage tower.
        towers: `shared`: one network for both; `two`: one each.
        freeze_tower: A tower that does not learn (with two towers), as ORQA's passage encoder.
        pooling: `auto` is the checkpoint's own.
        projection_dim: The size of a linear layer on top; 0 for none.
        similarity: `dot`, `cosine` or `l2` (the negative squared distance); `auto`: the checkpoint's own.
        temperature: Scores are divided by it; 0: .05 with cosine, 1 otherwise.
        loss: `nll` (softmax over the passages) or `triplet`.
        margin: Of the triplet loss.
        in_batch_negatives: Whether other questions' passages are negatives.
        hard_negatives: Hard negatives per question, drawn anew each epoch.
        random_negatives: Random negatives per question, from the example's own list.
        gold_negatives: Positives of other training questions, outside the batch, per question.
        questions_per_passage: Put up to this many questions on the same passage into one batch, where it is encoded
            once and brings its negatives once: much cheaper where a passage has many questions, as in SQuAD.
        questions_per_article: Put up to this many questions on the same article (by title) into one batch, where its
            other passages are hard negatives at no cost.
        mask_false_negatives: Leave out negatives of the batch that are the positive, or contain the answer.
        chunks: Vectors of a passage: 1 for its first `passage_length` tokens (FirstP), 4 for up to four chunks, the
            best of which counts (MaxP).
        chunk_words: Words of a chunk, where there are several.
        metric: The dev figure that selects the checkpoint: `nll`, `rank`, or `top1`, `top5`, `top20`.
    """

    passage_base_model: str = ""
    towers: Literal["shared", "two"] = "shared"
    freeze_tower: Literal["", "question", "passage"] = ""
    pooling: Literal["auto", "cls", "mean"] = "auto"
    projection_dim: int = 0
    similarity: Literal["auto", "dot", "cosine", "l2"] = "auto"
    temperature: float = 0.0
    loss: Literal["nll", "triplet"] = "nll"
    margin: float = 1.0
    in_batch_negatives: bool = True
    hard_negatives: int = 1
    random_negatives: int = 0
    gold_negatives: int = 0
    questions_per_passage: int = 1
    questions_per_article: int = 1
    mask_false_negatives: bool = True
    chunks: int = 1
    chunk_words: int = 350
    metric: Literal["nll", "rank", "top1", "top5", "top20"] = "rank"

    def __post_init__(self) -> None:
        TrainingRecipe.__post_init__(self)
        _refuse_below(
            self, chunks=1, chunk_words=1, questions_per_passage=1, questions_per_article=1, temperature=0,
            hard_negatives=0, random_negatives=0, gold_negatives=0, projection_dim=0,
        )  # fmt: skip
        if self.freeze_tower and self.towers == "shared":
            raise UsageError("freeze_tower needs two towers: a frozen shared network would not learn at all")
        if self.questions_per_passage > 1 and not self.in_batch_negatives:
            raise UsageError(
                "questions_per_passage needs in_batch_negatives: questions of one passage share its negatives"
            )
        listed = self.hard_negatives + self.random_negatives + self.gold_negatives
        if not self.in_batch_negatives and not listed:
            raise UsageError("no negatives: set in_batch_negatives, hard_negatives, random_negatives or gold_negatives")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnceRecipe(RetrieverRecipe):
    """How a dual encoder is trained with negatives from the whole corpus: `hard_negatives` of them per question.

    Attributes:
        index: The corpus.
        refresh_batches: Batches between two sets of weights that are handed to the inferencer.
        synchronous: Stop, refresh, go on: slower, and the same run each time.
        static_negative_batches: Train this many batches on the examples' own hard negatives first, as a warm-up.
        top_k: Passages retrieved for each question.
        sampling: Negatives are drawn from all of those (`uniform`), from a `window` of ranks, or from those that score
            within a `margin` of the positive.
        first_rank: The best rank of the window.
        last_rank: The worst rank of the window.
        score_gap: For `margin`: how far a score may be below the positive's.
        search: `exact`, `ivf`, or `auto` by size.
        shard_size: Passages that are encoded and kept together.
    """

    index: str = ""
    refresh_batches: int = 100
    synchronous: bool = False
    static_negative_batches: int = 0
    top_k: int = 200
    sampling: Literal["uniform", "window", "margin"] = "uniform"
    first_rank: int = 1
    last_rank: int = 200
    score_gap: float = 0.0
    search: Literal["auto", "exact", "ivf"] = "auto"
    shard_size: int = 50_000

    def __post_init__(self) -> None:
        RetrieverRecipe.__post_init__(self)
        _refuse_below(
            self, refresh_batches=1, top_k=1, shard_size=1, hard_negatives=1, first_rank=1,
            static_negative_batches=0, score_gap=0,
        )  # fmt: skip
        if self.sampling == "window" and not self.first_rank <= self.last_rank <= self.top_k:
            raise UsageError(
                f"a window from rank {self.first_rank} to {self.last_rank} is not within the top {self.top_k}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderRecipe(TrainingRecipe):
    """How a reader is trained.

    Attributes:
        num_passages: Passages per question (the papers' m): one with the answer, the rest without. With
            `global_marginal` the rest may have it too.
        no_answer_ratio: The share of questions that get only passages without the answer, and must say so.
        no_answer_span_weight: The weight of the "no span" loss on passages without the answer.
        span_loss: `marginal`: the likelihood of all spans that match the answer; `hard_em`: of the best of them;
            `global_marginal`: of all that match in all passages of the question, normalised over all spans of all of
            them (ORQA). It takes the place of the selection loss, and the retriever's scores are part of it.
        selection_only: Train the passage selection alone: a reranker.
        max_answer_length: The maximum number of tokens of an answer.
        stride: Tokens that neighbouring windows of a long passage share.
        retriever: A dual encoder whose question tower is trained along, on the same passages (joint training). Its
            passage tower stays as it is, and so do the vectors of an index.
        retriever_weight: The weight of the retriever's loss; with `global_marginal`, of ORQA's early loss: the
            likelihood of the passages with the answer by the retriever's scores alone.
        teacher: The model folder of a larger reader to distil from.
        teacher_weight: The teacher's share in the loss; the rest is the answers'.
        distil: What the teacher teaches: `all`, or only the `spans` of passages that have the answer. With `spans` a
            reader can be its own teacher: it learns to choose among passages and keeps its spans.
        metric: The dev figure that selects the checkpoint.
    """

    batch_size: int = 8
    passage_length: int = 350
    learning_rate: float = 1e-4
    num_passages: int = 4
    no_answer_ratio: float = 0.25
    no_answer_span_weight: float = 0.3
    span_loss: Literal["marginal", "hard_em", "global_marginal"] = "marginal"
    selection_only: bool = False
    max_answer_length: int = 30
    stride: int = 96
    retriever: str = ""
    retriever_weight: float = 1.0
    teacher: str = ""
    teacher_weight: float = 0.7
    distil: Literal["all", "spans"] = "all"
    metric: Literal["nll", "rank", "top1", "em", "f1", "gold_em", "gold_f1"] = "f1"

    def __post_init__(self) -> None:
        TrainingRecipe.__post_init__(self)
        _refuse_below(self, num_passages=1, max_answer_length=1, stride=0)
        _refuse_not_share(self, "no_answer_ratio")
        if not 0 <= self.teacher_weight <= 1:
            raise UsageError(f"teacher_weight = {self.teacher_weight}: a share, from 0 to 1")
        if self.teacher and self.selection_only:
            raise UsageError("a teacher teaches spans too: leave out selection_only")
        if self.span_loss == "global_marginal":
            self._refuse_beside_global_marginal()

    def _refuse_beside_global_marginal(self) -> None:
        """What has no meaning where the spans of all passages are one choice."""
        name = "span_loss = 'global_marginal'"
        if self.selection_only or self.teacher:
            raise UsageError(f"{name} is learnt from answers alone: leave out selection_only and teacher")
        if self.no_answer_ratio:
            raise UsageError(f"{name} needs a passage with the answer for every question: set no_answer_ratio = 0")
        if self.num_passages == 1:
            raise UsageError(f"{name} compares a question's passages: set num_passages to 2 or more")


def _refuse_below(recipe: Any, **least: float) -> None:
    for name, limit in least.items():
        value = getattr(recipe, name)
        if not value >= limit:
            raise UsageError(f"{name} = {value}: must be at least {limit}")


def _refuse_not_positive(recipe: Any, *names: str) -> None:
    for name in names:
        value = getattr(recipe, name)
        if not value > 0:
            raise UsageError(f"{name} = {value}: it must be greater than 0")


def _refuse_not_share(recipe: Any, *names: str) -> None:
    for name in names:
        value = getattr(recipe, name)
        if not 0 <= value < 1:
            raise UsageError(f"{name} = {value}: a share, from 0 up to, not including, 1")
