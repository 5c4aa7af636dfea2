"""The inferencer with a real Ray cluster of this machine's cores. `make test-ray`."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mundap.errors import EngineError, UsageError
from mundap.training import recipe_files
from tests.ray_cluster import PATIENCE, with_ray
from tests.training.ance.parts import inferencer, recipe, weights

pytest.importorskip("torch")
pytest.importorskip("transformers")


def exchange_of(chosen):
    from mundap.training.ance.exchange import ExchangeFolder

    return ExchangeFolder(Path(chosen.output_dir) / "ance")


def shard_vectors(chosen, monkeypatch, **options):
    """The vectors of a whole round, and the negatives found with them."""
    from mundap.training.ance import inferencer as room

    exchange = exchange_of(chosen)
    exchange.put_weights(0, weights(chosen))
    seen = []
    real = room.nearest

    def looking(questions, shards, *rest):
        seen.extend(np.array(shard.open()) for shard in shards)
        return real(questions, shards, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(room, "nearest", looking)
        inferencer(chosen, exchange, **options)[0].round(0)
    return seen, exchange.open_negatives(0)[0]


@with_ray
def test_the_same_vectors_and_negatives(files, pool, tmp_path, monkeypatch):
    from mundap.training.ance import cluster
    from mundap.training.ance.inferencer import Inferencer

    wanted, negatives = shard_vectors(recipe(files, pool, tmp_path / "alone"), monkeypatch)
    assert len(wanted) >= 4
    chosen = recipe(files, pool, tmp_path / "ray")

    def refuse(*_):
        raise AssertionError("a shard was encoded here")

    monkeypatch.setattr(Inferencer, "_shard", refuse)  # in this process, not in those of the cluster
    with cluster.over("local", chosen, "") as elsewhere:
        found, others = shard_vectors(chosen, monkeypatch, elsewhere=elsewhere)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape and np.allclose(one, other, atol=1e-6)
    assert np.array_equal(others["numbers"], negatives["numbers"])
    assert np.allclose(others["scores"], negatives["scores"], atol=1e-5)


@with_ray
def test_as_a_command(files, pool, tmp_path):
    chosen = recipe(files, pool, tmp_path / "out")
    (tmp_path / "recipe.toml").write_text(recipe_files.dump(chosen))
    exchange = exchange_of(chosen)
    exchange.put_weights(0, weights(chosen))
    command = [
        sys.executable,
        "-m",
        "mundap",
        "train",
        "ance",
        tmp_path / "recipe.toml",
        "--only",
        "inferencer",
        "--ray",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + PATIENCE
        while not exchange.published() and process.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        published = exchange.published()
        exchange.finish()  # it leaves by itself
        errors = process.communicate(timeout=PATIENCE)[1]
    assert published == [0] and process.returncode == 0, errors


def test_shards_that_others_encode_or_leave(files, pool, tmp_path, monkeypatch):
    """Without a cluster: another inferencer encodes all shards but one, as its tasks do, and one it does not know."""
    wanted, negatives = shard_vectors(recipe(files, pool, tmp_path / "alone"), monkeypatch)
    chosen = recipe(files, pool, tmp_path / "out")
    other, _ = inferencer(chosen, exchange_of(chosen))
    encoded, seen = [], []

    def elsewhere(step, names):
        for done, name in enumerate([*names[1:], "000009-nowhere"], 1):
            other.encode_shard(step, name)
            encoded.append(name)
            yield done

    found, others = shard_vectors(chosen, monkeypatch, elsewhere=elsewhere, tell=seen.append)
    assert len(encoded) == len(wanted) and all(map(np.array_equal, found, wanted))
    assert np.array_equal(others["numbers"], negatives["numbers"])
    here = [progress.what for progress in seen if progress.what.startswith("encoding 0")]
    assert len(here) == 1  # the one that was left


def test_where_there_is_no_inferencer(files, pool, tmp_path):
    from mundap.training.ance import run

    for changes, alone in (({"synchronous": True}, False), ({}, True)):
        chosen = recipe(files, pool, tmp_path / "out", **changes)
        with pytest.raises(UsageError, match="a cluster runs the inferencer"):
            run.train(chosen, alone=alone, ray="local")


@with_ray
def test_no_cluster(files, pool, tmp_path):
    from mundap.training.ance import run

    with pytest.raises(EngineError, match="no Ray cluster at 127.0.0.1:1"):
        run.infer(recipe(files, pool, tmp_path / "out"), ray="127.0.0.1:1")
