"""Encoding over many machines with Ray.

Every task makes one shard on storage that all can see, and an index is made of the shards. A task whose machine dies is
done again elsewhere; a shard is there as a whole or not at all.
"""

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from mundap.encoder.runtime import Encoder
from mundap.engines.shards import SHARD, Work, encode_shard
from mundap.errors import EngineError, ExtraMissing, MundapError
from mundap.index.build import Options
from mundap.index.ingest import Progress, Watcher
from mundap.machine import cores

_T = TypeVar("_T")

LOCAL = "local"
"""In place of an address: a cluster of this machine alone, for as long as the job takes."""

_SHARDS_A_CORE = 4  # so that the last ones do not leave most cores idle
_FEWEST = 8
_OBJECTS = 100 << 20  # bytes; shards go through files, so next to nothing is kept by Ray itself
_LOOK_SECONDS = 1.0
_STARTS = 3
_REACHED_SECONDS = 10.0


def encode(
    paths: Sequence[str], out: Path, options: Options, address: str = LOCAL, watch: Watcher | None = None
) -> Path:
    """Encode all passages over a cluster; run again after a kill, it goes on with the shards that are missing.

    Args:
        paths: Files and folders that every machine sees under the same name.
        out: Where the shards go; every machine must see it too.
        options: As for `mundap index`.
        address: Of the cluster, or `local`.
        watch: Called now and then with the progress: shards, in place of bytes.

    Raises:
        ExtraMissing: Ray is not installed.
        EngineError: There is no cluster at this address.
    """
    with joined(address) as ray:
        absolute = tuple(str(Path(path).resolve()) for path in paths)
        work = Work(absolute, options, out.resolve(), _count(out, ray))
        work.files()  # a wrong path is an error here, not on some machine
        progress = Progress(total=work.of)
        for done in spread(ray, _made, [(work, shard) for shard in range(1, work.of + 1)], out):
            progress.passages += sum(done)
            progress.bytes += len(done)
            if watch is not None:
                watch(progress)
    return out


def spread(
    ray: Any, function: Callable[..., _T], calls: Sequence[tuple[Any, ...]], out: Path, gpus: int = 0
) -> Iterator[list[_T]]:
    """Call a function with each of these arguments, as tasks of one core; yields the results as they arrive.

    A task whose machine dies is done again elsewhere, so it must be one that may be done twice.

    Args:
        ray: From `joined`.
        function: What to do. It is found by its name on every machine.
        calls: Its arguments.
        out: Where it writes to, for messages.
        gpus: How many a task has to itself.

    Raises:
        MundapError: The function did.
        EngineError: It failed in another way.
    """
    # -1: as often as it takes. What a task itself raises is not tried again.
    task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=-1)(_called)
    waiting = [task.remote(function, given) for given in calls]
    try:
        while waiting:
            done, waiting = ray.wait(waiting, timeout=_LOOK_SECONDS)
            yield [result for (result,) in _results(ray, done, out)]
    finally:
        for one in waiting:  # nobody wants them any more
            ray.cancel(one)


def _called(function: Callable[..., _T], given: tuple[Any, ...]) -> tuple[_T] | str:
    """One task: its result, or what went wrong; an exception of ours would not find its way back whole."""
    os.environ.setdefault("MUNDAP_THREADS", "1")  # a task has one core
    try:
        return (function(*given),)
    except MundapError as error:
        return str(error)


def _results(ray: Any, done: list[Any], out: Path) -> list[tuple[Any]]:
    try:
        results = list(ray.get(done))
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1][:300]  # above it is the traceback of another machine
        raise EngineError(
            f"encoding over Ray failed ({reason}). The shards that are done are kept in {out}: the same command goes "
            "on with the others."
        ) from error
    for result in results:
        if isinstance(result, str):
            raise MundapError(result)
    return results


def beside(out: Path) -> Path:
    """The folder for the shards of an index until it is built."""
    return out.with_name(f"{out.name}.shards")


def _made(work: Work, shard: int) -> int:
    return encode_shard(work, shard, encoder=_encoder(work.settings().model)).passages


@lru_cache(1)
def _encoder(model: str) -> Encoder:
    """Loaded once a process, and not for every shard."""
    return Encoder.from_pretrained(model, threads=1)


def _count(out: Path, ray: Any) -> int:
    """How many shards: as many as an interrupted job had, else by the size of the cluster."""
    if out.is_dir():
        for path in sorted(out.iterdir()):
            if match := SHARD.fullmatch(path.name):
                return int(match[2])
    cluster = int(ray.cluster_resources().get("CPU", 1))
    return max(_FEWEST, _SHARDS_A_CORE * cluster)


@contextmanager
def joined(address: str) -> Iterator[Any]:
    """Ray, connected to a cluster, or to one of this machine's cores that ends with the block.

    Raises:
        ExtraMissing: Ray is not installed.
        EngineError: There is no cluster at this address.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ExtraMissing("a cluster", "ray") from error
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if ray.is_initialized():
        yield ray
        return
    if address == LOCAL:
        _start(ray)
    else:
        _check_reachable(address)
        _connect(ray, address)
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Ray goes on trying for many minutes where nobody listens, and cannot be interrupted meanwhile."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # such as `auto`: Ray knows where
    try:
        socket.create_connection((host.strip("[]"), int(port)), _REACHED_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _no_cluster(address, error) from error


def _connect(ray: Any, address: str, **further: Any) -> None:
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", configure_logging=False, **further)
    except Exception as error:  # Ray raises plain Exception where a node does not start in time
        raise _no_cluster(address, error) from error


def _no_cluster(address: str, error: Exception) -> EngineError:
    reason = " ".join(str(error).split())[:200]
    return EngineError(f"no Ray cluster at {address} ({reason}). Start one with `ray start --head`.")


def _start(ray: Any) -> None:
    """Start Ray on this machine. It gives itself 30 seconds for that, which a busy machine may not keep to."""
    left = _STARTS
    while True:
        try:
            _connect(ray, LOCAL, num_cpus=cores(), object_store_memory=_OBJECTS, include_dashboard=False)
            return
        except EngineError:
            ray.shutdown()
            left -= 1
            if not left:
                raise
