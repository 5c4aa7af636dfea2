"""The encoder at run time: questions and passages into vectors."""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from mundap.encoder.inputs import EncoderInputs, TextFormat
from mundap.encoder.similarity import Side, as_inner_product, network_dimension
from mundap.errors import ModelError
from mundap.models import folder as folders
from mundap.models.session import ModelSession

_GRAPHS: dict[Side, str] = {"question": "question", "passage": "encoder"}


class Encoder:
    """A model folder, ready to encode.

    Args:
        folder: Where the model is, or the name of an installed one.
        precision: `int8` or `fp32`; by default what the folder has, int8 first.
        threads: How many texts are encoded at the same time.

    Example:
        >>> encoder = Encoder.from_pretrained()
        >>> encoder.encode_questions(["Who wrote Middlemarch?"]).shape
        (1, 384)
    """

    def __init__(
        self, folder: str | Path, precision: folders.Precision | None = None, threads: int | None = None
    ) -> None:
        self._session = ModelSession(folder, folders.EncoderConfig, tuple(_GRAPHS.values()), precision, threads)
        self.folder = self._session.folder
        self.config = self._session.config

    @classmethod
    def from_pretrained(cls, name: str | Path = folders.DEFAULT, **options: Any) -> Self:
        """Open a shipped model by name, or a model folder by path."""
        return cls(name, **options)

    @cached_property
    def inputs(self) -> EncoderInputs:
        """How texts become token ids."""
        config = self.config
        text_format = TextFormat(config.question_prompt, config.passage_prompt, config.title)
        tokenizer = self._session.tokenizer(config.max_length)
        return EncoderInputs(tokenizer, tokenizer, text_format)

    def encode_questions(self, questions: Sequence[str]) -> np.ndarray:
        """One float32 row per question."""
        return np.asarray(self._encode(questions, self.inputs.questions, "question"))

    def encode_passages(self, passages: Iterable[tuple[str, str]]) -> np.ndarray:
        """One float32 row per (title, text) pair."""
        return np.asarray(self._encode(list(passages), self.inputs.passages, "passage"))

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """How many tokens of each text are read; what is beyond the longest text is not."""
        return [len(ids) for ids in self.inputs.passages([("", text) for text in texts])]

    def _encode(self, texts: Sequence[Any], tokenize: Callable[[Sequence[Any]], list[list[int]]], side: Side) -> Any:
        dimension = network_dimension(self.config.dimension, self.config.similarity)
        vectors = np.empty((len(texts), dimension), np.float32)

        def inputs(some: Sequence[Any]) -> list[dict[str, np.ndarray]]:
            return [{"input_ids": np.array([ids], np.int64)} for ids in tokenize(some)]

        for row, outputs in enumerate(self._session.run_texts(_GRAPHS[side], texts, inputs)):
            vector = outputs[0][0]
            if vector.shape != vectors.shape[1:]:
                raise ModelError(
                    f"{self.folder}: the network gives vectors of shape {vector.shape}, and config.json says "
                    f"{vectors.shape[1:]}. Export the model again."
                )
            vectors[row] = vector
        return as_inner_product(vectors, self.config.similarity, side)
