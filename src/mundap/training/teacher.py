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
    """An exported reader that another one learns from. It may have another tokenizer.

    Args:
        folder: Its model folder.
        spans_only: It is asked about passages that have the answer, and only about their spans.

    Raises:
        UsageError: It has no selection head, and is to teach selection.
    """

    def __init__(self, folder: str, spans_only: bool = False) -> None:
        self._reader = Reader.from_pretrained(folder)
        self._spans_only = spans_only
        if self._reader.config.selection != "head" and not spans_only:
            raise UsageError(f"{folder} cannot be a teacher: it does not say how well a passage fits")

    def predict(self, groups: Sequence[Group]) -> list[TeacherOutput | None]:
        """The teacher's output for each window of the groups; None where it is not asked."""
        wanted = [self._wanted(group) for group in groups]
        asked = []
        for group, numbers in zip(groups, wanted, strict=True):
            passages = [group.passages[number] for number in numbers]
            asked.append((group.question.text, [(one.title, one.text) for one in passages]))
        outputs: list[TeacherOutput | None] = []
        for group, numbers, rows in zip(groups, wanted, self._reader.read_batch(asked), strict=True):
            of_group: list[TeacherOutput | None] = [None] * len(group.windows)
            for number, scored in zip(numbers, rows, strict=True):
                window = group.windows[number]
                of_group[number] = _aligned(_nearest(scored, window), window)
            outputs += of_group
        return outputs

    def _wanted(self, group: Group) -> list[int]:
        """The numbers of the windows that it is asked about."""
        if not self._spans_only:
            return list(range(len(group.windows)))
        return [number for number, spans in enumerate(group.spans) if spans]


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
