"""Answers to held-back questions by a reader in training, from what a retriever found."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from mundap.models.folder import ReaderConfig
from mundap.reader.answers import rank
from mundap.reader.checkpoints import open_reader
from mundap.reader.inputs import Window, Windows
from mundap.reader.runtime import Scored
from mundap.records import Context, Question
from mundap.text.answers import Mode
from mundap.text.scores import judge
from mundap.training.processes import Processes
from mundap.training.reader import scored
from mundap.training.step import in_precision

_TOGETHER = 8  # questions read at a time


class Reading:
    """A trained reader, judged as in the papers: by the best span of the passage selected first.

    Args:
        folder: Of the trained reader.
        question_length: Tokens of a question, as in training.
        match: How answers are compared.
        precision: As in training; in bf16 a CPU that has it reads twice as fast.
    """

    def __init__(self, folder: Path, question_length: int, match: Mode, precision: str) -> None:
        loaded = open_reader(folder, attention=None)
        self._device = Processes().device
        self._network = loaded.model.to(self._device).eval()
        self._precision = precision
        self._pad = int(loaded.tokenizer.pad_token_id or 0)
        length = loaded.max_length
        self._config = ReaderConfig("training", max_length=length, question_length=question_length, ranking="selection")
        self._windows = Windows(loaded.tokenizer.backend_tokenizer, self._config)
        self._match = match

    def judged(self, asked: Sequence[Question], found: Sequence[Sequence[Context]]) -> list[np.ndarray]:
        """For each question, exact match and F1 from 0 to 1, by the number of passages read: a row each."""
        pairs = list(zip(asked, found, strict=True))
        values = []
        for start in range(0, len(pairs), _TOGETHER):
            some = pairs[start : start + _TOGETHER]
            windows: list[list[Window]] = []
            for question, row in some:
                windows += self._windows.of(question.text, [(one.title, one.text) for one in row])
            with in_precision(self._precision, self._device.type):
                read = iter(scored(self._network, windows, self._pad))
            for question, row in some:
                values.append(self._by_count(question, row, list(islice(read, len(row)))))
        return values

    def _by_count(self, question: Question, row: Sequence[Context], passages: list[list[Scored]]) -> np.ndarray:
        texts = [one.text for one in row]
        scores = [self._judged(question, texts[:k], passages[:k]) for k in range(1, len(row) + 1)]
        return np.array(scores or [(0.0, 0.0)])

    def _judged(self, question: Question, texts: list[str], passages: list[list[Scored]]) -> tuple[float, float]:
        text = ""
        for best in rank(texts, passages, [0.0] * len(texts), self._config)[:1]:
            text = texts[best.passage][best.start : best.end]
        return judge(text, question.answers, self._match)
