"""Distillation: what a larger reader thinks of every passage, in terms of the learner's own tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mundap.errors import UsageError
from mundap.models.reader import Reader, Scored
from mundap.models.windows import Window
from mundap.training.reader_data import Group


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the teacher says of a window.

    Attributes:
        starts: For each token its share of being the first of the answer: of the text's tokens, and of the first of
            all, which stands for no answer. What is inside of question and title does not count.
        ends: The same for the last.
        selection: How well the passage fits, as a logit.
    """

    starts: np.ndarray
    ends: np.ndarray
    selection: float


class Teacher:
    """A reader's model folder (`mundap models export`) that is asked in training. Its tokens may be other ones.

    Raises:
        UsageError: It has no opinion of passages.
    """

    def __init__(self, folder: str) -> None:
        self._reader = Reader.from_pretrained(folder)
        if self._reader.config.selection != "head":
            raise UsageError(f"{folder} cannot be a teacher: it does not say how well a passage fits")

    def opinions(self, groups: Sequence[Group]) -> list[Opinion]:
        """One for each window of the groups."""
        asked = [(group.question.text, [(one.title, one.text) for one in group.passages]) for group in groups]
        return [
            _translated(_nearest(scored, window), window)
            for group, rows in zip(groups, self._reader.read_batch(asked), strict=True)
            for scored, window in zip(rows, group.windows, strict=True)
        ]


def _nearest(scored: Sequence[Scored], window: Window) -> Scored:
    """The one of the teacher's windows of a passage that shares most with the learner's."""

    def shared(one: Scored) -> int:
        theirs, own = one.window.offsets, window.offsets
        return int(min(theirs[-1, 1], own[-1, 1]) - max(theirs[0, 0], own[0, 0])) if len(theirs) and len(own) else 0

    return max(scored, key=shared)


def _translated(scored: Scored, window: Window) -> Opinion:
    own, theirs = window.offsets, scored.window.offsets
    first = scored.window.first
    # A start is moved to the token that it is in, and so is an end.
    places = (np.searchsorted(own[:, 0], theirs[:, 0], "right") - 1, np.searchsorted(own[:, 1], theirs[:, 1], "left"))
    found = []
    for logits, tokens in zip((scored.starts, scored.ends), places, strict=True):
        counted = np.concatenate([logits[:1], logits[first : first + len(theirs)]])
        shares = np.exp(counted - counted.max())
        shares = (shares / shares.sum())[1:]
        inside = (tokens >= 0) & (tokens < len(own))
        moved = np.zeros(len(window.ids))
        np.add.at(moved, window.first + tokens[inside], shares[inside])
        moved[0] = 1 - moved.sum()  # none, and what is not in the learner's window
        found.append(moved)
    return Opinion(found[0], found[1], scored.selection or 0.0)
