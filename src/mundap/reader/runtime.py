"""The reader at run time: question and passages into scores for every token and every passage."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from mundap.models import folder as folders
from mundap.models.session import ModelSession
from mundap.reader.inputs import Window, Windows
from mundap.text.scripts import is_foreign


@dataclass(frozen=True, slots=True)
class Scored:
    """A window with its logits.

    Attributes:
        window: The tokens.
        starts: One a token: does the answer start there?
        ends: One a token: does it end there?
        selection: One for the window: does the passage answer the question? None if the network has no such head.
    """

    window: Window
    starts: np.ndarray
    ends: np.ndarray
    selection: float | None


class Reader:
    """A reader's folder, ready to read.

    Args:
        folder: Where the model is, or the name of an installed one.
        precision: `int8` or `fp32`; by default what the folder has, int8 first.
        threads: How many passages are read at the same time.
        ranking: How spans of different passages are compared; by default as the config says.
        retrieval_weight: How much the retrieval score counts in that; by default as the config says.

    Example:
        >>> reader = Reader.from_pretrained()
        >>> [windows] = reader.read("Who wrote it?", [("Middlemarch", "George Eliot wrote it.")])
        >>> windows[0].selection > 0
        True
    """

    def __init__(
        self,
        folder: str | Path,
        precision: folders.Precision | None = None,
        threads: int | None = None,
        ranking: folders.RankingRule | None = None,
        retrieval_weight: float | None = None,
    ) -> None:
        self._session = ModelSession(folder, folders.ReaderConfig, ("reader",), precision, threads)
        self.folder = self._session.folder
        self.config = self._session.config
        if ranking is not None:
            self.config = replace(self.config, ranking=ranking)
        if retrieval_weight is not None:
            self.config = replace(self.config, retrieval_weight=retrieval_weight)

    @classmethod
    def from_pretrained(cls, name: str | Path = folders.READER, **options: Any) -> Self:
        """Open the shipped reader, or a model folder by path."""
        return cls(name, **options)

    def knows_script(self, text: str) -> bool:
        """Whether the reader was trained on the script that most of a text is in."""
        return not is_foreign(text, self.config.scripts)

    def read(self, question: str, passages: Sequence[tuple[str, str]]) -> list[list[Scored]]:
        """For each (title, text) its windows with their scores, which do not depend on the other passages."""
        return self.read_batch([(question, passages)])[0]

    def read_batch(self, asked: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> list[list[list[Scored]]]:
        """The same for several questions with their passages, so that all cores are busy where each has only one."""
        every: list[Window] = []
        read: list[list[list[Scored]]] = []
        homes: list[list[Scored]] = []  # where the scores of each window go
        for question, passages in asked:
            row: list[list[Scored]] = []
            for windows in self._windows.of(question, passages):
                scored: list[Scored] = []
                every += windows
                homes += [scored] * len(windows)
                row.append(scored)
            read.append(row)
        outputs = self._session.run_each("reader", [_arrays(window) for window in every])
        for home, window, logits in zip(homes, every, outputs, strict=True):
            home.append(_scored(window, *logits))
        return read

    @cached_property
    def _windows(self) -> Windows:
        return Windows(self._session.tokenizer(), self.config)


def _arrays(window: Window) -> dict[str, np.ndarray]:
    return {
        "input_ids": np.array([window.ids], np.int64),
        "token_type_ids": np.array([window.types], np.int64),
    }


def _scored(window: Window, starts: np.ndarray, ends: np.ndarray, selection: np.ndarray | None = None) -> Scored:
    if selection is None:
        return Scored(window, starts[0], ends[0], None)
    return Scored(window, starts[0], ends[0], float(selection[0]))
