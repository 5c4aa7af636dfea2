"""Question, title and text as a reader sees them: rows of tokens that know where in the text they come from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mundap.models.folder import ReaderConfig

_TITLE = 32  # tokens of a title


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
        tokenizer: Of the `tokenizers` library, with its special tokens in a post-processor.
        config: Layout and lengths.
    """

    def __init__(self, tokenizer: Any, config: ReaderConfig) -> None:
        self._tokenizer = tokenizer
        self._config = config
        single, pair = tokenizer.encode(""), tokenizer.encode("", "")
        self._before, self._after = single.ids[:1], single.ids[-1:]
        self._between = pair.ids[1:-1]
        typed = tokenizer.encode("a", "b")
        self._second = typed.type_ids[-1]

    def of(self, question: str, passages: Sequence[tuple[str, str]]) -> list[list[Window]]:
        """For each (title, text) its windows, at least one."""
        config = self._config
        encode = self._tokenizer.encode_batch
        question = question.replace("\u2019", "'")
        (asked, *_) = encode([question], add_special_tokens=False)
        # At least half of a window is for the text.
        question_room = min(config.question_length, config.max_length // 4)
        title_room = min(_TITLE, config.max_length // 8)
        head = self._before + asked.ids[:question_room]
        texts = encode([text for _, text in passages], add_special_tokens=False)
        titles = encode([title for title, _ in passages], add_special_tokens=False)
        rows = []
        for text, title in zip(texts, titles, strict=True):
            if config.layout == "dpr":
                start = head + self._after + title.ids[:title_room] + self._after
                rows.append(self._windows(start, [], text, 0))
            else:
                rows.append(self._windows(head + self._between, self._after, text, self._second))
        return rows

    def _windows(self, head: list[int], tail: list[int], text: Any, kind: int) -> list[Window]:
        room = self._config.max_length - len(head) - len(tail)
        step = max(1, room - min(self._config.stride, room // 2))
        places = np.array(text.offsets, np.int64).reshape(-1, 2)
        found = []
        for begin in range(0, max(1, len(text.ids)), step):
            part = text.ids[begin : begin + room]
            ids = head + part + tail
            types = [0] * len(head) + [kind] * (len(ids) - len(head))
            found.append(Window(ids, types, len(head), places[begin : begin + room]))
            if begin + room >= len(text.ids):
                break
        return found
