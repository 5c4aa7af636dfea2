"""Questions and passages into vectors.

One text a run, without padding, one single-threaded session a core. On a CPU this is faster than batching,
and int8 makes it a matter of correctness too: its activation scales are shared within a batch, so a vector
would depend on what it was batched with.
"""

import os
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from mundap.errors import ModelError
from mundap.models import folder as folders

_CHUNK = 8  # texts handed to a thread at a time


def cores() -> int:
    """How many threads to use: the cores this process may run on, or MUNDAP_THREADS."""
    wanted = os.environ.get("MUNDAP_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Encoder:
    """A model folder, ready to encode. Weights are loaded when the first text comes.

    Args:
        folder: Where the model is.
        precision: `int8` or `fp32`; by default what the folder has, int8 first.
        threads: How many texts are encoded at the same time.
    """

    def __init__(self, folder: Path, precision: folders.Precision | None = None, threads: int | None = None) -> None:
        self.folder = folder
        self.config = folders.EncoderConfig.load(folder)
        self.threads = threads or cores()
        self._weights = {part: folders.weights(folder, precision, part) for part in ("encoder", "question")}
        self._local = threading.local()

    @classmethod
    def from_pretrained(cls, name: str | Path = folders.DEFAULT, **options: Any) -> Self:
        """Open a shipped model by name, or a model folder by path."""
        return cls(folders.find(name), **options)

    def encode_questions(self, questions: Sequence[str]) -> np.ndarray:
        """One float32 row a question."""
        prompt = self.config.question_prompt
        return self._encode([prompt + question.replace("\u2019", "'") for question in questions], "question")

    def encode_passages(self, passages: Iterable[tuple[str, str]]) -> np.ndarray:
        """One float32 row a (title, text) pair."""
        prompt = self.config.passage_prompt
        texts: list[str | tuple[str, str]] = []
        for title, text in passages:
            if title and self.config.title == "pair":
                texts.append((prompt + title, text))
            else:
                texts.append(prompt + (f"{title}. {text}" if title else text))
        return self._encode(texts, "encoder")

    def _encode(self, texts: Sequence[str | tuple[str, str]], part: str) -> np.ndarray:
        result = np.empty((len(texts), self.config.dimension), np.float32)

        def fill(start: int) -> None:
            some = texts[start : start + _CHUNK]
            for row, tokens in enumerate(self._tokenizer.encode_batch(some), start):
                result[row] = self._run(np.array([tokens.ids], np.int64), self._weights[part])

        starts = range(0, len(texts), _CHUNK)
        if len(starts) == 1 or self.threads == 1:
            for start in starts:
                fill(start)
        else:
            for _ in self._pool.map(fill, starts):
                pass
        return result

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads, "encoder")

    @cached_property
    def _tokenizer(self) -> Any:
        # Our threads are the parallelism; tokenizers' own would only add overhead to batches this small.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        from tokenizers import Tokenizer

        path = self.folder / "tokenizer.json"
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise ModelError(f"{path}: {error}. Export the model again.") from error
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.config.max_length, strategy="longest_first")
        return tokenizer

    def _run(self, ids: np.ndarray, weights: Path) -> np.ndarray:
        try:
            return np.asarray(self._session(weights).run(None, {"input_ids": ids})[0][0])
        except ModelError:
            raise
        except Exception as error:  # onnxruntime's classes are not public
            raise ModelError(f"{weights} fails ({error}). Export the model again.") from error

    def _session(self, weights: Path) -> Any:
        sessions = self._local.__dict__.setdefault("sessions", {})
        if weights not in sessions:
            sessions[weights] = _open_session(weights)
        return sessions[weights]


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
