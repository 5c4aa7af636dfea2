"""Rankings of held-back questions by a dual encoder in training: of the whole corpus, and of BM25's list."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mundap.index.index import Index
from mundap.models.checkpoint import has_two_towers
from mundap.records import Context
from mundap.reproduce.setting import Setting
from mundap.text.answers import has_answer
from mundap.training import towers
from mundap.training.ance.corpus import ShardedCorpus
from mundap.training.ance.inferencer import comparable
from mundap.training.batches import Tokens
from mundap.training.processes import Processes
from mundap.training.recipe import AnceRecipe
from mundap.training.validate import encode

CUTS = (1, 5, 20, 100)
_DEPTH = 100
_TOGETHER = 256  # questions compared with the corpus at a time


class Model:
    """A dual encoder with the vectors of the corpus.

    Args:
        folder: Of one encoder, or of a pair.
        recipe: Which corpus, and how texts are cut and compared.
        tokens_at: Where token ids are kept.
        vectors: Of the corpus, where they are known: of a pair whose passage side is another's.
    """

    def __init__(self, folder: Path, recipe: AnceRecipe, tokens_at: Path, vectors: Any | None = None) -> None:
        kind: Any = "two" if has_two_towers(folder) else "shared"
        self.dual, tokenizer = towers.build(replace(recipe, start=str(folder), towers=kind))
        self._processes = Processes()
        self.dual.to(self._processes.device).eval()
        self.tokens = Tokens(tokenizer, recipe)
        self.corpus = ShardedCorpus(recipe)
        tokens_at.mkdir(parents=True, exist_ok=True)
        rows, owners = [], []
        for shard in self.corpus.shards:
            ids = self.corpus.token_ids(shard, self.tokens, tokens_at)
            living, numbers = self.corpus.rows(shard)
            rows += [ids[row].tolist() for row in living.tolist()]
            owners.append(numbers)
        self.numbers = np.concatenate(owners)
        self.vectors = self._encoded("passage", rows) if vectors is None else vectors

    def questions(self, texts: list[str]) -> Any:
        """Vectors of questions."""
        return self._encoded("question", self.tokens.questions(texts))

    def passages(self, contexts: Sequence[Context]) -> Any:
        """Vectors of passages, also of such as are not in the corpus."""
        return self._encoded("passage", self.tokens.passages([(one.title, one.text) for one in contexts]))

    def _encoded(self, side: str, ids: list[list[int]]) -> Any:
        vectors = encode(getattr(self.dual, side), ids, self.tokens.pad, self._processes)
        return comparable(vectors, self.dual.similarity, side)

    def top(self, texts: list[str], depth: int = _DEPTH) -> tuple[np.ndarray, np.ndarray]:
        """(passage numbers, scores) of the best of the corpus for each question."""
        size = min(depth, len(self.numbers))
        found = [(part @ self.vectors.T).topk(size, dim=1) for part in self.questions(texts).split(_TOGETHER)]
        places = torch.cat([one.indices for one in found]).cpu().numpy()
        return self.numbers[places], torch.cat([one.values for one in found]).cpu().numpy()


@dataclass(frozen=True, slots=True)
class Ranks:
    """Where each question's first passage with the answer stands, 0 if not within the first hundred."""

    retrieval: np.ndarray
    reranking: np.ndarray

    def figures(self) -> dict[str, dict[str, float]]:
        """Top-k accuracy in percent and MRR@10, of both."""
        return {"retrieval": measured(self.retrieval), "reranking": measured(self.reranking)}


def measured(ranks: np.ndarray) -> dict[str, float]:
    """Top-k accuracy in percent and MRR@10."""
    values = {f"top{k}": 100 * float(np.mean(by_question(ranks, f"top{k}"))) for k in CUTS}
    return values | {"mrr10": float(np.mean(by_question(ranks, "mrr10")))}


def by_question(ranks: np.ndarray, figure: str) -> np.ndarray:
    """One value a question, from 0 to 1."""
    if figure == "mrr10":
        return np.where((ranks > 0) & (ranks <= 10), 1 / np.maximum(ranks, 1), 0.0)
    return ((ranks > 0) & (ranks <= int(figure.removeprefix("top")))).astype(float)


class Judge:
    """Knows the answers of the held-back questions, and BM25's list for each."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self.texts = [question.text for question in setting.test]

    @cached_property
    def bm25(self) -> list[list[str]]:
        """The ids of BM25's best hundred."""
        index = Index(self._setting.index)
        return [[hit.passage.id for hit in hits] for hits in index.search_batch(self.texts, _DEPTH, "bm25")]

    def bm25_ranks(self) -> Ranks:
        """BM25 itself."""
        index = Index(self._setting.index)
        found = [[passage.text for name in names if (passage := index.passage(name))] for names in self.bm25]
        ranks = np.array([self._first(number, texts) for number, texts in enumerate(found)])
        return Ranks(ranks, ranks)

    def ranks(self, model: Model) -> Ranks:
        """A model's."""
        places = {model.corpus.context(number).id: row for row, number in enumerate(model.numbers.tolist())}
        asked = model.questions(self.texts)
        reranking = []
        for number in range(len(self.texts)):
            rows = [places[name] for name in self.bm25[number]]
            scores = (model.vectors[rows] @ asked[number]).cpu().numpy()
            order = [int(model.numbers[rows[place]]) for place in np.argsort(-scores, kind="stable")]
            reranking.append(self._first(number, [model.corpus.context(n).text for n in order]))
        return Ranks(self.retrieval(model, model.top(self.texts)[0]), np.array(reranking))

    def retrieval(self, model: Model, numbers: np.ndarray) -> np.ndarray:
        """The ranks that come of what a model found, a row of passage numbers a question."""
        found = [[model.corpus.context(number).text for number in row] for row in numbers.tolist()]
        return np.array([self._first(number, texts) for number, texts in enumerate(found)])

    def _first(self, number: int, texts: list[str]) -> int:
        answers = self._setting.test[number].answers
        return next((rank for rank, text in enumerate(texts, 1) if has_answer(text, answers, self._setting.match)), 0)
