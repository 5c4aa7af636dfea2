"""Answers to held-out questions by a reader in training, from what a retriever found."""

from collections.abc import Iterator, Sequence
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
        rows = zip(asked, found, self._read(asked, found), strict=True)
        return [self._by_count(question, row, passages) for question, row, passages in rows]

    def likeliest(
        self, asked: Sequence[Question], found: Sequence[Sequence[Context]], retrieval: np.ndarray
    ) -> np.ndarray:
        """Exact match and F1 of the likeliest span of all passages, as after training by `global_marginal`.

        Args:
            asked: The questions.
            found: Of each the passages to read.
            retrieval: Of each the retriever's scores of these.
        """
        values = np.zeros((len(asked), 2))
        rows = zip(asked, found, self._read(asked, found), retrieval, strict=True)
        for number, (question, row, passages, scores) in enumerate(rows):
            text = ""
            best = _likeliest(passages, scores, self._config.max_answer_length)
            if best is not None:
                passage, begin, stop = best
                text = row[passage].text[begin:stop]
            values[number] = judge(text, question.answers, self._match)
        return values

    def _read(self, asked: Sequence[Question], found: Sequence[Sequence[Context]]) -> Iterator[list[list[Scored]]]:
        """What the reader says of each question's passages."""
        pairs = list(zip(asked, found, strict=True))
        for start in range(0, len(pairs), _TOGETHER):
            some = pairs[start : start + _TOGETHER]
            windows: list[list[Window]] = []
            for question, row in some:
                windows += self._windows.of(question.text, [(one.title, one.text) for one in row])
            with in_precision(self._precision, self._device.type):
                read = iter(scored(self._network, windows, self._pad))
            for _, row in some:
                yield list(islice(read, len(row)))

    def _by_count(self, question: Question, row: Sequence[Context], passages: list[list[Scored]]) -> np.ndarray:
        texts = [one.text for one in row]
        scores = [self._judged(question, texts[:k], passages[:k]) for k in range(1, len(row) + 1)]
        return np.array(scores or [(0.0, 0.0)])

    def _judged(self, question: Question, texts: list[str], passages: list[list[Scored]]) -> tuple[float, float]:
        text = ""
        for best in rank(texts, passages, [0.0] * len(texts), self._config)[:1]:
            text = texts[best.passage][best.start : best.end]
        return judge(text, question.answers, self._match)


def _likeliest(
    passages: Sequence[Sequence[Scored]], retrieval: Sequence[float], longest: int
) -> tuple[int, int, int] | None:
    """The passage, first character and end of the span with the highest score of retriever and reader together."""
    best, highest = None, -np.inf
    for number, windows in enumerate(passages):
        for one in windows:
            offsets = one.window.offsets
            if not len(offsets):
                continue
            text = slice(one.window.first, one.window.first + len(offsets))
            sums = one.starts[text, None] + one.ends[None, text]
            is_span = np.triu(np.tri(len(offsets), k=longest - 1, dtype=bool))
            first, last = np.unravel_index(np.where(is_span, sums, -np.inf).argmax(), sums.shape)
            score = retrieval[number] + (one.selection or 0.0) + sums[first, last]
            if score > highest:
                best, highest = (number, int(offsets[first, 0]), int(offsets[last, 1])), score
    return best
