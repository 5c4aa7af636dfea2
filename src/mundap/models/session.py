"""Running ONNX graphs: one text a run, without padding, one single-threaded session per core.

On a CPU this is faster than batching, and int8 makes it a matter of correctness too: its activation scales may be
shared within a batch, so a result would depend on what it was batched with. On a GPU (`device.py`) texts of the same
length go through an fp32 graph together, without padding there too, and one thread does.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from mundap.errors import ModelError
from mundap.machine import cores
from mundap.models.device import CPU, check_used, providers, wanted_device
from mundap.models.folder import EncoderConfig, Precision, ReaderConfig, check, find
from mundap.models.folder import weights as find_weights
from mundap.models.tokenizer import open_tokenizer, truncating

C = TypeVar("C", EncoderConfig, ReaderConfig)
T = TypeVar("T")
R = TypeVar("R")

_TOGETHER = 64  # texts, on a GPU
_AT_A_TIME = 8  # texts that a thread takes, on a CPU


class ModelSession(Generic[C]):
    """A model folder, ready to run. Each thread has its own onnxruntime sessions, opened when the first text comes.

    Args:
        name: The folder of the model, or the name of an installed one.
        kind: The class of its config.
        parts: The names of its graphs, such as `reader`.
        precision: `int8` or `fp32`; by default what the folder has, int8 first.
        threads: How many texts are run at the same time; by default one per core, and one on a GPU.
    """

    def __init__(
        self,
        name: str | Path,
        kind: type[C],
        parts: Sequence[str],
        precision: Precision | None = None,
        threads: int | None = None,
    ) -> None:
        self.folder = find(name)
        self.config: C = kind.load(self.folder)
        self._wanted_threads = threads
        self._device = wanted_device()
        self._weights = {part: find_weights(self.folder, precision, part) for part in parts}
        self._local = threading.local()
        self._checked: set[Path] = set()
        self._checking = threading.Lock()

    def tokenizer(self, length: int | None = None) -> Any:
        """The model's tokenizer, see `open_tokenizer`; it truncates what is longer than a given number of tokens."""
        tokenizer = open_tokenizer(self.folder / "tokenizer.json", self.config.sha256)
        if length is not None:
            truncating(tokenizer, length)
        return tokenizer

    @cached_property
    def _threads(self) -> int:
        if self._device != CPU:
            return 1
        return self._wanted_threads or cores()

    def _each(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
        """The function of every item, in order, on all threads."""
        if len(items) <= 1 or self._threads == 1:
            return map(function, items)
        return self._pool.map(function, items)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, "models")

    def run_each(self, part: str, rows: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
        """The outputs of a graph for each text, in order, on all threads."""
        if self._device != CPU:
            return self._run(part, rows)
        return list(self._each(lambda inputs: self._run(part, [inputs])[0], rows))

    def run_texts(
        self, part: str, texts: Sequence[T], inputs: Callable[[Sequence[T]], Sequence[Mapping[str, Any]]]
    ) -> list[list[Any]]:
        """The same for texts whose inputs the threads that run the graph are to make, for some texts at a time."""
        size = _AT_A_TIME
        if self._device != CPU:
            size = 16 * _TOGETHER  # enough for some of the same length

        def run_some(start: int) -> list[list[Any]]:
            return self._run(part, inputs(texts[start : start + size]))

        return list(chain.from_iterable(self._each(run_some, range(0, len(texts), size))))

    def _run(self, part: str, rows: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
        """The same in this thread. Inputs that the graph does not have (not all know token types) are left out.

        Raises:
            ModelError: The weights are damaged, or do not take these inputs.
        """
        weights = self._weights[part]
        session, names = self._session(weights)
        try:
            if self._device != CPU and weights.name.endswith(".fp32.onnx"):
                return _run_together(session, names, rows)
            return [list(session.run(None, {name: inputs[name] for name in names})) for inputs in rows]
        except Exception as error:  # onnxruntime's classes are not public
            raise ModelError(f"{weights} fails ({error}). Export the model again.") from error

    def _session(self, weights: Path) -> tuple[Any, list[str]]:
        sessions = self._local.__dict__.setdefault("sessions", {})
        if weights not in sessions:
            self._check_once(weights)
            session = _open_session(weights, self._device)
            sessions[weights] = session, [one.name for one in session.get_inputs()]
        found: tuple[Any, list[str]] = sessions[weights]
        return found

    def _check_once(self, weights: Path) -> None:
        """Compare the checksum of weights; once, and not in every thread."""
        with self._checking:
            if weights not in self._checked:
                check(weights, self.config.sha256)
                self._checked.add(weights)


def _run_together(session: Any, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """The outputs for each row, those of the same shape in batches."""
    alike: dict[tuple[Any, ...], list[int]] = {}
    for place, row in enumerate(rows):
        alike.setdefault(tuple(row[name].shape for name in names), []).append(place)
    results: list[list[Any]] = [[] for _ in rows]
    for same in alike.values():
        for start in range(0, len(same), _TOGETHER):
            places = same[start : start + _TOGETHER]
            inputs = {name: np.concatenate([rows[place][name] for place in places]) for name in names}
            outputs = session.run(None, inputs)
            for at, place in enumerate(places):
                results[place] = [output[at : at + 1] for output in outputs]
    return results


def _open_session(path: Path, device: str) -> Any:
    import onnxruntime

    chosen = providers(device)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=chosen)
    except Exception as error:  # onnxruntime has a dozen classes for this, none of them public
        raise ModelError(f"{path} is not a usable ONNX file. Export the model again. ({error})") from error
    check_used(session, device)
    return session
