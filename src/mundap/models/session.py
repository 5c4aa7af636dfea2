"""Running ONNX graphs: one text a run, without padding, one single-threaded session a core.

On a CPU this is faster than batching, and int8 makes it a matter of correctness too: its activation scales are
shared within a batch, so a result would depend on what it was batched with.
"""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from mundap.errors import ModelError
from mundap.machine import cores
from mundap.models.folder import check

T = TypeVar("T")
R = TypeVar("R")


class Workers:
    """Threads that each have their own sessions. Weights are loaded when the first text comes.

    Args:
        threads: How many there are; by default one a core.
        checksums: The SHA-256 of files by name: weights that have another are refused.
    """

    def __init__(self, threads: int | None = None, checksums: Mapping[str, str] | None = None) -> None:
        self.threads = threads or cores()
        self._local = threading.local()
        self._checksums = checksums or {}
        self._checked: set[Path] = set()
        self._checking = threading.Lock()

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """The function of every item, in order."""
        if len(items) <= 1 or self.threads == 1:
            return [function(item) for item in items]
        return list(self._pool.map(function, items))

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads, "models")

    def run_each(self, weights: Path, rows: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
        """The outputs of the graph for each text, in order, on all threads."""
        return self.each(lambda inputs: self.run(weights, inputs), rows)

    def run(self, weights: Path, inputs: Mapping[str, Any]) -> list[Any]:
        """The outputs of the graph for one text. Inputs that it does not have (not all know token types) are left out.

        Raises:
            ModelError: The weights are damaged, or do not take these inputs.
        """
        session, names = self._session(weights)
        try:
            return list(session.run(None, {name: inputs[name] for name in names}))
        except Exception as error:  # onnxruntime's classes are not public
            raise ModelError(f"{weights} fails ({error}). Export the model again.") from error

    def _session(self, weights: Path) -> tuple[Any, list[str]]:
        sessions = self._local.__dict__.setdefault("sessions", {})
        if weights not in sessions:
            self._check_once(weights)
            session = _open_session(weights)
            sessions[weights] = session, [one.name for one in session.get_inputs()]
        found: tuple[Any, list[str]] = sessions[weights]
        return found

    def _check_once(self, weights: Path) -> None:
        """Compare the checksum of weights; once, and not in every thread."""
        with self._checking:
            if weights not in self._checked:
                check(weights, self._checksums)
                self._checked.add(weights)


def _open_session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a dozen classes for this, none of them public
        raise ModelError(f"{path} is not a usable ONNX file. Export the model again. ({error})") from error


def open_tokenizer(path: Path, checksums: Mapping[str, str] | None = None) -> Any:
    """A tokenizer without padding or truncation of its own; a ModelError if its SHA-256 is not the one given."""
    check(path, checksums or {})
    # Our threads are the parallelism; tokenizers' own would only add overhead to batches this small.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception
        raise ModelError(f"{path}: {error}. Export the model again.") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
