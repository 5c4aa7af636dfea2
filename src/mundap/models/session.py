"""Running ONNX graphs: one text a run, without padding, one single-threaded session a core.

On a CPU this is faster than batching, and int8 makes it a matter of correctness too: its activation scales are
shared within a batch, so a result would depend on what it was batched with.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from mundap.errors import ModelError
from mundap.machine import cores
from mundap.models.folder import EncoderConfig, Precision, ReaderConfig, check
from mundap.models.folder import weights as find_weights

C = TypeVar("C", EncoderConfig, ReaderConfig)
T = TypeVar("T")
R = TypeVar("R")


class ModelSession(Generic[C]):
    """A model folder, ready to run. Each thread has its own onnxruntime sessions, opened when the first text comes.

    Args:
        folder: Where the model is.
        kind: The class of its config.
        parts: The names of its graphs, such as `reader`.
        precision: `int8` or `fp32`; by default what the folder has, int8 first.
        threads: How many texts are run at the same time; by default one a core.
    """

    def __init__(
        self,
        folder: Path,
        kind: type[C],
        parts: Sequence[str],
        precision: Precision | None = None,
        threads: int | None = None,
    ) -> None:
        self.folder = folder
        self.config: C = kind.load(folder)
        self.threads = threads or cores()
        self._weights = {part: find_weights(folder, precision, part) for part in parts}
        self._local = threading.local()
        self._checked: set[Path] = set()
        self._checking = threading.Lock()

    def tokenizer(self) -> Any:
        """The model's tokenizer, see `open_tokenizer`."""
        return open_tokenizer(self.folder / "tokenizer.json", self.config.sha256)

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """The function of every item, in order, on all threads."""
        if len(items) <= 1 or self.threads == 1:
            return [function(item) for item in items]
        return list(self._pool.map(function, items))

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads, "models")

    def run_each(self, part: str, rows: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
        """The outputs of a graph for each text, in order, on all threads."""
        return self.each(lambda inputs: self.run(part, inputs), rows)

    def run(self, part: str, inputs: Mapping[str, Any]) -> list[Any]:
        """The outputs of a graph for one text. Inputs that it does not have (not all know token types) are left out.

        Raises:
            ModelError: The weights are damaged, or do not take these inputs.
        """
        weights = self._weights[part]
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
                check(weights, self.config.sha256)
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


@contextmanager
def tokenizing(path: Path | None = None) -> Iterator[None]:
    """Turn the failure of a tokenizer into a ModelError: one that was edited may open, and fail at some text.

    Args:
        path: Its file, if that is known.
    """
    try:
        yield
    except MemoryError:
        raise
    except BaseException as error:
        # The library raises plain Exception, and what Rust calls a panic is not even that.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        told = str(error).split("\n")[0][:200].rstrip(". ") or type(error).__name__
        raise ModelError(f"{path or 'the tokenizer fails'}: {told}. Export the model again.") from error


def open_tokenizer(path: Path, checksums: Mapping[str, str] | None = None) -> Any:
    """A tokenizer without padding or truncation of its own; a ModelError if its SHA-256 is not the one given."""
    check(path, checksums or {})
    # Our threads are the parallelism; tokenizers' own would only add overhead to batches this small.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from tokenizers import Tokenizer

    with tokenizing(path):
        tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
