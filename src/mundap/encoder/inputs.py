"""Questions and passages as the encoder's token ids: prompts, title, lengths.

This is the only place where a text becomes tokens for the encoder. Run time, training and the check of an export all
use it, so a model is trained on exactly what it is given later.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from mundap.models.tokenizer import encode_batch, truncating
from mundap.text.questions import normalize_questions

_AT_ONCE = 512  # texts given to the tokenizer; an encoding holds much besides its ids


@dataclass(frozen=True, slots=True)
class TextFormat:
    """How an encoder wants its texts.

    Attributes:
        question_prompt: Put before every question.
        passage_prompt: Put before every passage.
        title: `pair` encodes title and text as two segments, `prefix` puts the title before the text.
    """

    question_prompt: str = ""
    passage_prompt: str = ""
    title: str = "pair"


class EncoderInputs:
    """Turns questions and passages into token ids.

    Args:
        for_questions: A tokenizer of the `tokenizers` library that truncates, the last token staying the separator.
        for_passages: The same, or another: a tokenizer has one length at a time, and two need no lock between threads.
        text_format: Prompts, and how title and text are joined.
        pad: The id of the padding token, for those who make batches.
    """

    def __init__(self, for_questions: Any, for_passages: Any, text_format: TextFormat, pad: int = 0) -> None:
        self._for_questions = for_questions
        self._for_passages = for_passages
        self._format = text_format
        self.pad = pad

    @classmethod
    def from_checkpoints(cls, question: Any, passage: Any, question_length: int, passage_length: int) -> Self:
        """The inputs of two opened checkpoints, or of one that serves both. Their tokenizer stays as it is."""
        settings = passage.settings
        text_format = TextFormat(question.settings.question_prompt, settings.passage_prompt, settings.title)
        tokenizer = passage.tokenizer.backend_tokenizer
        pad = int(passage.tokenizer.pad_token_id or 0)
        for_questions = truncating(_copied(tokenizer), question_length)
        for_passages = truncating(_copied(tokenizer), passage_length)
        return cls(for_questions, for_passages, text_format, pad)

    @cached_property
    def fingerprint(self) -> str:
        """A checksum that changes with anything that changes the ids of a text."""
        lengths = tuple(one.truncation["max_length"] for one in (self._for_questions, self._for_passages))
        whole = f"{self._for_passages.to_str()} {self._format} {lengths}"
        return hashlib.sha256(whole.encode()).hexdigest()

    def questions(self, questions: Sequence[str]) -> list[list[int]]:
        """The token ids of each question."""
        prompt = self._format.question_prompt
        return _encode(self._for_questions, [prompt + question for question in normalize_questions(questions)])

    def passages(self, passages: Sequence[tuple[str, str]]) -> list[list[int]]:
        """The token ids of each (title, text)."""
        return _encode(self._for_passages, [self._joined(title, text) for title, text in passages])

    def _joined(self, title: str, text: str) -> str | tuple[str, str]:
        prompt = self._format.passage_prompt
        if not title:
            return prompt + text
        if self._format.title == "pair":
            return prompt + title, text
        return f"{prompt}{title}. {text}"


def _copied(tokenizer: Any) -> Any:
    return type(tokenizer).from_str(tokenizer.to_str())


def _encode(tokenizer: Any, texts: Sequence[str | tuple[str, str]]) -> list[list[int]]:
    ids: list[list[int]] = []
    for start in range(0, len(texts), _AT_ONCE):
        ids += [encoding.ids for encoding in encode_batch(tokenizer, texts[start : start + _AT_ONCE])]
    return ids
