"""Questions and passages into vectors."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from mundap.models import folder as folders
from mundap.models.session import Workers, open_tokenizer

_CHUNK = 8  # texts handed to a thread at a time


class Encoder:
    """A model folder, ready to encode.

    Args:
        folder: Where the model is.
        precision: `int8` or `fp32`; by default what the folder has, int8 first.
        threads: How many texts are encoded at the same time.
    """

    def __init__(self, folder: Path, precision: folders.Precision | None = None, threads: int | None = None) -> None:
        self.folder = folder
        self.config = folders.EncoderConfig.load(folder)
        self._weights = {part: folders.weights(folder, precision, part) for part in ("encoder", "question")}
        self._workers = Workers(threads, self.config.sha256)

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

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """How many tokens of each text are read; what is beyond the longest text is not."""
        return [len(tokens.ids) for tokens in self._tokenizer.encode_batch(list(texts))]

    def _encode(self, texts: Sequence[str | tuple[str, str]], part: str) -> np.ndarray:
        result = np.empty((len(texts), self.config.dimension), np.float32)

        def fill(start: int) -> None:
            some = texts[start : start + _CHUNK]
            for row, tokens in enumerate(self._tokenizer.encode_batch(some), start):
                ids = np.array([tokens.ids], np.int64)
                result[row] = self._workers.run(self._weights[part], {"input_ids": ids})[0][0]

        self._workers.each(fill, range(0, len(texts), _CHUNK))
        return result

    @cached_property
    def _tokenizer(self) -> Any:
        tokenizer = open_tokenizer(self.folder / "tokenizer.json", self.config.sha256)
        tokenizer.enable_truncation(self.config.max_length, strategy="longest_first")
        return tokenizer
