"""The inferencer on a Ray cluster: one task per shard of the corpus, with weights from the shared folder."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import torch

from mundap.engines import cluster
from mundap.training.ance.exchange import ExchangeFolder
from mundap.training.ance.inferencer import Elsewhere, Inferencer
from mundap.training.ance.trainer import EXCHANGE
from mundap.training.recipe import AnceRecipe


@contextmanager
def over(address: str, recipe: AnceRecipe, device: str) -> Iterator[Elsewhere]:
    """A cluster that encodes the corpus.

    Args:
        address: Of the cluster, or `local`.
        recipe: The trainer's, with absolute paths, which every machine must see.
        device: Where a task computes; with CUDA it has a GPU to itself.

    Raises:
        ExtraMissing: Ray is not installed.
        EngineError: There is no cluster at this address.
    """
    with cluster.joined(address) as ray:

        def encode(step: int, names: Sequence[str]) -> Generator[int]:
            calls = [(recipe, device, step, name) for name in names]
            out = _exchange(recipe).round(step)
            done = 0
            for finished in cluster.spread(ray, _encode, calls, out, gpus=int(device.startswith("cuda"))):
                done += len(finished)
                yield done

        yield encode


def _encode(recipe: AnceRecipe, device: str, step: int, name: str) -> None:
    _inferencer(recipe, device).encode_shard(step, name)


@lru_cache(1)
def _inferencer(recipe: AnceRecipe, device: str) -> Inferencer:
    """Built once per process, not once per shard."""
    return Inferencer(recipe, [], _exchange(recipe), torch.device(device or "cpu"))


def _exchange(recipe: AnceRecipe) -> ExchangeFolder:
    return ExchangeFolder(Path(recipe.output_dir) / EXCHANGE)
