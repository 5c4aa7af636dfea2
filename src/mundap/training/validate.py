"""Validation of a dual encoder: the same figures for any number of processes.

All passages of a dev set, positives and hard negatives, are the corpus; every question is ranked against all of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mundap.encoder import network
from mundap.encoder.network import DualEncoder, Tower
from mundap.records import Context, Example
from mundap.text.answers import has_answer
from mundap.training.examples import ExampleFile
from mundap.training.learner import DevFigures, with_means
from mundap.training.processes import Processes
from mundap.training.tokens import Tokens

CUTS = (1, 5, 20)
_HARD = 10  # negatives of each question in the corpus
_BATCH = 64


@dataclass(frozen=True, slots=True)
class _DevSet:
    """Questions, and a corpus with their passages in it.

    Attributes:
        label: Its name in logs.
        questions: Texts.
        passages: (title, text), each once.
        right: For each question the numbers of passages that answer it; the first is the positive.
    """

    label: str
    questions: list[str]
    passages: list[tuple[str, str]]
    right: list[list[int]]


def dev_set(examples: ExampleFile, limit: int) -> _DevSet:
    """A dev set out of the first examples of a file."""
    numbers: dict[tuple[str, str], int] = {}

    def number(context: Context) -> int:
        return numbers.setdefault((context.title, context.text), len(numbers))

    chosen: list[Example] = [examples[n] for n in range(min(limit, len(examples)))]
    positives = [list(dict.fromkeys(map(number, one.positives))) for one in chosen]
    for one in chosen:
        for context in (*one.hard[:_HARD], *one.negatives[:_HARD]):
            number(context)
    passages = list(numbers)
    # Ranking another passage with the answer first is not an error. Only the question's own negatives are checked.
    right = []
    for one, own in zip(chosen, positives, strict=True):
        near = {number(context) for context in (*one.hard[:_HARD], *one.negatives[:_HARD])} - set(own)
        right.append(own + [n for n in near if has_answer(passages[n][1], one.question.answers, examples.match)])
    return _DevSet(examples.label, [one.question.text for one in chosen], passages, right)


def validate(model: DualEncoder, sets: Sequence[_DevSet], tokens: Tokens, processes: Processes) -> DevFigures:
    """For each set, and over all (`all`): nll, mean rank of the positive, and top-k accuracy in percent."""
    model.eval()
    try:
        found = {one.label: _figures(model, one, tokens, processes) for one in sets}
    finally:
        model.train()
    return with_means(found)


def _figures(model: DualEncoder, one: _DevSet, tokens: Tokens, processes: Processes) -> dict[str, float]:
    questions = encode(model.question, tokens.questions(one.questions), tokens.pad, processes)
    texts, numbers = [], []
    for number, (title, text) in enumerate(one.passages):
        for chunk in tokens.chunks(text):
            texts.append((title, chunk))
            numbers.append(number)
    passages = encode(model.passage, tokens.passages(texts), tokens.pad, processes)
    owners = torch.tensor(numbers, device=passages.device)
    ranks, likelihoods = [], []
    for start in range(0, len(questions), _BATCH):
        scores = model.scores(questions[start : start + _BATCH], passages, owners)
        best = []
        for row, right in enumerate(one.right[start : start + _BATCH]):
            best.append(right[0])
            scores[row, right[1:]] = -torch.inf
        goal = scores[torch.arange(len(scores), device=scores.device), torch.tensor(best, device=scores.device)]
        ranks += (1 + (scores > goal.unsqueeze(1)).sum(1)).tolist()
        likelihoods += (torch.logsumexp(scores.float(), 1) - goal.float()).tolist()
    place = np.array(ranks)
    return {
        "nll": float(np.mean(likelihoods)),
        "rank": float(place.mean()),
        **{f"top{k}": 100 * float((place <= k).mean()) for k in CUTS},
    }


def encode(tower: Tower, texts: list[list[int]], pad: int, processes: Processes) -> Any:
    """Vectors of texts: each process encodes a part, and all get the whole."""
    share = -(-len(texts) // processes.world)
    own = texts[processes.rank * share : (processes.rank + 1) * share]
    return processes.gather(network.encode(tower, own, pad))
