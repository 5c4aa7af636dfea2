"""Rankings of held-out questions: by BM25, by a dual encoder in training, by both together, and reranked."""

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mundap.disk import write_atomic
from mundap.encoder.checkpoints import has_two_towers
from mundap.encoder.similarity import Side, as_inner_product
from mundap.evaluation.metrics import first_rank, ranking_metrics
from mundap.experiments.data import TestSet
from mundap.index.index import Index
from mundap.records import Context
from mundap.text.answers import has_answer
from mundap.training import towers
from mundap.training.ance.corpus import ShardedCorpus
from mundap.training.ance.search import exact
from mundap.training.processes import Processes
from mundap.training.recipe import AnceRecipe
from mundap.training.step import in_precision
from mundap.training.tokens import Tokens
from mundap.training.validate import encode

CUTS = (1, 5, 20, 100)
DEPTH = 100
LAMBDA = 1.1  # the papers' weight of the dense score
_DOCUMENT = re.compile(r"#\d+$")  # what a passage's id has behind that of its document
Listed = Sequence[tuple[str, str]]
"""Ids and texts of what was found for a question, best first."""


class TrainedEncoder:
    """A dual encoder out of a run.

    Args:
        folder: Of one encoder, or of a pair.
        recipe: How texts are cut and compared.
    """

    def __init__(self, folder: Path, recipe: AnceRecipe) -> None:
        recipe = replace(recipe, base_model=str(folder), towers="shared", freeze_tower="")
        if has_two_towers(folder):
            recipe = replace(recipe, towers="two")
        self.dual, tokenizer = towers.build(recipe)
        self._processes = Processes()
        self.dual.to(self._processes.device).eval()
        self.tokens = Tokens(tokenizer, recipe)
        self._precision = recipe.precision

    def questions(self, texts: Sequence[str]) -> Any:
        """Vectors of questions."""
        return self._encoded("question", self.tokens.questions(list(texts)))

    def passages(self, contexts: Sequence[Context]) -> Any:
        """Vectors of passages, also of such as are not in the corpus."""
        return self._encoded("passage", self.tokens.passages([(one.title, one.text) for one in contexts]))

    def _encoded(self, side: Side, ids: list[list[int]]) -> Any:
        with in_precision(self._precision, self._processes.device.type):
            vectors = encode(getattr(self.dual, side), ids, self.tokens.pad, self._processes)
        return as_inner_product(vectors, self.dual.similarity, side, torch)


class Model(TrainedEncoder):
    """A dual encoder with the vectors of the corpus: one of each passage, or, for MaxP, some of each document.

    Args:
        folder: Of one encoder, or of a pair.
        recipe: Which corpus, and how texts are cut and compared.
        tokens_at: Where token ids are kept.
        vectors: Vectors of the corpus, where they are known: those of a pair with the same passage tower.
        vectors_at: The file that keeps the vectors of the corpus, for the next time this model is opened.
    """

    def __init__(
        self,
        folder: Path,
        recipe: AnceRecipe,
        tokens_at: Path,
        vectors: Any | None = None,
        vectors_at: Path | None = None,
    ) -> None:
        super().__init__(folder, recipe)
        self.corpus = ShardedCorpus(recipe)
        tokens_at.mkdir(parents=True, exist_ok=True)
        rows, owners = [], []
        for shard in self.corpus.shards:
            ids = self.corpus.token_ids(shard, self.tokens, tokens_at)
            living, numbers = self.corpus.rows(shard)
            rows += [ids[row].tolist() for row in living.tolist()]
            owners.append(numbers)
        self._owners = np.concatenate(owners)
        self.numbers = np.unique(self._owners)
        if vectors is None:
            vectors = self._corpus_vectors(rows, vectors_at)
        self.vectors = vectors

    def _corpus_vectors(self, rows: list[list[int]], path: Path | None) -> Any:
        """The vectors that a file keeps, or those of the corpus, encoded and kept there."""
        if path is not None and path.exists():
            known = np.load(path)
            if len(known) == len(rows):
                return torch.from_numpy(known).to(self._processes.device)
        vectors = self._encoded("passage", rows)
        if path is not None:
            content = io.BytesIO()
            np.save(content, vectors.cpu().numpy())
            write_atomic(path, content.getvalue())
        return vectors

    @cached_property
    def _places(self) -> dict[str, int]:
        """Where every passage, or document, is among `numbers`."""
        return {self.corpus.context(number).id: place for place, number in enumerate(self.numbers.tolist())}

    def prepare(self) -> None:
        """Do what the first call of `similarities` would have to do."""
        self._places  # noqa: B018

    def similarities(self, asked: Any, names: Sequence[str]) -> np.ndarray:
        """Of a question's vector with the passages that have these ids, or with the documents that these are of."""
        if not self.corpus.by_document:
            rows = [self._places[name] for name in names]
            return np.asarray((self.vectors[rows] @ asked).cpu().numpy())
        scores = (self.vectors @ asked).cpu().numpy()
        begins = np.searchsorted(self._owners, self.numbers)
        best = np.maximum.reduceat(scores, begins)  # of each document that of its best chunk
        return np.array([best[self._places[_DOCUMENT.sub("", name)]] for name in names])

    def top(self, texts: Sequence[str], depth: int = DEPTH) -> tuple[np.ndarray, np.ndarray]:
        """(passage numbers, scores) of the best of the corpus for each question."""
        size = min(depth, len(self.numbers))
        asked = self.questions(texts).cpu().numpy()
        return exact([(self.vectors.cpu().numpy(), self._owners)], asked, size, self._processes.device)


def figures_of(ranks: np.ndarray) -> dict[str, np.ndarray]:
    """Top-k accuracy, MRR@10 and nDCG@10 for every question, from 0 to 1.

    The first passage with the answer is taken for the only relevant one.
    """
    found = (ranks > 0) & np.isfinite(ranks)
    values = {f"top{k}": (found & (ranks <= k)).astype(float) for k in CUTS}
    values["mrr10"] = np.where(found & (ranks <= 10), 1 / np.maximum(ranks, 1), 0.0)
    values["ndcg10"] = np.where(found & (ranks <= 10), 1 / np.log2(1 + np.maximum(ranks, 1)), 0.0)
    return values


class Ranking:
    """Knows the answers of held-out questions: where the first relevant passage stands, 0 if nowhere.

    Where passages are judged, one is relevant with a grade of 1 or more; elsewhere if it has the answer.

    Args:
        index: The corpus.
        test: The questions.
    """

    def __init__(self, index: Path, test: TestSet) -> None:
        self._index = Index(index)
        self._test = test
        self.texts = [question.text for question in test.questions]
        self._known: dict[str, str] = {}  # texts of passages: to look one up takes longer than to search

    @cached_property
    def bm25(self) -> list[list[tuple[str, float]]]:
        """(id, score) of BM25's best hundred."""
        rows = []
        for hits in self._index.search_batch(self.texts, DEPTH, "bm25"):
            self._known |= {hit.passage.id: hit.passage.text for hit in hits}
            rows.append([(hit.passage.id, hit.score) for hit in hits])
        return rows

    def of_bm25(self) -> np.ndarray:
        """BM25's ranks."""
        return self.of_ids([_names(row) for row in self.bm25])

    def of_model(self, model: Model, depth: int = DEPTH) -> np.ndarray:
        """A model's ranks over the whole corpus."""
        return self._ranks(self.by_model(model, depth))

    def by_bm25(self, depth: int) -> list[Listed]:
        """What BM25 finds."""
        batch = self._index.search_batch(self.texts, depth, "bm25")
        return [[(hit.passage.id, hit.passage.text) for hit in hits] for hits in batch]

    def by_model(self, model: Model, depth: int) -> list[Listed]:
        """What a model finds in the whole corpus."""
        listed: list[Listed] = []
        for row in model.top(self.texts, depth)[0].tolist():
            contexts = [model.corpus.context(number) for number in row]
            listed.append([(one.id, one.text) for one in contexts])
        return listed

    def reranked(self, model: Model) -> list[Listed]:
        """BM25's best hundred in the model's order."""
        asked = model.questions(self.texts)
        orders = []
        for number, row in enumerate(self.bm25):
            scores = model.similarities(asked[number], _names(row))
            order = np.argsort(-scores, kind="stable").tolist()
            orders.append([row[place][0] for place in order])
        return self._listed(orders)

    def figures(self, listed: Sequence[Listed]) -> dict[str, np.ndarray]:
        """What `figures_of` gives, and recall, for every question.

        Where passages are judged, nDCG@10 and recall are those of trec_eval, with a relevant grade from 1 on, and
        Hole@10 is the share of the first ten that have no judgement.
        """
        ranks = self._ranks(listed)
        values = {**figures_of(ranks), "recall": (ranks > 0).astype(float)}
        if self.judged:
            rows = [self._judged_figures(number, row) for number, row in enumerate(listed)]
            ndcg, recall, holes = np.array(rows).T
            values |= {"ndcg10": ndcg, "recall": recall, "hole10": holes}
        return values

    @property
    def judged(self) -> bool:
        """Whether passages are judged."""
        return bool(self._test.judged)

    def hybrid(self, model: Model) -> list[list[str]]:
        """Ids by BM25 + lambda x sim over the union of both best hundred, as in the DPR paper."""
        numbers, _ = model.top(self.texts)
        asked = model.questions(self.texts)
        orders = []
        for number, row in enumerate(self.bm25):
            lexical = dict(row)
            names = list(lexical) + [model.corpus.context(one).id for one in numbers[number].tolist()]
            names = list(dict.fromkeys(names))
            dense = model.similarities(asked[number], names)
            lowest = min(lexical.values(), default=0.0)  # a passage that BM25 did not list scores no higher
            scores = [lexical.get(name, lowest) + LAMBDA * float(one) for name, one in zip(names, dense, strict=True)]
            orders.append([names[place] for place in np.argsort(-np.array(scores), kind="stable")[:DEPTH]])
        return orders

    def of_ids(self, orders: Sequence[Sequence[str]]) -> np.ndarray:
        """The ranks that come of passage ids."""
        return self._ranks(self._listed(orders))

    def _listed(self, orders: Sequence[Sequence[str]]) -> list[Listed]:
        return [[(name, self._text(name)) for name in row] for row in orders]

    def contexts(self, orders: Sequence[Sequence[str]]) -> list[list[Context]]:
        """The passages with these ids."""
        found = []
        for row in orders:
            contexts = []
            for name in row:
                passage = self._index.passage(name)
                if passage is not None:
                    contexts.append(Context.of(passage))
            found.append(contexts)
        return found

    def _text(self, name: str) -> str:
        if name not in self._known:
            passage = self._index.passage(name)
            self._known[name] = ""
            if passage is not None:
                self._known[name] = passage.text
        return self._known[name]

    def _ranks(self, listed: Sequence[Listed]) -> np.ndarray:
        return np.array([self._first(number, row) for number, row in enumerate(listed)])

    def _first(self, number: int, row: Listed) -> int:
        if self.judged:
            grades = self._grades(number)
            return first_rank(self._judged_ids(row), {name for name, grade in grades.items() if grade > 0})
        answers = self._test.questions[number].answers
        for rank, (_, text) in enumerate(row, 1):
            if has_answer(text, answers, self._test.match):
                return rank
        return 0

    def _grades(self, number: int) -> dict[str, int]:
        return self._test.judged[self._test.questions[number].id]

    def _judged_figures(self, number: int, row: Listed) -> tuple[float, float, float]:
        """(nDCG@10, recall, Hole@10) of one question."""
        grades, found = self._grades(number), self._judged_ids(row)
        depth = max(1, len(found))
        metrics = ranking_metrics(found, grades, 1, (10, depth))
        first = found[:10]
        holes = [name for name in first if name not in grades]
        return metrics["ndcg@10"], metrics[f"recall@{depth}"], len(holes) / max(1, len(first))

    def _judged_ids(self, row: Listed) -> list[str]:
        """What was found as it is judged: passages, or the documents that they are of, each once."""
        names = [name for name, _ in row]
        if self._by_document:
            names = list(dict.fromkeys(_DOCUMENT.sub("", name) for name in names))
        return names

    @cached_property
    def _by_document(self) -> bool:
        """Whether documents are judged that the index has in several passages."""
        names: list[str] = []
        for grades in self._test.judged.values():
            names += grades
        return not any(self._index.passage(name) for name in names)


def _names(row: Sequence[tuple[str, float]]) -> list[str]:
    return [name for name, _ in row]
