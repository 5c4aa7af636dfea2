"""Distillation: the output of a larger reader, aligned with the learner's own tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mundap.errors import UsageError
from mundap.reader.inputs import Window
from mundap.reader.runtime import Reader, Scored
from mundap.training.reader_data import Group


@dataclass(frozen=True, slots=True)
class TeacherOutput:
    """The teacher's output for a window.

    Attributes:
        starts: For each token the probability that the answer starts there; the first token stands for "no answer".
            Tokens of question and title have none.
        ends: The same for the answer's end.
        selection: The selection logit of the passage.
    """

    starts: np.ndarray
    ends: np.ndarray
    selection: float


class Teacher:
    """An exported reader that a smaller one learns from. It may have another tokenizer.

    Raises:
        UsageError: It has no selection head.
    """

    def __init__(self, folder: str) -> None:
        self._reader = Reader.from_pretrained(folder)
        if self._reader.config.selection != "head":
            raise UsageError(f"{folder} cannot be a teacher: it does not say how well a passage fits")

    def predict(self, groups: Sequence[Group]) -> list[TeacherOutput]:
        """The teacher's output for each window of the groups."""
        asked = []
        for group in groups:
            asked.append((group.question.text, [(one.title, one.text) for one in group.passages]))
        outputs = []
        for group, rows in zip(groups, self._reader.read_batch(asked), strict=True):
            for scored, window in zip(rows, group.windows, strict=True):
                outputs.append(_aligned(_nearest(scored, window), window))
        return outputs


def _nearest(scored: Sequence[Scored], window: Window) -> Scored:
    """The teacher's window of a passage that overlaps most with the learner's."""

    def shared(one: Scored) -> int:
        theirs, own = one.window.offsets, window.offsets
        if not len(theirs) or not len(own):
            return 0
        return int(min(theirs[-1, 1], own[-1, 1]) - max(theirs[0, 0], own[0, 0]))

    return max(scored, key=shared)


def _aligned(scored: Scored, window: Window) -> TeacherOutput:
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
    return TeacherOutput(found[0], found[1], scored.selection or 0.0)
