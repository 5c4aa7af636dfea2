"""Why negatives differ: are they what a search would bring up, and does a model learn from them?

For each model, and for each kind of negative of the same training questions, drawn as in training: the share that is
among the hundred the model itself would find, the loss of one such negative beside the positive, and the norm of that
loss's gradient in the bottom, middle and top layers. And the highest scores by rank, and a map of one question with
its passages. ANCE's own negatives are those its last refresh published, which the model has since moved away from.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mundap.records import Context, Example
from mundap.reproduce.ranking import Model
from mundap.reproduce.setting import Setting
from mundap.text.answers import has_answer
from mundap.training.ance.negatives import Generation, Sieve
from mundap.training.examples import ExampleFile
from mundap.training.recipe import DataSet
from mundap.training.towers import padded

KINDS = ("random", "in-batch", "BM25", "ANN")
GROUPS = ("bottom", "middle", "top")
_QUESTIONS = 64
_CURVES = 10
_RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_ON_MAP = 12  # negatives of each kind
_DRAWS = 4  # negatives of each kind and question
_DEPTH, _FOUND = 200, 100  # searched for a refresh, and at test time


@dataclass(slots=True)
class Evidence:
    """What was seen.

    Attributes:
        kinds: By model, by kind of negative: overlap, loss, and a norm for each group of layers.
        curves: By model, by question: (rank, score less the mean of the corpus).
        maps: By model: the kind, x and y of each point.
        asked: The question on the maps.
    """

    kinds: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    curves: dict[str, dict[str, list[tuple[int, float]]]] = field(default_factory=dict)
    maps: dict[str, list[tuple[str, float, float]]] = field(default_factory=dict)
    asked: str = ""

    def numbers(self) -> dict[str, Any]:
        """The figures, without the maps."""
        return {"negatives": self.kinds, "scores_by_rank": self.curves}


def look(setting: Setting, models: Mapping[str, Model], published: Mapping[str, Generation], scratch: Path) -> Evidence:
    """Look at all kinds of negatives with all models.

    Args:
        setting: The data.
        models: By name.
        published: For some of them the generation they were last trained with; the others are taken to refresh now.
        scratch: For files that must be rewritten.
    """
    source = ExampleFile(DataSet(str(setting.examples), match=setting.match), scratch)
    chance = random.Random(0)  # noqa: S311
    rows = chance.sample(range(len(source)), min(_QUESTIONS, len(source)))
    chosen = [source[row] for row in rows]
    texts = [example.question.text for example in chosen]
    found = Evidence(asked=texts[0])
    for name, model in models.items():
        numbers, _ = model.top(texts, _DEPTH)
        lists = numbers.tolist()
        if name in published:
            nearest = [[number for number in published[name].numbers[row].tolist() if number >= 0] for row in rows]
        else:
            sieve = Sieve(model.corpus)
            nearest = [
                [ranked[place] for place in sieve.wrong(one, ranked, setting.match)]
                for ranked, one in zip(lists, chosen, strict=True)
            ]
        kinds = {
            "random": [list(one.negatives) for one in chosen],
            "in-batch": [_others(one, chosen, setting) for one in chosen],
            "BM25": [list(one.hard) for one in chosen],
            "ANN": [[model.corpus.context(number) for number in ranked] for ranked in nearest],
        }
        drawn = {kind: [_drawn(wrong, _DRAWS, row) for row, wrong in enumerate(kinds[kind])] for kind in KINDS}
        found.kinds[name] = {kind: _of_kind(model, chosen, drawn[kind], numbers[:, :_FOUND]) for kind in KINDS}
        found.curves[name] = _curves(model, texts[:_CURVES])
        found.maps[name] = _map(model, chosen[0], {kind: _drawn(kinds[kind][0], _ON_MAP, 0) for kind in KINDS})
    return found


def _drawn(wrong: list[Context], count: int, seed: int) -> list[Context]:
    return random.Random(seed).sample(wrong, min(count, len(wrong)))  # noqa: S311


def _others(one: Example, chosen: list[Example], setting: Setting) -> list[Context]:
    """The positives of other questions, but for those that answer this one too."""
    own = {" ".join(right.text.split()) for right in one.positives}
    others = [other.positives[0] for other in chosen if other is not one]
    return [
        context
        for context in others
        if " ".join(context.text.split()) not in own
        and not has_answer(context.text, one.question.answers, setting.match)
    ]


def _of_kind(model: Model, chosen: list[Example], negatives: list[list[Context]], top: np.ndarray) -> dict[str, float]:
    overlaps, losses, norms = [], [], []
    for row, (example, wrong) in enumerate(zip(chosen, negatives, strict=True)):
        if not wrong:
            continue
        found = {" ".join(model.corpus.context(number).text.split()) for number in top[row].tolist()}
        overlaps.append(sum(" ".join(one.text.split()) in found for one in wrong) / len(wrong))
        for one in wrong:
            loss, norm = _gradient(model, example, one)
            losses.append(loss)
            norms.append(norm)
    sizes = np.mean(norms, 0) if norms else np.zeros(len(GROUPS))
    return {
        "overlap": round(100 * float(np.mean(overlaps or [0.0])), 2),
        "loss": float(f"{np.mean(losses or [0.0]):.4g}"),
        **{f"gradient_{group}": float(f"{size:.4g}") for group, size in zip(GROUPS, sizes, strict=True)},
    }


def _gradient(model: Model, example: Example, wrong: Context) -> tuple[float, list[float]]:
    """The loss of a positive and one negative, and its gradient's norm in three groups of layers."""
    dual, tokens = model.dual, model.tokens
    right = example.positives[0]
    dual.zero_grad()
    device = next(dual.parameters()).device
    asked = dual.question(*padded(tokens.questions([example.question.text]), tokens.pad, device))
    pairs = [(right.title, right.text), (wrong.title, wrong.text)]
    passages = dual.passage(*padded(tokens.passages(pairs), tokens.pad, device))
    loss = torch.nn.functional.cross_entropy(
        dual.scores(asked, passages), torch.zeros(1, dtype=torch.long, device=device)
    )
    loss.backward()
    layers: Any = dual.passage.network.encoder.layer
    last = len(layers) - 1
    norms = []
    for place in (0, last // 2, last):
        slopes = [parameter.grad.norm() for parameter in layers[place].parameters() if parameter.grad is not None]
        norms.append(float(torch.stack(slopes).norm()))
    dual.zero_grad()
    return float(loss.detach()), norms


def _curves(model: Model, texts: list[str]) -> dict[str, list[tuple[int, float]]]:
    with torch.no_grad():
        scores = (model.questions(texts) @ model.vectors.T).cpu().numpy()
    curves = {}
    for text, row in zip(texts, scores, strict=True):
        ordered = np.sort(row)[::-1] - row.mean()
        curves[text] = [(rank, round(float(ordered[rank - 1]), 4)) for rank in _RANKS if rank <= len(ordered)]
    return curves


def _map(model: Model, example: Example, kinds: Mapping[str, list[Context]]) -> list[tuple[str, float, float]]:
    from sklearn.manifold import TSNE

    labels = ["question"] + ["positive"] * len(example.positives)
    contexts = list(example.positives)
    for kind, wrong in kinds.items():
        labels += [kind] * len(wrong)
        contexts += wrong
    rows = torch.cat([model.questions([example.question.text]), model.passages(contexts)]).cpu().numpy()
    if len(rows) < 5:
        return []
    places = TSNE(perplexity=min(10.0, (len(rows) - 1) / 3), init="pca", random_state=0).fit_transform(rows)
    return [(label, round(float(x), 3), round(float(y), 3)) for label, (x, y) in zip(labels, places, strict=True)]
