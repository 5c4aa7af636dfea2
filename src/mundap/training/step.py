"""One step of training: vectors, loss, gradient.

The loss sees the vectors of the whole batch, from all processes. Its gradient by each vector is exact and the
same in every process; each then carries its own part back through the network, and the sum over processes is
the gradient that one process would have had. The same cut, between vectors and network, makes gradient caching:
vectors are first made without remembering how, and made again, a few texts at a time, to carry the gradient back.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from mundap.training import losses
from mundap.training.batches import Batch
from mundap.training.processes import Processes
from mundap.training.recipe import Recipe
from mundap.training.towers import DualEncoder, Tower, chunks, padded


@dataclass(frozen=True, slots=True)
class Seen:
    """What a step saw: the mean loss, and the mean rank of the positive among the passages of the batch."""

    loss: float
    rank: float


class Step:
    """Computes gradients for batches."""

    def __init__(self, model: DualEncoder, recipe: Recipe, processes: Processes, pad: int) -> None:
        self._model = model
        self._recipe = recipe
        self._processes = processes
        self._pad = pad

    def backward(self, batch: Batch, scale: float = 1.0) -> Seen:
        """Add the gradient of the mean loss over the whole batch, times `scale`, to the parameters.

        In several processes each adds its part; `Processes.add_gradients` makes the sum.
        """
        sides = [
            _Side(self._model.question, batch.questions, self._recipe.cache, self._pad, self),
            _Side(self._model.passage, batch.passages, self._recipe.cache, self._pad, self),
        ]
        every = [self._processes.gather(side.vectors.detach()) for side in sides]
        leaves = [vectors.float().requires_grad_() for vectors in every]
        scores = self._model.scores(*leaves)
        targets = torch.from_numpy(batch.targets).to(scores.device)
        left_out = torch.from_numpy(batch.left_out).to(scores.device)
        if self._recipe.loss == "triplet":
            values = losses.triplet(scores, targets, left_out, self._recipe.margin)
        else:
            values = losses.nll(scores, targets, left_out)
        (values.mean() * scale).backward()
        for side, leaf in zip(sides, leaves, strict=True):
            size = len(side.vectors)
            begin = self._begin(size)
            side.carry_back(leaf.grad[begin : begin + size])
        rows = torch.arange(len(scores), device=scores.device)
        better = (scores > scores[rows, targets].unsqueeze(1)) & ~left_out
        return Seen(float(values.detach().mean()), 1 + float(better.sum(1).float().mean()))

    def _begin(self, size: int) -> int:
        """Where this process's rows begin among all."""
        sizes = self._processes.gather(torch.tensor([size], device=self._processes.device))
        return int(sizes[: self._processes.rank].sum())

    @contextlib.contextmanager
    def precision(self) -> Iterator[None]:
        """Lower precision, where it was asked for."""
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
        kind = kinds.get(self._recipe.precision)
        if kind is None:
            yield
        else:
            with torch.autocast(self._processes.device.type, kind):
                yield


class _Side:
    """The texts of one tower in a step."""

    def __init__(self, tower: Tower, texts: list[list[int]], cache: int, pad: int, step: Step) -> None:
        self._tower = tower
        self._step = step
        self._learns = any(parameter.requires_grad for parameter in tower.parameters())
        self._cached = bool(cache) and self._learns
        device = next(tower.parameters()).device
        self._order: list[int] = []
        self._inputs = []
        self._states: list[tuple[Any, Any]] = []
        self._graphs: list[Any] = []
        parts = []
        for group in chunks([len(text) for text in texts], cache):
            self._order += group
            ids, mask = padded([texts[position] for position in group], pad, device)
            self._inputs.append((ids, mask))
            self._states.append(_chance(device) if self._cached else (None, None))
            with torch.set_grad_enabled(self._learns and not self._cached), step.precision():
                part = tower(ids, mask)
            if self._learns and not self._cached:
                self._graphs.append(part)
            parts.append(part.detach())
        back = torch.empty(len(self._order), dtype=torch.long)
        back[torch.tensor(self._order)] = torch.arange(len(self._order))
        self.vectors = torch.cat(parts)[back.to(device)]

    def carry_back(self, gradient: Any) -> None:
        """Through the network, to the parameters."""
        if not self._learns:
            return
        ordered = gradient[torch.tensor(self._order, device=gradient.device)]
        start = 0
        for number, (ids, mask) in enumerate(self._inputs):
            part = ordered[start : start + len(ids)]
            start += len(ids)
            if self._cached:
                now = _chance(ids.device)
                _set_chance(ids.device, self._states[number])  # the same dropout as the first time
                with self._step.precision():
                    vectors = self._tower(ids, mask)
                _set_chance(ids.device, now)
            else:
                vectors = self._graphs[number]
            vectors.backward(part.to(vectors.dtype))


def _chance(device: Any) -> tuple[Any, Any]:
    return torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def _set_chance(device: Any, state: tuple[Any, Any]) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)
