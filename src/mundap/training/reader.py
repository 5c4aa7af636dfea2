"""The reader as a learner: selection of the passage and the span in it."""

import itertools
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from mundap.encoder.network import chunks, padded
from mundap.errors import MundapError
from mundap.models.folder import ReaderConfig
from mundap.models.weights import positions
from mundap.reader.answers import rank, selection
from mundap.reader.checkpoints import open_reader, write_reader
from mundap.reader.inputs import Window, Windows
from mundap.reader.runtime import Scored
from mundap.text.scores import judge
from mundap.training import loop, losses
from mundap.training.learner import DevFigures, StepCallback, StepResult, TrainingResult, with_means
from mundap.training.marginal_loss import MarginalLoss
from mundap.training.processes import Processes
from mundap.training.reader_data import DevQuestion, ReaderBatch, ReaderBatches, dev_questions, example_file
from mundap.training.reader_loss import ReaderLoss
from mundap.training.recipe import ReaderRecipe
from mundap.training.step import ChunkedForward
from mundap.training.teacher import Teacher
from mundap.training.towers import attention_for, base_folder, prepare_network

_BATCH = 32
_NOT_PERCENT = ("nll", "rank")
_FIGURES = (*_NOT_PERCENT, "top1", "em", "f1", "gold_em", "gold_f1")


def train(recipe: ReaderRecipe, callback: StepCallback = lambda progress: None) -> TrainingResult:
    """Train a reader into the recipe's folder, or resume the run that was stopped there.

    Raises:
        MundapError: The loss is not finite; the last good checkpoint is kept.
    """
    if recipe.retriever:
        from mundap.training.joint import JointLearner

        return loop.run(recipe, lambda processes, scratch: JointLearner(recipe, processes, scratch), callback)
    return loop.run(recipe, lambda processes, scratch: ReaderLearner(recipe, processes, scratch), callback)


class ReaderLearner:
    """Selection and spans, learnt from groups of passages."""

    def __init__(self, recipe: ReaderRecipe, processes: Processes, scratch: Path) -> None:
        self._recipe = recipe
        self._processes = processes
        self.files = [example_file(one, scratch) for one in recipe.train]
        if not recipe.selection_only and not any(file.answered for file in self.files):
            names = ", ".join(one.path for one in recipe.train)
            raise MundapError(
                f"{names}: no example has an answer, so there are no spans to learn. Set selection_only to train a "
                "reranker, or give examples with answers."
            )
        self._dev: dict[str, list[DevQuestion]] = {}
        for one in recipe.dev:
            file = example_file(one, scratch)
            self._dev[file.label] = dev_questions(file, recipe.max_dev_questions, recipe.num_passages)
        self._open()
        self._batches = ReaderBatches(self.files, recipe, self._windows, processes.rank, processes.world)
        self._teacher: Teacher | None = None
        if recipe.teacher:
            self._teacher = Teacher(recipe.teacher, spans_only=recipe.distil == "spans")

    def _open(self) -> None:
        """The network, and how it sees a passage."""
        recipe = self._recipe
        self._loaded = _opened(recipe)
        length = min(recipe.passage_length, positions(self._loaded.model.network.config))
        lengths: dict[str, Any] = {
            "question_length": recipe.question_length,
            "stride": recipe.stride,
            "max_answer_length": recipe.max_answer_length,
        }
        settings = {**lengths, "spans": not recipe.selection_only}
        self._loaded = replace(self._loaded, max_length=length, settings=settings)
        self.reader = self.model = self._loaded.model
        prepare_network(self.reader.network, recipe)
        tokenizer = self._loaded.tokenizer
        self._pad = int(tokenizer.pad_token_id or 0)
        self.config = ReaderConfig(name="training", max_length=length, ranking="selection", **lengths)
        self._windows = Windows(tokenizer.backend_tokenizer, self.config)

    @property
    def batches_per_epoch(self) -> int:
        """Batches in an epoch."""
        return self._batches.batches_per_epoch

    def batches_from(self, step: int) -> Generator[ReaderBatch]:
        """Yield batches from a step on, without end."""
        return self._batches.batches_from(step)

    def backward(self, batch: ReaderBatch, scale: float) -> StepResult:
        """Add the gradient of a batch. Processes hold whole groups, so the sum of their gradients is exact."""
        return self._read(batch, scale)

    def _read(self, batch: ReaderBatch, scale: float, retrieval: Sequence[Any] | None = None) -> StepResult:
        """Add the reader's gradient, and leave that of the retriever's scores there."""
        device = next(self.reader.parameters()).device
        loss = self._loss(batch, device, retrieval)
        forward = ChunkedForward(self.reader, [window.ids for window in loss.windows], self._recipe, self._pad, device)
        total, ranks = loss.of(forward.groups, forward.outputs)
        (total * scale / batch.examples).backward()
        forward.backward()
        facts = torch.tensor([[float(total.detach()), float(sum(ranks)), float(len(ranks))]], device=device)
        summed, ranked, count = self._processes.gather(facts).sum(0).tolist()
        return StepResult(summed / batch.examples, ranked / max(count, 1))

    def _loss(self, batch: ReaderBatch, device: Any, retrieval: Sequence[Any] | None) -> ReaderLoss | MarginalLoss:
        if self._recipe.span_loss == "global_marginal":
            return MarginalLoss(batch.groups, self._recipe, device, retrieval)
        taught = None
        if self._teacher is not None:
            taught = self._teacher.predict(batch.groups)
        return ReaderLoss(batch.groups, self._recipe, taught, device)

    def validate(self) -> DevFigures:
        """For each dev set, and over all: loss, rank of the positive, EM and F1."""
        self.reader.eval()
        try:
            found = {label: self._figures(asked) for label, asked in self._dev.items()}
        finally:
            self.reader.train()
        return with_means(found)

    def _figures(self, asked: Sequence[DevQuestion]) -> dict[str, float]:
        share = -(-len(asked) // self._processes.world)
        mine = asked[self._processes.rank * share : (self._processes.rank + 1) * share]
        rows = torch.zeros((len(mine), len(_FIGURES)), dtype=torch.float64, device=self._processes.device)
        for row, one in enumerate(mine):
            rows[row] = torch.tensor(self._measure(one), dtype=torch.float64)
        means = self._processes.gather(rows).mean(0)
        means[len(_NOT_PERCENT) :] *= 100
        return dict(zip(_FIGURES, means.tolist(), strict=True))

    def _measure(self, one: DevQuestion) -> list[float]:
        """The figures of one question: once with all passages competing, once with the positive alone."""
        pairs = [(context.title, context.text) for context in one.passages]
        read = scored(self.reader, self._windows.of(one.question.text, pairs), self._pad)
        rows = zip(one.passages, read, strict=True)
        scores = torch.tensor([selection(context.text, windows, self.config) for context, windows in rows])
        place = 1.0 + float((scores > scores[0]).sum())
        values = [float(losses.selection_nll(scores, 0)), place, float(place == 1)]
        for number in (len(pairs), 1):
            texts = [text for _, text in pairs[:number]]
            found = rank(texts, read[:number], [0.0] * number, self.config)
            text = ""
            if found:
                text = texts[found[0].passage][found[0].start : found[0].end]
            values += judge(text, one.question.answers, one.match)
        return values

    def score(self, figures: DevFigures) -> float:
        """The figure that selects the checkpoint; more is better."""
        value = figures["all"][self._recipe.metric]
        if self._recipe.metric in _NOT_PERCENT:
            return -value
        return value

    def initial_model(self) -> Any:
        """The model before training."""
        return _opened(self._recipe).model

    def save(self, folder: Path) -> None:
        """Write the reader."""
        write_reader(self._loaded, folder)


def scored(reader: Any, rows: Sequence[Sequence[Window]], pad: int) -> list[list[Scored]]:
    """What a reader in training says of the windows of each passage."""
    flat = list(itertools.chain.from_iterable(rows))
    found: list[Any] = [None] * len(flat)
    device = next(reader.parameters()).device
    for numbers in chunks([len(window.ids) for window in flat], _BATCH):
        ids, mask = padded([flat[number].ids for number in numbers], pad, device)
        with torch.no_grad():
            starts, ends, chosen = (part.float().cpu().numpy() for part in reader(ids, mask))
        for place, number in enumerate(numbers):
            size = len(flat[number].ids)
            found[number] = Scored(flat[number], starts[place, :size], ends[place, :size], float(chosen[place]))
    result, first = [], 0
    for row in rows:
        result.append(found[first : first + len(row)])
        first += len(row)
    return result


def _opened(recipe: ReaderRecipe) -> Any:
    torch.manual_seed(recipe.seed)  # new heads are initialised at random
    return open_reader(base_folder(recipe.base_model), attention=attention_for(recipe.precision), fresh=True)
