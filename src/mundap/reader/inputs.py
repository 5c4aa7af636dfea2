"""Question, title and text as the reader's tokens, which know where in the text they come from.

This is the only place where a question and a passage become tokens for the reader: at run time, in training, and when
an export is checked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mundap.models.folder import ReaderConfig
from mundap.models.tokenizer import encode_batch
from mundap.text.questions import normalize_questions

_MAX_TITLE = 32  # tokens


@dataclass(frozen=True, slots=True)
class Window:
    """A row for the network: question, title, and the text or a part of it.

    Attributes:
        ids: Tokens.
        types: Segment of each token.
        first: The first token of the text; `offsets[0]` is its place.
        offsets: For each token of the text its first character and the one behind its last.
    """

    ids: list[int]
    types: list[int]
    first: int
    offsets: np.ndarray

    def position(self, token: int) -> int:
        """The place of a token in `offsets`."""
        return token - self.first


class Windows:
    """Makes windows. A passage that does not fit into one gets several, which overlap.

    Args:
        tokenizer: Of the `tokenizers` library, with its special tokens in a post-processor. Its own truncation and
            padding are switched off.
        config: Layout and lengths.
    """

    def __init__(self, tokenizer: Any, config: ReaderConfig) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._config = config
        single, empty, pair = encode_batch(tokenizer, ["", ("", ""), ("a", "b")])
        self._cls, self._sep = single.ids[:1], single.ids[-1:]
        self._between = empty.ids[1:-1]
        self._text_type = pair.type_ids[-1]

    def of(self, question: str, passages: Sequence[tuple[str, str]]) -> list[list[Window]]:
        """For each (title, text) its windows, at least one."""
        texts = [text for _, text in passages]
        titles = []
        if self._config.layout == "dpr":
            titles = [title for title, _ in passages]
        asked, *encoded = encode_batch(self._tokenizer, [*normalize_questions([question]), *texts, *titles], False)
        # At least half of a window is for the text.
        length = min(self._config.question_length, self._config.max_length // 4)
        head = self._cls + asked.ids[:length]
        if self._config.layout == "pair":
            before = head + self._between
            return [self._windows(before, self._sep, text, self._text_type) for text in encoded[: len(texts)]]
        title_length = min(_MAX_TITLE, self._config.max_length // 8)
        rows = []
        for text, title in zip(encoded[: len(texts)], encoded[len(texts) :], strict=True):
            before = head + self._sep + title.ids[:title_length] + self._sep
            rows.append(self._windows(before, [], text, 0))
        return rows

    def _windows(self, head: list[int], tail: list[int], text: Any, text_type: int) -> list[Window]:
        """The windows of a text between tokens that are the same in all of them."""
        room = self._config.max_length - len(head) - len(tail)
        step = max(1, room - min(self._config.stride, room // 2))
        offsets = np.array(text.offsets, np.int64).reshape(-1, 2)
        windows = []
        for start in range(0, max(1, len(text.ids)), step):
            ids = head + text.ids[start : start + room] + tail
            types = [0] * len(head) + [text_type] * (len(ids) - len(head))
            windows.append(Window(ids, types, len(head), offsets[start : start + room]))
            if start + room >= len(text.ids):
                break
        return windows
