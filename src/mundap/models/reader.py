"""The reader at run time: question and passages into scores for every token and every passage."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np

from mundap.models import folder as folders
from mundap.models.session import Workers, open_tokenizer
from mundap.models.windows import Window, Windows


@dataclass(frozen=True, slots=True)
class Scored:
    """A window and what the network says of it, in logits.

    Attributes:
        window: The tokens.
        starts: How well an answer starts at each token.
        ends: How well it ends there.
        selection: How well the passage fits; None where the network has no opinion of its own.
    """

    window: Window
    starts: np.ndarray
    ends: np.ndarray
    selection: float | None


class Reader:
    """A reader's folder, ready to read.

    Args:
        folder: Where the model is.
        precision: `int8` or `fp32`; by default what the folder has, int8 first.
        threads: How many passages are read at the same time.
    """

    def __init__(self, folder: Path, precision: folders.Precision | None = None, threads: int | None = None) -> None:
        self.folder = folder
        self.config = folders.ReaderConfig.load(folder)
        self._weights = folders.weights(folder, precision, "reader")
        self._workers = Workers(threads, self.config.sha256)

    @classmethod
    def from_pretrained(cls, name: str | Path = folders.READER, **options: Any) -> Self:
        """Open the shipped reader, or a model folder by path."""
        return cls(folders.find(name), **options)

    def rank_by(self, ranking: str | None = None, retrieval_weight: float | None = None) -> None:
        """Compare spans of different passages in another way than the reader's own; None changes nothing."""
        given = {"ranking": ranking, "retrieval_weight": retrieval_weight}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        self.config = replace(self.config, **changes)

    def read(self, question: str, passages: Sequence[tuple[str, str]]) -> list[list[Scored]]:
        """For each (title, text) its windows with their scores. What else is read does not change them."""
        return self.read_batch([(question, passages)])[0]

    def read_batch(self, asked: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> list[list[list[Scored]]]:
        """The same for several questions with their passages, so that all cores are busy where each has only one."""
        rows = [self._windows.of(question, passages) for question, passages in asked]
        flat = iter(self._workers.each(self._score, [one for row in rows for windows in row for one in windows]))
        return [[list(islice(flat, len(windows))) for windows in row] for row in rows]

    def _score(self, window: Window) -> Scored:
        inputs = {"input_ids": np.array([window.ids], np.int64)}
        if self.config.layout == "pair":
            inputs["token_type_ids"] = np.array([window.types], np.int64)
        starts, ends, *selection = self._workers.run(self._weights, inputs)
        return Scored(window, starts[0], ends[0], float(selection[0][0]) if selection else None)

    @cached_property
    def _windows(self) -> Windows:
        return Windows(open_tokenizer(self.folder / "tokenizer.json", self.config.sha256), self.config)
