"""One step of training: vectors, loss, gradient.

The loss sees the vectors of the whole batch, from all processes. Its gradient by each vector is exact and the
same in every process; each then carries its own part back through the network, and the sum over processes is
the gradient that one process would have had. The same cut, between vectors and network, makes gradient caching:
vectors are first made without remembering how, and made again, a few texts at a time, to carry the gradient back.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from mundap.training import losses
from mundap.training.batches import Batch
from mundap.training.loop import Seen
from mundap.training.processes import Processes
from mundap.training.recipe import Recipe, Run
from mundap.training.towers import DualEncoder, Tower, chunks, padded


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
            _Side(self._model.question, batch.questions, self._recipe, self._pad),
            _Side(self._model.passage, batch.passages, self._recipe, self._pad),
        ]
        every = [self._processes.gather(side.vectors.detach()) for side in sides]
        leaves = [vectors.float().requires_grad_() for vectors in every]
        owners = torch.from_numpy(batch.owners).to(leaves[0].device)
        scores = self._model.scores(leaves[0], leaves[1], owners)
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


class Pieces:
    """Texts run through a network a few at a time, and the way back.

    What comes out is cut off from the network: a loss made of `outputs` leaves its gradient there, and `carry_back`
    takes that on to the parameters. With `cache` nothing is remembered in between but the random numbers: each piece
    is run again on the way back, so the memory is that of one piece.

    Args:
        network: From ids and mask to one tensor or several.
        texts: Token ids.
        recipe: Precision, and how many texts are in memory at a time.
        pad: The token to pad with.
        device: Where.
    """

    def __init__(self, network: Any, texts: list[list[int]], recipe: Run, pad: int, device: Any) -> None:
        self._network = network
        self._precision = recipe.precision
        self._learns = any(parameter.requires_grad for parameter in network.parameters())
        self._cached = bool(recipe.cache) and self._learns
        self.groups = chunks([len(text) for text in texts], recipe.cache)
        self.outputs: list[tuple[Any, ...]] = []
        self._inputs = []
        self._states: list[tuple[Any, Any]] = []
        self._graphs: list[tuple[Any, ...]] = []
        for group in self.groups:
            ids, mask = padded([texts[position] for position in group], pad, device)
            self._inputs.append((ids, mask))
            self._states.append(_chance(device) if self._cached else (None, None))
            with torch.set_grad_enabled(self._learns and not self._cached):
                part = self._run(ids, mask)
            if self._learns and not self._cached:
                self._graphs.append(part)
            self.outputs.append(tuple(one.detach().float().requires_grad_() for one in part))

    def _run(self, ids: Any, mask: Any) -> tuple[Any, ...]:
        with in_precision(self._precision, ids.device.type):
            found = self._network(ids, mask)
        return found if isinstance(found, tuple) else (found,)

    def carry_back(self, gradients: list[tuple[Any, ...]] | None = None) -> None:
        """Through the network, to the parameters: the gradients of the outputs, or those given."""
        if not self._learns:
            return
        for number, (ids, mask) in enumerate(self._inputs):
            if self._cached:
                now = _chance(ids.device)
                _set_chance(ids.device, self._states[number])  # the same dropout as the first time
                part = self._run(ids, mask)
                _set_chance(ids.device, now)
            else:
                part = self._graphs[number]
            wanted = gradients[number] if gradients else tuple(one.grad for one in self.outputs[number])
            known = [(out, slope) for out, slope in zip(part, wanted, strict=True) if slope is not None]
            if known:
                torch.autograd.backward([out for out, _ in known], [slope.to(out.dtype) for out, slope in known])


@contextlib.contextmanager
def in_precision(precision: str, device: str) -> Iterator[None]:
    """Lower precision, where it was asked for."""
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    if precision not in kinds:
        yield
    else:
        with torch.autocast(device, kinds[precision]):
            yield


class _Side:
    """The texts of one tower in a step."""

    def __init__(self, tower: Tower, texts: list[list[int]], recipe: Recipe, pad: int) -> None:
        device = next(tower.parameters()).device
        self._pieces = Pieces(tower, texts, recipe, pad, device)
        self._order = torch.tensor([position for group in self._pieces.groups for position in group], device=device)
        back = torch.empty_like(self._order)
        back[self._order] = torch.arange(len(self._order), device=device)
        self.vectors = torch.cat([output[0].detach() for output in self._pieces.outputs])[back]

    def carry_back(self, gradient: Any) -> None:
        """Through the network, to the parameters."""
        parts = torch.split(gradient[self._order], [len(group) for group in self._pieces.groups])
        self._pieces.carry_back([(part,) for part in parts])


def _chance(device: Any) -> tuple[Any, Any]:
    return torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def _set_chance(device: Any, state: tuple[Any, Any]) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)
