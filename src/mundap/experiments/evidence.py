"""Why negatives differ: would a search retrieve them, and does a model learn from them?

For each model, and for each kind of negative of the same training questions, drawn as in training: the share that is
among the hundred the model itself would find, the loss of one such negative beside the positive, and the norm of that
loss's gradient in the bottom, middle and top layers. And the highest scores by rank, and a map of one question with
its passages. ANCE's own negatives are those its last refresh published, which the model has since moved away from.
"""

import json
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from mundap.disk import json_bytes, write_atomic
from mundap.encoder.network import padded
from mundap.experiments.lab import Lab
from mundap.experiments.ranking import Model
from mundap.mining.rule import Candidate, NegativeRule
from mundap.records import Context, Example
from mundap.text.answers import Mode
from mundap.training.ance.negatives import Generation, NegativeFilter
from mundap.training.examples import ExampleFile
from mundap.training.gradients import LAYER_GROUPS

KINDS = ("random", "in-batch", "BM25", "ANN")
_QUESTIONS = 64
_CURVES = 10
_RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_ON_MAP = 12  # negatives of each kind
_DRAWS = 4  # negatives of each kind and question
_DEPTH, _FOUND = 200, 100  # searched for a refresh, and at test time


@dataclass(slots=True)
class NegativesEvidence:
    """How models see kinds of negatives.

    Attributes:
        kinds: By model, by kind of negative: overlap, loss, and a norm for each group of layers.
        curves: By model, by question: (rank, score less the mean of the corpus).
        maps: By model: the kind, x and y of each point.
        question: The question on the maps.
    """

    kinds: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    curves: dict[str, dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    maps: dict[str, list[tuple[str, float, float]]] = field(default_factory=dict)
    question: str = ""

    def numbers(self) -> dict[str, Any]:
        """The figures, without the maps."""
        return {"negatives": self.kinds, "scores_by_rank": self.curves}

    def save(self, path: Path) -> None:
        """Write it to a file: the models it was made with are not kept."""
        write_atomic(path, json_bytes(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read it from a file."""
        found = cls(**json.loads(path.read_text("utf-8")))
        for name, points in found.maps.items():
            found.maps[name] = [(label, x, y) for label, x, y in points]
        return found


def compare_negatives(lab: Lab, models: Mapping[str, Path], published: Mapping[str, Generation]) -> NegativesEvidence:
    """Compare all kinds of negatives with all models.

    Args:
        lab: Where the data is.
        models: By name: the folder.
        published: For some of them the generation they were last trained with; the others are taken to refresh now.
    """
    scratch = lab.data_folder / "evidence"
    scratch.mkdir(parents=True, exist_ok=True)
    source = ExampleFile(lab.data_set(lab.data.first), scratch)
    rng = random.Random(0)  # noqa: S311
    rows = rng.sample(range(len(source)), min(_QUESTIONS, len(source)))
    chosen = [source[row] for row in rows]
    texts = [example.question.text for example in chosen]
    found = NegativesEvidence(question=texts[0])
    for name, folder in models.items():
        model = lab.model(folder)
        numbers, _ = model.top(texts, _DEPTH)
        if name in published:
            nearest = [ranked[ranked >= 0].tolist() for ranked in published[name].numbers[rows]]
        else:
            nearest = _nearest(model, chosen, numbers.tolist(), source.match)
        kinds = _kinds(model, chosen, nearest, source.match)
        found.kinds[name] = {}
        for kind, wrong in kinds.items():
            drawn = [_drawn(some, _DRAWS, row) for row, some in enumerate(wrong)]
            found.kinds[name][kind] = _of_kind(model, chosen, drawn, numbers[:, :_FOUND])
        found.curves[name] = _curves(model, texts[:_CURVES])
        found.maps[name] = _map(model, chosen[0], {kind: _drawn(kinds[kind][0], _ON_MAP, 0) for kind in KINDS})
    return found


def _kinds(
    model: Model, chosen: list[Example], nearest: list[list[int]], match: Mode
) -> dict[str, list[list[Context]]]:
    """By kind, the negatives of each example."""
    return {
        "random": [list(one.negatives) for one in chosen],
        "in-batch": [_others(one, chosen, match) for one in chosen],
        "BM25": [list(one.hard) for one in chosen],
        "ANN": [list(map(model.corpus.context, ranked)) for ranked in nearest],
    }


def _nearest(model: Model, chosen: list[Example], lists: list[list[int]], match: Mode) -> list[list[int]]:
    """The negatives among the nearest passages."""
    negatives = NegativeFilter(model.corpus)
    found = []
    for ranked, one in zip(lists, chosen, strict=True):
        found.append([ranked[place] for place in negatives.positions(one, ranked, match)])
    return found


def _drawn(wrong: list[Context], count: int, seed: int) -> list[Context]:
    return random.Random(seed).sample(wrong, min(count, len(wrong)))  # noqa: S311


def _others(one: Example, chosen: list[Example], match: Mode) -> list[Context]:
    """The positives of other questions, but for those that answer this one too."""
    rule = NegativeRule(one.question, one.positives, match, duplicate=None)
    others = [other.positives[0] for other in chosen]
    return [one for one in others if rule.is_negative(Candidate(one.text))]


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
    sizes = np.zeros(len(LAYER_GROUPS))
    if norms:
        sizes = np.mean(norms, 0)
    return {
        "overlap": round(100 * float(np.mean(overlaps or [0.0])), 2),
        "loss": float(f"{np.mean(losses or [0.0]):.4g}"),
        **{f"gradient_{group}": float(f"{size:.4g}") for group, size in zip(LAYER_GROUPS, sizes, strict=True)},
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


def _curves(model: Model, texts: list[str]) -> dict[str, list[tuple[float, float]]]:
    with torch.no_grad():
        scores = (model.questions(texts) @ model.vectors.T).cpu().numpy()
    curves = {}
    for text, row in zip(texts, scores, strict=True):
        ordered = np.sort(row)[::-1] - row.mean()
        curves[text] = [(float(rank), round(float(ordered[rank - 1]), 4)) for rank in _RANKS if rank <= len(ordered)]
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
