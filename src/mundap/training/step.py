"""One training step of a dual encoder: vectors, loss, gradient.

The loss sees the vectors of the whole batch, from all processes. Its gradient with respect to each vector is exact and
the same in every process; each process then back-propagates its own part through the network, and the sum over
processes is the gradient that one process would have had. The same cut, between vectors and network, makes gradient
caching possible: vectors are first computed without a graph, and again, a few texts at a time, to back-propagate.
"""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import torch

from mundap.encoder.network import DualEncoder, Tower, chunks, padded
from mundap.training import losses
from mundap.training.batches import Batch
from mundap.training.learner import StepResult
from mundap.training.processes import Processes
from mundap.training.recipe import RetrieverRecipe, TrainingRecipe


class RetrieverStep:
    """Computes gradients for batches."""

    def __init__(self, model: DualEncoder, recipe: RetrieverRecipe, processes: Processes, pad: int) -> None:
        self._model = model
        self._recipe = recipe
        self._processes = processes
        self._pad = pad

    def backward(self, batch: Batch, scale: float = 1.0) -> StepResult:
        """Add the gradient of the mean loss over the whole batch, times `scale`, to the parameters.

        In several processes each adds its part; `Processes.add_gradients` makes the sum.
        """
        sides = [
            TowerForward(self._model.question, batch.questions, self._recipe, self._pad),
            TowerForward(self._model.passage, batch.passages, self._recipe, self._pad),
        ]
        every = [self._processes.gather(side.vectors.detach()) for side in sides]
        leaves = [vectors.float().requires_grad_() for vectors in every]
        owners = torch.from_numpy(batch.owners).to(leaves[0].device)
        scores = self._model.scores(leaves[0], leaves[1], owners)
        targets = torch.from_numpy(batch.targets).to(scores.device)
        excluded = torch.from_numpy(batch.excluded).to(scores.device)
        if self._recipe.loss == "triplet":
            values = losses.triplet(scores, targets, excluded, self._recipe.margin)
        else:
            values = losses.nll(scores, targets, excluded)
        (values.mean() * scale).backward()
        for side, leaf in zip(sides, leaves, strict=True):
            size = len(side.vectors)
            begin = self._begin(size)
            side.backward(leaf.grad[begin : begin + size])
        rows = torch.arange(len(scores), device=scores.device)
        better = (scores > scores[rows, targets].unsqueeze(1)) & ~excluded
        return StepResult(float(values.detach().mean()), 1 + float(better.sum(1).float().mean()))

    def _begin(self, size: int) -> int:
        """Where this process's rows begin among all."""
        sizes = self._processes.gather(torch.tensor([size], device=self._processes.device))
        return int(sizes[: self._processes.rank].sum())


class ChunkedForward:
    """Runs texts through a network in chunks, and back-propagates through it.

    The outputs are detached from the network: a loss computed from `outputs` leaves its gradient there, and `backward`
    takes it on to the parameters. With `grad_cache` nothing is kept in between but the random state: each chunk is run
    again in the backward pass, so that only one chunk's activations are in memory.

    Args:
        network: From ids and mask to one tensor or several.
        texts: Token ids.
        recipe: Precision, and how many texts are in memory at a time.
        pad: The id of the padding token.
        device: Where to compute.

    Attributes:
        groups: For each chunk the positions of its texts.
        outputs: For each chunk the network's outputs.
    """

    def __init__(self, network: Any, texts: list[list[int]], recipe: TrainingRecipe, pad: int, device: Any) -> None:
        self._network = network
        self._precision = recipe.precision
        self._device = device
        self._learns = any(parameter.requires_grad for parameter in network.parameters())
        self._cached = bool(recipe.grad_cache)
        self.groups = chunks([len(text) for text in texts], recipe.grad_cache)
        self.outputs: list[tuple[Any, ...]] = []
        self._inputs = []
        self._states: list[tuple[Any, Any]] = []
        self._graphs: list[tuple[Any, ...]] = []
        for group in self.groups:
            inputs = padded([texts[position] for position in group], pad, device)
            self._inputs.append(inputs)
            self._states.append(_rng_state(device))
            with torch.set_grad_enabled(self._learns and not self._cached):
                graph = self._run(inputs)
            if not self._cached:
                self._graphs.append(graph)
            self.outputs.append(tuple(one.detach().float().requires_grad_() for one in graph))

    def _run(self, inputs: tuple[Any, Any]) -> tuple[Any, ...]:
        with in_precision(self._precision, self._device.type):
            found = self._network(*inputs)
        if isinstance(found, tuple):
            return found
        return (found,)

    def backward(self) -> None:
        """Back-propagate the gradients of the outputs to the parameters."""
        if not self._learns:
            return
        for number, outputs in enumerate(self.outputs):
            graphs, gradients = [], []
            for graph, output in zip(self._graph(number), outputs, strict=True):
                if output.grad is not None:
                    graphs.append(graph)
                    gradients.append(output.grad.to(graph.dtype))
            if graphs:
                torch.autograd.backward(graphs, gradients)

    def _graph(self, number: int) -> tuple[Any, ...]:
        """The outputs of a chunk with the graph that leads to them: kept, or made again with the same dropout."""
        if not self._cached:
            return self._graphs[number]
        now = _rng_state(self._device)
        _set_rng_state(self._device, self._states[number])
        graph = self._run(self._inputs[number])
        _set_rng_state(self._device, now)
        return graph


@contextlib.contextmanager
def in_precision(precision: str, device: str) -> Iterator[None]:
    """Compute in a lower precision, where the recipe asks for it."""
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    if precision not in kinds:
        yield
    else:
        with torch.autocast(device, kinds[precision]):
            yield


class TowerForward:
    """The texts of one tower in a step, in their order."""

    def __init__(self, tower: Tower, texts: list[list[int]], recipe: RetrieverRecipe, pad: int) -> None:
        device = next(tower.parameters()).device
        self._pieces = ChunkedForward(tower, texts, recipe, pad, device)
        order = itertools.chain.from_iterable(self._pieces.groups)
        self._order = torch.tensor(list(order), device=device)
        back = torch.empty_like(self._order)
        back[self._order] = torch.arange(len(self._order), device=device)
        self.vectors = torch.cat([output[0].detach() for output in self._pieces.outputs])[back]

    def backward(self, gradient: Any) -> None:
        """Back-propagate the gradient of the vectors."""
        parts = torch.split(gradient[self._order], [len(group) for group in self._pieces.groups])
        for output, part in zip(self._pieces.outputs, parts, strict=True):
            output[0].grad = part
        self._pieces.backward()


def _rng_state(device: Any) -> tuple[Any, Any]:
    """The random state of the CPU and, where that computes, of the GPU."""
    if device.type == "cuda":
        return torch.get_rng_state(), torch.cuda.get_rng_state(device)
    return torch.get_rng_state(), None


def _set_rng_state(device: Any, state: tuple[Any, Any]) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)
