"""The inferencer: vectors of the whole corpus with the newest weights, and the nearest passages of every question.

Any number of them, on any number of machines, share a round: each claims a shard that nobody has, and the one
that finds all of them done publishes. A process may die at any moment; its claims are free again, and what it had
finished is there.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mundap.disk import disk_errors, replacing
from mundap.records import Example
from mundap.training import towers
from mundap.training.ance.corpus import Shard, ShardedCorpus
from mundap.training.ance.meeting import Meeting
from mundap.training.ance.negatives import Sieve, manner
from mundap.training.ance.search import Vectors, nearest
from mundap.training.batches import Tokens
from mundap.training.examples import ExampleFile
from mundap.training.recipe import AnceRecipe
from mundap.training.towers import DualEncoder, Tower, chunks, padded

_BATCH = 64
_BLOCK = 4096  # examples in memory
_PAUSE = 0.2  # seconds between looks into the folder
_QUESTIONS, _POSITIVES = "questions", "positives"


@dataclass(frozen=True, slots=True)
class Told:
    """What an inferencer says of itself."""

    step: int
    what: str
    done: int
    total: int


Listener = Callable[[Told], None]


class Inferencer:
    """Makes negatives for a trainer.

    Args:
        recipe: The trainer's.
        sets: The training files.
        meeting: Where the two meet.
        device: Where to compute; it need not be the trainer's.
        model: The trainer's own model and tokens, in the synchronous mode.
    """

    def __init__(
        self,
        recipe: AnceRecipe,
        sets: list[ExampleFile],
        meeting: Meeting,
        device: Any,
        model: tuple[DualEncoder, Tokens] | None = None,
        tell: Listener = lambda told: None,
    ) -> None:
        self._recipe = recipe
        self._sets = sets
        self._meeting = meeting
        self._device = device
        self._tell = tell
        if model is None:
            built, tokenizer = towers.build(replace(recipe, recompute=False))
            model = built, Tokens(tokenizer, recipe)
        self._model, self._tokens = model
        self._model.to(device)
        self._loaded: int | None = None

    def run(self, stop: threading.Event) -> None:
        """Round after round, until the trainer has finished."""
        while not stop.is_set() and not self._meeting.finished:
            step = self._meeting.next_round()
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
        self._loaded = step if current else None
        corpus = ShardedCorpus(self._recipe)
        folder = self._meeting.round(step)
        folder.mkdir(parents=True, exist_ok=True)
        was_training = self._model.training
        self._model.eval()
        try:
            while step not in self._meeting.published() and self._is_needed(step, stop):
                if self._encode_what_is_free(step, folder, corpus, stop):
                    with self._meeting.claim(folder / "publish.lock") as mine:
                        if mine and self._is_needed(step, stop) and step not in self._meeting.published():
                            self._publish(step, folder, corpus)
                else:
                    time.sleep(_PAUSE)
        except FileNotFoundError:
            if self._is_needed(step, stop):
                raise
        finally:
            self._model.train(was_training)

    def _is_needed(self, step: int, stop: threading.Event | None) -> bool:
        """Not if the trainer has finished, or went back behind this step and took its weights away."""
        stopped = stop is not None and (stop.is_set() or self._meeting.finished)
        return not stopped and self._meeting.has_weights(step) and self._meeting.round(step).exists()

    def _encode_what_is_free(
        self, step: int, folder: Path, corpus: ShardedCorpus, stop: threading.Event | None
    ) -> bool:
        """Encode every shard that is neither done nor claimed; whether all are done now."""
        jobs: list[tuple[str, Shard | None]] = [(corpus.name(shard), shard) for shard in corpus.shards]
        jobs += [(_QUESTIONS, None)]
        jobs += [(_POSITIVES, None)] if self._recipe.sampling == "margin" else []
        missing = 0
        for number, (name, shard) in enumerate(jobs):
            path = folder / f"{name}.npy"
            if path.exists():
                continue
            if not self._is_needed(step, stop):
                return False
            with self._meeting.claim(folder / f"{name}.lock") as mine:
                if not mine or step in self._meeting.published():  # then the vectors have been taken away
                    missing += 1
                elif not path.exists():
                    self._tell(Told(step, f"encoding {name}", number, len(jobs)))
                    self._load(step)
                    vectors = self._shard(shard, corpus) if shard else self._asked(name)
                    with disk_errors(folder), replacing(path) as file:
                        np.save(file, vectors)
        return not missing

    def _load(self, step: int) -> None:
        if self._loaded != step:
            self._meeting.load_weights(step, self._model)
            self._loaded = step

    def _shard(self, shard: Shard, corpus: ShardedCorpus) -> np.ndarray:
        ids = corpus.token_ids(shard, self._tokens, self._meeting.tokens)
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
                right = [example.positives[0] for example in block]
                pairs = [(one.title, text) for one in right for text in self._tokens.chunks(one.text)]
                parts.append(self._vectors(self._model.passage, self._tokens.passages(pairs), "passage"))
        return np.concatenate(parts)

    def _examples(self) -> Iterator[Example]:
        return (one[number] for one in self._sets for number in range(len(one)))

    def _vectors(self, tower: Tower, ids: list[list[int]], side: str) -> np.ndarray:
        """Vectors whose inner product orders passages as the model's similarity does."""
        result = np.empty((len(ids), tower.dimension + (self._model.similarity == "l2")), np.float32)
        for group in chunks([len(one) for one in ids], _BATCH):
            rows, mask = padded([ids[position] for position in group], self._tokens.pad, self._device)
            with torch.no_grad():
                result[group] = comparable(tower(rows, mask).float(), self._model.similarity, side).cpu().numpy()
        return result

    def _publish(self, step: int, folder: Path, corpus: ShardedCorpus) -> None:
        """Search, sieve, and publish."""
        started = time.monotonic()
        shards = [Vectors(folder / f"{corpus.name(shard)}.npy", corpus.rows(shard)[1]) for shard in corpus.shards]
        questions = np.load(folder / f"{_QUESTIONS}.npy")
        self._tell(Told(step, "searching", 0, len(questions)))
        recipe = self._recipe
        numbers, scores = nearest(questions, shards, recipe.depth, recipe.search, self._device, self._model.similarity)
        sieve = Sieve(corpus)
        place = 0
        for one in self._sets:
            for number in range(len(one)):
                example: Example = one[number]
                kept = sieve.wrong(example, numbers[place].tolist(), one.match)
                for array, empty in ((numbers, -1), (scores, -np.inf)):
                    array[place, : len(kept)] = array[place, kept]
                    array[place, len(kept) :] = empty
                place += 1
                if place % 1000 == 0:
                    self._tell(Told(step, "sieving", place, len(questions)))
        arrays = {"numbers": numbers, "scores": scores}
        if self._recipe.sampling == "margin":
            cut = [len(self._tokens.chunks(example.positives[0].text)) for example in self._examples()]
            owners = np.repeat(np.arange(len(cut)), cut)
            products = (questions[owners] * np.load(folder / f"{_POSITIVES}.npy")).sum(1)
            arrays["positives"] = np.maximum.reduceat(products, np.cumsum([0, *cut[:-1]]))
        facts = {
            "index": corpus.generation,
            "manner": manner(self._recipe, self._sets),
            "seconds": round(time.monotonic() - started, 3),
        }
        self._meeting.publish(step, arrays, facts)
        corpus.sweep_tokens(self._tokens, self._meeting.tokens)
        self._tell(Told(step, "published", len(questions), len(questions)))


def comparable(vectors: Any, similarity: str, side: str) -> Any:
    """Vectors of a side, `question` or `passage`, whose inner product orders as the similarity does."""
    if similarity == "cosine":
        return torch.nn.functional.normalize(vectors, dim=-1)
    if similarity == "l2":  # -|q - p|² = 2 q·p - |p|², less what is the same for all passages of a question
        if side == "question":
            return torch.cat([2 * vectors, torch.ones_like(vectors[:, :1])], 1)
        return torch.cat([vectors, -(vectors**2).sum(1, keepdim=True)], 1)
    return vectors
