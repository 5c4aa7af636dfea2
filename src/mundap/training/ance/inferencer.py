"""The inferencer: vectors of the whole corpus with the newest weights, and the nearest passages of every question.

Any number of them, on any number of machines, share a round: each claims a shard that nobody has, and the one
that finds all of them done publishes. A process may die at any moment: its claims are released, and the shards it had
finished stay.
"""

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from mundap.disk import disk_errors, replacing
from mundap.encoder.network import DualEncoder, Tower, encode
from mundap.encoder.similarity import Side, as_inner_product
from mundap.records import Example
from mundap.training import towers
from mundap.training.ance.corpus import Shard, ShardedCorpus
from mundap.training.ance.exchange import ExchangeFolder
from mundap.training.ance.negatives import NegativeFilter, shared_settings
from mundap.training.ance.search import ShardVectors, nearest
from mundap.training.examples import ExampleFile
from mundap.training.recipe import AnceRecipe
from mundap.training.tokens import Tokens

_BLOCK = 4096  # examples in memory
_PAUSE = 0.2  # seconds between looks into the folder
_QUESTIONS, _POSITIVES = "questions", "positives"


@dataclass(frozen=True, slots=True)
class _InferencerProgress:
    """Where an inferencer is."""

    step: int
    what: str
    done: int
    total: int


Listener = Callable[[_InferencerProgress], None]

Elsewhere = Callable[[int, Sequence[str]], Generator[int]]
"""Has shards of a round encoded on other machines; yields, now and then, how many are done."""


class Inferencer:
    """Finds negatives for a trainer.

    Args:
        recipe: The trainer's.
        sets: The training files.
        exchange: The folder they share.
        device: Where to compute; it need not be the trainer's.
        model: The trainer's own model and tokens, in the synchronous mode.
        tell: Called with its progress.
        elsewhere: Others that encode the corpus for it (`cluster.py`).
    """

    def __init__(
        self,
        recipe: AnceRecipe,
        sets: list[ExampleFile],
        exchange: ExchangeFolder,
        device: Any,
        model: tuple[DualEncoder, Tokens] | None = None,
        tell: Listener = lambda progress: None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._recipe = recipe
        self._sets = sets
        self._exchange = exchange
        self._device = device
        self._tell = tell
        self._elsewhere = elsewhere
        if model is None:
            built, tokenizer = towers.build(replace(recipe, gradient_checkpointing=False))
            model = built, Tokens(tokenizer, recipe)
        self._model, self._tokens = model
        self._model.to(device)
        self._loaded: int | None = None

    def run(self, stop: threading.Event) -> None:
        """Work on round after round until the trainer has finished."""
        while not stop.is_set() and not self._exchange.finished:
            step = self._exchange.next_round()
            if step is None:
                stop.wait(_PAUSE)
                continue
            self.round(step, stop)

    def round(self, step: int, stop: threading.Event | None = None, current: bool = False) -> None:
        """Take part in a round until its negatives are published.

        Args:
            step: Whose weights.
            stop: Set to leave early.
            current: The model already has these weights.
        """
        self._loaded = None
        if current:
            self._loaded = step
        corpus = ShardedCorpus(self._recipe)
        folder = self._exchange.round(step)
        folder.mkdir(parents=True, exist_ok=True)
        was_training = self._model.training
        self._model.eval()
        try:
            while step not in self._exchange.published() and self._is_needed(step, stop):
                self._encode_elsewhere(step, folder, corpus, stop)
                if self._encode_unclaimed(step, folder, corpus, stop):
                    with self._exchange.claim(folder / "publish.lock") as mine:
                        if mine and self._is_needed(step, stop) and step not in self._exchange.published():
                            self._publish(step, folder, corpus)
                else:
                    time.sleep(_PAUSE)
        except FileNotFoundError:
            if self._is_needed(step, stop):
                raise
        finally:
            self._model.train(was_training)

    def _is_needed(self, step: int, stop: threading.Event | None) -> bool:
        """Whether the round still matters: the trainer may have finished, or restarted from an earlier step."""
        stopped = stop is not None and (stop.is_set() or self._exchange.finished)
        return not stopped and self._exchange.has_weights(step) and self._exchange.round(step).exists()

    def encode_shard(self, step: int, name: str) -> None:
        """Encode one shard for an inferencer elsewhere, unless it is done, claimed or no longer needed."""
        corpus = ShardedCorpus(self._recipe)
        self._model.eval()
        try:
            for shard in corpus.shards:
                if corpus.name(shard) == name:
                    self._encode(step, self._exchange.round(step), (name, shard), corpus)
        except FileNotFoundError:
            if self._is_needed(step, None):
                raise

    def _encode_elsewhere(self, step: int, folder: Path, corpus: ShardedCorpus, stop: threading.Event | None) -> None:
        """Have other machines encode the corpus, if there are any; what they leave is encoded here."""
        missing = [name for name in map(corpus.name, corpus.shards) if not (folder / f"{name}.npy").exists()]
        if self._elsewhere is None or not missing:
            return
        with closing(self._elsewhere(step, missing)) as progress:
            for done in progress:
                self._tell(_InferencerProgress(step, "encoding over Ray", done, len(missing)))
                if not self._is_needed(step, stop):
                    return

    def _encode_unclaimed(self, step: int, folder: Path, corpus: ShardedCorpus, stop: threading.Event | None) -> bool:
        """Encode every shard that is neither done nor claimed; returns whether all are done."""
        jobs: list[tuple[str, Shard | None]] = [(corpus.name(shard), shard) for shard in corpus.shards]
        jobs.append((_QUESTIONS, None))
        if self._recipe.sampling == "margin":
            jobs.append((_POSITIVES, None))
        missing = 0
        for number, job in enumerate(jobs):
            if (folder / f"{job[0]}.npy").exists():
                continue
            if not self._is_needed(step, stop):
                return False
            missing += not self._encode(step, folder, job, corpus, (number, len(jobs)))
        return not missing

    def _encode(
        self,
        step: int,
        folder: Path,
        job: tuple[str, Shard | None],
        corpus: ShardedCorpus,
        place: tuple[int, int] = (0, 1),
    ) -> bool:
        """Encode a shard, or the questions or positives; False if another process is doing that."""
        name, shard = job
        path = folder / f"{name}.npy"
        with self._exchange.claim(folder / f"{name}.lock") as mine:
            if not mine or step in self._exchange.published():  # then the vectors have been taken away
                return False
            if not path.exists():
                self._tell(_InferencerProgress(step, f"encoding {name}", *place))
                self._load(step)
                if shard is None:
                    vectors = self._asked(name)
                else:
                    vectors = self._shard(shard, corpus)
                with disk_errors(folder), replacing(path) as file:
                    np.save(file, vectors)
        return True

    def _load(self, step: int) -> None:
        if self._loaded != step:
            self._exchange.load_weights(step, self._model)
            self._loaded = step

    def _shard(self, shard: Shard, corpus: ShardedCorpus) -> np.ndarray:
        ids = corpus.token_ids(shard, self._tokens, self._exchange.tokens)
        living, _ = corpus.rows(shard)
        return self._vectors(self._model.passage, [ids[row].tolist() for row in living.tolist()], "passage")

    def _asked(self, name: str) -> np.ndarray:
        """Vectors of the training questions, or of their positives, chunk by chunk."""
        examples, parts = self._examples(), []
        while block := list(islice(examples, _BLOCK)):
            if name == _QUESTIONS:
                ids = self._tokens.questions([example.question.text for example in block])
                parts.append(self._vectors(self._model.question, ids, "question"))
            else:
                pairs = []
                for example in block:
                    positive = example.positives[0]
                    pairs += [(positive.title, text) for text in self._tokens.chunks(positive.text)]
                parts.append(self._vectors(self._model.passage, self._tokens.passages(pairs), "passage"))
        return np.concatenate(parts)

    def _examples(self) -> Iterator[Example]:
        for one in self._sets:
            for number in range(len(one)):
                yield one[number]

    def _vectors(self, tower: Tower, ids: list[list[int]], side: Side) -> np.ndarray:
        """Vectors whose inner product ranks passages as the model's similarity does."""
        vectors = encode(tower, ids, self._tokens.pad).cpu().numpy()
        return np.asarray(as_inner_product(vectors, self._model.similarity, side))

    def _publish(self, step: int, folder: Path, corpus: ShardedCorpus) -> None:
        """Search, filter the negatives, and publish them."""
        started = time.monotonic()
        shards = [ShardVectors(folder / f"{corpus.name(shard)}.npy", corpus.rows(shard)[1]) for shard in corpus.shards]
        questions = np.load(folder / f"{_QUESTIONS}.npy")
        self._tell(_InferencerProgress(step, "searching", 0, len(questions)))
        recipe = self._recipe
        numbers, scores = nearest(questions, shards, recipe.top_k, recipe.search, self._device, self._model.similarity)
        negatives = NegativeFilter(corpus)
        place = 0
        for one in self._sets:
            for number in range(len(one)):
                example: Example = one[number]
                kept = negatives.positions(example, numbers[place].tolist(), one.match)
                for array, empty in ((numbers, -1), (scores, -np.inf)):
                    array[place, : len(kept)] = array[place, kept]
                    array[place, len(kept) :] = empty
                place += 1
                if place % 1000 == 0:
                    self._tell(_InferencerProgress(step, "filtering", place, len(questions)))
        arrays = {"numbers": numbers, "scores": scores}
        if self._recipe.sampling == "margin":
            cut = [len(self._tokens.chunks(example.positives[0].text)) for example in self._examples()]
            owners = np.repeat(np.arange(len(cut)), cut)
            products = (questions[owners] * np.load(folder / f"{_POSITIVES}.npy")).sum(1)
            arrays["positives"] = np.maximum.reduceat(products, np.cumsum([0, *cut[:-1]]))
        facts = {
            "index": corpus.generation,
            "settings": shared_settings(self._recipe, self._sets),
            "seconds": round(time.monotonic() - started, 3),
        }
        self._exchange.publish(step, arrays, facts)
        corpus.sweep_tokens(self._tokens, self._exchange.tokens)
        self._tell(_InferencerProgress(step, "published", len(questions), len(questions)))
