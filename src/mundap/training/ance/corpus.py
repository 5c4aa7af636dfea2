"""The corpus of an ANCE run, cut into shards: the passages of an index, or, for MaxP, its documents."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from mundap.disk import disk_errors, replacing
from mundap.errors import IndexDamaged, UsageError
from mundap.index import locate
from mundap.index.corpus import Corpus
from mundap.index.manifest import Manifest
from mundap.index.segment import Segment
from mundap.records import Context
from mundap.training.recipe import AnceRecipe
from mundap.training.tokens import Tokens

_REMEMBERED = 20_000


@dataclass(frozen=True, slots=True)
class Shard:
    """Rows of a segment. Segments never change, so neither does the text of a shard."""

    segment: Segment
    start: int
    stop: int

    @property
    def name(self) -> str:
        """Unique in its index."""
        return f"{self.segment.entry.name}-{self.start:09d}"

    @property
    def numbers(self) -> np.ndarray:
        """The passage numbers of its rows."""
        return self.segment.numbers_at(range(self.start, self.stop))


class ShardedCorpus:
    """An index as a source of texts, opened once.

    Args:
        recipe: Which index, how it is cut into shards, and how long its texts are.

    Raises:
        UsageError: The index is empty, or cut in another way than the recipe says.
    """

    def __init__(self, recipe: AnceRecipe) -> None:
        path = locate.to_read(recipe.index or None)
        manifest, self.corpus = _snapshot(path)
        self.generation = manifest.generation
        self.by_document = recipe.chunks > 1
        settings = manifest.settings
        if not len(self.corpus):
            raise UsageError(f"the index in {path} is empty: there are no negatives in it")
        cut = (settings.words, settings.chunks, settings.overlap, settings.sentences)
        if self.by_document and cut != (recipe.chunk_words, recipe.chunks, 0, False):
            raise UsageError(
                f"the index in {path} is not cut into {recipe.chunks} chunks of {recipe.chunk_words} words, as the "
                "recipe says. Build it with these words and chunks, split by words and not at sentences."
            )
        self.shards: list[Shard] = []
        for segment in self.corpus.segments:
            self.shards += _cut(segment, recipe.shard_size)
        self.context = lru_cache(_REMEMBERED)(self._context)

    def name(self, shard: Shard) -> str:
        """The name of a shard's vectors: of the passages that are not deleted in this state of the index."""
        return f"{self.generation:06d}-{shard.name}"

    def _context(self, number: int) -> Context:
        """The passage with a number, or, for MaxP, the document whose first passage has it."""
        passage = self.corpus.passages_at(np.array([number], np.uint64))[0]
        if not self.by_document:
            return Context.of(passage)
        place = self.corpus.find_document(passage.document)
        if place is None:
            return Context(passage.document, passage.title, passage.text)
        rows = place[0].passage_rows(place[1])
        whole = place[0].document(place[1]).text
        ends = place[0].passages["end"][rows.stop - 1]
        return Context(passage.document, passage.title, whole[passage.start : int(ends)])

    def rows(self, shard: Shard) -> tuple[np.ndarray, np.ndarray]:
        """Which rows of a shard are alive, and whose they are: a passage number each, ascending."""
        numbers = shard.numbers
        living = np.flatnonzero(self.corpus.alive(numbers))
        owners = numbers[living]
        if self.by_document:
            owners = self.corpus.document_owners(owners)
        return living, owners.astype(np.int64)

    def token_ids(self, shard: Shard, tokens: Tokens, folder: Path) -> list[np.ndarray]:
        """The token ids of every row, made once and kept for as long as the text and the tokenizer stay the same."""
        path = _token_file(shard, tokens, folder)
        if not path.exists():
            passages = shard.segment.passages_at(np.arange(shard.start, shard.stop))
            ids = tokens.passages([(passage.title, passage.text) for passage in passages])
            lengths = np.array(list(map(len, ids)), np.int32)
            flat = np.concatenate([np.array([len(ids)], np.int32), lengths, *(np.array(one, np.int32) for one in ids)])
            with disk_errors(folder), replacing(path) as file:
                np.save(file, flat)
        flat = np.load(path, mmap_mode="r")
        count = int(flat[0])
        return np.split(flat[1 + count :], np.cumsum(flat[1 : 1 + count])[:-1])

    def sweep_tokens(self, tokens: Tokens, folder: Path) -> None:
        """Remove the token ids of texts that are no longer in the index."""
        needed = {_token_file(shard, tokens, folder) for shard in self.shards}
        for path in folder.glob("[!.]*.npy"):
            if path not in needed:
                path.unlink(missing_ok=True)


def _token_file(shard: Shard, tokens: Tokens, folder: Path) -> Path:
    sums = {Path(file.path).name: file.sha256 for file in shard.segment.entry.files}
    key = (sums["strings.bin"], sums["passages.bin"], shard.start, shard.stop, tokens.fingerprint)
    return folder / f"{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}.npy"


def _snapshot(path: Path) -> tuple[Manifest, Corpus]:
    """One state of an index. A commit in the meantime may have swept away what was being opened: then look again."""
    for _ in range(10):
        manifest = Manifest.load(path)
        try:
            return manifest, Corpus(path, manifest)
        except (IndexDamaged, FileNotFoundError):
            if Manifest.load(path).generation == manifest.generation:
                raise
    raise IndexDamaged(f"{path} is changing all the time. Try again when the writer is done.")


def _cut(segment: Segment, size: int) -> list[Shard]:
    """Shards of about a size; no document is in two of them."""
    shards, start = [], 0
    while start < len(segment):
        stop = start + size
        if stop < len(segment):
            stop = segment.passage_rows(int(segment.passages["document"][stop - 1])).stop
        stop = min(stop, len(segment))
        shards.append(Shard(segment, start, stop))
        start = stop
    return shards
