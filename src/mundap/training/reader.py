"""The reader as something to train: selection of the passage and the span in it."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mundap.errors import MundapError
from mundap.models import checkpoint
from mundap.models.folder import ReaderConfig
from mundap.models.reader import Scored
from mundap.models.reader_checkpoint import ReaderNetwork, open_reader, write_reader
from mundap.models.windows import Window, Windows
from mundap.reader.answers import rank
from mundap.text.judge import judge
from mundap.training import loop, losses
from mundap.training.loop import Figures, Seen, Trained, Watcher
from mundap.training.processes import Processes
from mundap.training.reader_data import DevQuestion, Group, ReaderBatch, ReaderBatches, dev_questions, example_file
from mundap.training.recipe import ReaderRecipe
from mundap.training.step import Pieces
from mundap.training.teacher import Teacher
from mundap.training.towers import chunks, padded, set_dropout

_BATCH = 32


def train(recipe: ReaderRecipe, watch: Watcher = lambda progress: None) -> Trained:
    """Train a reader, or go on with a run that was stopped, in the recipe's folder.

    Raises:
        MundapError: The loss is no number any more; the last good checkpoint is kept.
    """
    if recipe.retriever:
        from mundap.training.joint import JointLearner

        return loop.run(recipe, lambda processes, scratch: JointLearner(recipe, processes, scratch), watch)
    return loop.run(recipe, lambda processes, scratch: ReaderLearner(recipe, processes, scratch), watch)


class ReaderLearner:
    """Selection and spans, learnt from groups of passages."""

    def __init__(self, recipe: ReaderRecipe, processes: Processes, scratch: Path) -> None:
        self._recipe = recipe
        self._processes = processes
        self.files = [example_file(one, scratch) for one in recipe.train]
        if not recipe.selection_only and not any(file.answered for file in self.files):
            names = ", ".join(one.path for one in recipe.train)
            raise MundapError(
                f"{names}: no example has an answer, so there are no spans to learn. Train a reranker with "
                "--selection-only, or give examples with answers."
            )
        self._dev = {
            file.label: dev_questions(file, recipe.dev_limit, recipe.passages)
            for file in (example_file(one, scratch) for one in recipe.dev)
        }
        torch.manual_seed(recipe.seed)  # new heads start from chance
        self._loaded = open_reader(Path(recipe.start), attention=None, fresh=True)
        longest = min(recipe.passage_length, checkpoint.positions(self._loaded.model.network.config))
        manner = {name: getattr(recipe, name) for name in ("question_length", "stride", "longest")}
        self._loaded = replace(self._loaded, max_length=longest, manner={**manner, "spans": not recipe.selection_only})
        self.reader = self.model = _prepared(self._loaded.model, recipe)
        tokenizer = self._loaded.tokenizer
        self._pad = int(tokenizer.pad_token_id or 0)
        raw = tokenizer.backend_tokenizer
        raw.no_padding()
        raw.no_truncation()
        self.config = ReaderConfig(
            name="training",
            max_length=longest,
            **manner,
            ranking="selection",
        )
        self._windows = Windows(raw, self.config)
        self._batches = ReaderBatches(self.files, recipe, self._windows, processes.rank, processes.world)
        self._teacher = Teacher(recipe.teacher) if recipe.teacher else None

    @property
    def an_epoch(self) -> int:
        """Batches in an epoch."""
        return self._batches.an_epoch

    def since(self, step: int) -> Generator[ReaderBatch]:
        """Batches from a step on, for ever."""
        return self._batches.since(step)

    def backward(self, batch: ReaderBatch, scale: float) -> Seen:
        """Each question weighs the same; processes have whole groups, so the sum of their gradients is exact."""
        device = next(self.reader.parameters()).device
        windows = [window for group in batch.groups for window in group.windows]
        rows = [window.ids for window in windows]
        pieces = Pieces(self.reader, rows, self._recipe, self._pad, device)
        selection: list[Any] = [None] * len(rows)
        spans: list[Any] = [torch.zeros((), device=device)] * len(rows)
        right = [places for group in batch.groups for places in group.spans]
        weights = self._null_weights(batch.groups, device)
        taught = self._teacher.opinions(batch.groups) if self._teacher else None
        share = self._recipe.teacher_weight if taught else 0.0
        for numbers, (starts, ends, chosen) in zip(pieces.groups, pieces.outputs, strict=True):
            for place, number in enumerate(numbers):
                selection[number] = chosen[place]
            if not self._recipe.selection_only:
                lengths = torch.tensor([len(rows[number]) for number in numbers], device=device)
                beyond = torch.arange(starts.shape[1], device=device) >= lengths.unsqueeze(1)
                starts, ends = (part.masked_fill(beyond, -torch.inf) for part in (starts, ends))
                places, null = [right[number] for number in numbers], weights[torch.tensor(numbers, device=device)]
                values = losses.reading(starts, ends, places, null, self._recipe.spans == "best")
                if taught:
                    counts = torch.where(torch.tensor([bool(one) for one in places], device=device), 1.0, null)
                    some = [(windows[number], taught[number]) for number in numbers]
                    told = _imitated(starts, [(window, one.starts) for window, one in some])
                    told = told + _imitated(ends, [(window, one.ends) for window, one in some])
                    values = (1 - share) * values + share * counts * told
                for place, number in enumerate(numbers):
                    spans[number] = values[place]
        total, ranks, first = torch.zeros((), device=device), [], 0
        for group in batch.groups:
            scores = torch.stack(selection[first : first + len(group.windows)])
            choice = losses.selecting(scores, group.target)
            if taught:
                others = [one.selection for one in taught[first : first + len(scores)]]
                choice = (1 - share) * choice + share * losses.agreeing(scores, scores.new_tensor(others))
            total = total + choice + torch.stack(spans[first : first + len(scores)]).sum()
            if group.target is not None:
                ranks.append(1 + int((scores > scores[group.target]).sum()))
            first += len(scores)
        (total * scale / batch.examples).backward()
        pieces.carry_back()
        facts = torch.tensor([[float(total.detach()), float(sum(ranks)), float(len(ranks))]], device=device)
        loss, ranked, count = self._processes.gather(facts).sum(0).tolist()
        return Seen(loss / batch.examples, ranked / max(count, 1))

    def _null_weights(self, groups: Sequence[Group], device: Any) -> Any:
        """What it counts in a passage without the answer that no span is the right one."""
        weights = []
        for group in groups:
            without = sum(not spans for spans in group.spans)
            for number, spans in enumerate(group.spans):
                counts = not spans and number != group.target
                weights.append(self._recipe.null_span / without if counts else 0.0)
        return torch.tensor(weights, device=device)

    def validate(self) -> Figures:
        """For each dev set, and over all: loss, rank of the positive, EM and F1."""
        self.reader.eval()
        try:
            found = {label: self._figures(asked) for label, asked in self._dev.items()}
        finally:
            self.reader.train()
        if found:
            names = next(iter(found.values()))
            found["all"] = {name: float(np.mean([one[name] for one in found.values()])) for name in names}
        return found

    def _figures(self, asked: Sequence[DevQuestion]) -> dict[str, float]:
        share = -(-len(asked) // self._processes.world)
        own = asked[self._processes.rank * share : (self._processes.rank + 1) * share]
        names = ("nll", "rank", "top1", "em", "f1", "gold_em", "gold_f1")
        rows = torch.zeros((len(own), len(names)), dtype=torch.float64, device=self._processes.device)
        for row, one in enumerate(own):
            rows[row] = torch.tensor(self._look_at(one), dtype=torch.float64)
        means = self._processes.gather(rows).mean(0).tolist()
        return {name: value * (1 if name in ("nll", "rank") else 100) for name, value in zip(names, means, strict=True)}

    def _look_at(self, one: DevQuestion) -> list[float]:
        """The figures of one question: the passages compete, and the positive is read alone."""
        pairs = [(context.title, context.text) for context in one.passages]
        read = scored(self.reader, self._windows.of(one.question.text, pairs), self._pad)
        scores = torch.tensor([max(window.selection or 0.0 for window in windows) for windows in read])
        place = 1.0 + float((scores > scores[0]).sum())
        values = [float(losses.selecting(scores, 0)), place, float(place == 1)]
        for number in (len(pairs), 1):
            texts = [text for _, text in pairs[:number]]
            found = rank(texts, read[:number], [0.0] * number, self.config)
            text = texts[found[0].passage][found[0].start : found[0].end] if found else ""
            values += judge(text, one.question.answers, one.match)
        return values

    def score(self, figures: Figures) -> float:
        """More is better."""
        value = figures["all"][self._recipe.metric]
        return -value if self._recipe.metric in ("nll", "rank") else value

    def at_start(self) -> Any:
        """The model before training."""
        torch.manual_seed(self._recipe.seed)
        return open_reader(Path(self._recipe.start), attention=None, fresh=True).model

    def save(self, folder: Path) -> None:
        """Write the reader."""
        write_reader(self._loaded, folder)


def scored(reader: Any, rows: Sequence[Sequence[Window]], pad: int) -> list[list[Scored]]:
    """What a reader in training says of the windows of each passage."""
    flat = [window for row in rows for window in row]
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


def _imitated(logits: Any, rows: Sequence[tuple[Window, np.ndarray]]) -> Any:
    """How far each row is from a teacher's shares, among the tokens of the text and "none"."""
    shares, outside = torch.zeros_like(logits), torch.ones_like(logits, dtype=torch.bool)
    for number, (window, row) in enumerate(rows):
        shares[number, : len(row)] = torch.from_numpy(row)
        outside[number, 0] = False
        outside[number, window.first : window.first + len(window.offsets)] = False
    return losses.imitating(logits.masked_fill(outside, -torch.inf), shares)


def _prepared(model: ReaderNetwork, recipe: ReaderRecipe) -> ReaderNetwork:
    set_dropout(model.network, recipe.dropout, recipe.attention_dropout)
    if recipe.recompute:
        model.network.gradient_checkpointing_enable()
    return model
