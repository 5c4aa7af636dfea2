"""The encoder at run time: questions and passages into vectors."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from mundap.encoder.inputs import EncoderInputs, TextFormat
from mundap.encoder.similarity import Side, as_inner_product
from mundap.errors import ModelError
from mundap.models import folder as folders
from mundap.models.session import Workers, open_tokenizer

_CHUNK = 8  # texts handed to a thread at a time


class Encoder:
    """A model folder, ready to encode.

    Args:
        folder: Where the model is.
        precision: `int8` or `fp32`; by default what the folder has, int8 first.
        threads: How many texts are encoded at the same time.

    Example:
        >>> encoder = Encoder.from_pretrained()
        >>> encoder.encode_questions(["Who wrote Middlemarch?"]).shape
        (1, 384)
    """

    def __init__(self, folder: Path, precision: folders.Precision | None = None, threads: int | None = None) -> None:
        self.folder = folder
        self.config = folders.EncoderConfig.load(folder)
        self._weights = {
            "question": folders.weights(folder, precision, "question"),
            "passage": folders.weights(folder, precision, "encoder"),
        }
        self._workers = Workers(threads, self.config.sha256)

    @classmethod
    def from_pretrained(cls, name: str | Path = folders.DEFAULT, **options: Any) -> Self:
        """Open a shipped model by name, or a model folder by path."""
        return cls(folders.find(name), **options)

    @cached_property
    def inputs(self) -> EncoderInputs:
        """How texts become token ids."""
        tokenizer = open_tokenizer(self.folder / "tokenizer.json", self.config.sha256)
        config = self.config
        text_format = TextFormat(config.question_prompt, config.passage_prompt, config.title)
        return EncoderInputs(tokenizer, text_format, config.max_length, config.max_length)

    def encode_questions(self, questions: Sequence[str]) -> np.ndarray:
        """One float32 row a question."""
        return np.asarray(self._encode(questions, self.inputs.questions, "question"))

    def encode_passages(self, passages: Iterable[tuple[str, str]]) -> np.ndarray:
        """One float32 row a (title, text) pair."""
        return np.asarray(self._encode(list(passages), self.inputs.passages, "passage"))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """How many tokens of each text are read; what is beyond the longest text is not."""
        return [len(ids) for ids in self.inputs.passages([("", text) for text in texts])]

    def _encode(self, texts: Sequence[Any], tokenize: Callable[[Sequence[Any]], list[list[int]]], side: Side) -> Any:
        vectors = np.empty((len(texts), self.config.network_dimension), np.float32)

        def encode_chunk(start: int) -> None:
            for row, ids in enumerate(tokenize(texts[start : start + _CHUNK]), start):
                vector = self._workers.run(self._weights[side], {"input_ids": np.array([ids], np.int64)})[0][0]
                if vector.shape != vectors.shape[1:]:
                    raise ModelError(
                        f"{self._weights[side]} gives vectors of shape {vector.shape}, and config.json says "
                        f"{self.config.network_dimension}. Export the model again."
                    )
                vectors[row] = vector

        self._workers.each(encode_chunk, range(0, len(texts), _CHUNK))
        return as_inner_product(vectors, self.config.similarity, side)
