"""`mundap encode`: vectors of one shard of the passages, which `mundap index --vectors` joins.

Three files make a shard: shard-00003-of-00064.npy (half precision), .keys.npy (which passage each row is of) and .json,
which is written last: without it the shard does not exist. A shard that exists is not made again.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from mundap.disk import disk_errors, json_bytes, replacing, write_atomic
from mundap.documents import SourceFile, Splitter, read
from mundap.encoder.runtime import Encoder
from mundap.errors import MundapError, UsageError
from mundap.index.build import Options, model_settings
from mundap.index.files import find_files, splitter
from mundap.index.manifest import Settings
from mundap.records import Document, Skipped
from mundap.text.sections import passage_titles

SHARD = re.compile(r"shard-(\d{5})-of-(\d{5})\.json")
_SHARED_FROM = 4 << 20  # bytes of a file from which on all shards have a part of it
_BLOCK = 256  # documents of such a file that go to one shard
_AT_ONCE = 512
_MOST = 99_999

Told = Callable[[int], None]
"""Is told how many passages there are so far."""


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """What a shard is.

    Attributes:
        shard: Its number, from 1.
        of: How many there are.
        job: A digest of files, model and way of cutting: only shards of one job fit together.
        model: The encoder.
        fingerprint: Its checksum.
        dimension: The length of a vector.
        passages: How many vectors.
    """

    shard: int
    of: int
    job: str
    model: str
    fingerprint: str
    dimension: int
    passages: int

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the .json of a shard."""
        try:
            return cls(**json.loads(path.read_bytes()))
        except (ValueError, TypeError) as error:
            raise MundapError(f"{path} is no shard of `mundap encode` ({error})") from error


def passage_key(*parts: str) -> tuple[int, int]:
    """The 128-bit key of a passage, by its title and text, or by its id where a file of vectors has ids."""
    digest = hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be encoded.

    Attributes:
        paths: Files and folders.
        options: How they are read and cut, and the model, as for `mundap index`.
        out: Where the shards go.
        of: How many shards there are.
    """

    paths: tuple[str, ...]
    options: Options
    out: Path
    of: int

    def __post_init__(self) -> None:
        if not 1 <= self.of <= _MOST:
            raise UsageError(f"{self.of} shards: choose between 1 and {_MOST}")
        if "-" in self.paths:
            raise UsageError("standard input cannot be shared out: give files")

    def settings(self) -> Settings:
        """How passages are cut, and the model."""
        given: dict[str, Any] = {"sentences": True}  # as `mundap index` has it by default
        for name in ("words", "overlap", "sentences", "chunks"):
            if getattr(self.options, name) is not None:
                given[name] = getattr(self.options, name)
        model = self.options.model
        if model is None:
            with find_files(self.paths, self.out, self.options, self.out) as files:
                model = files.default_model()
        if model == "none":
            raise UsageError("without a model there are no vectors")
        return Settings(**given, **model_settings(model))

    def files(self) -> list[SourceFile]:
        """All files, in a fixed order."""
        with find_files(self.paths, self.out, self.options, self.out) as files:
            return [one for one in files.found if isinstance(one, SourceFile)]

    def path(self, shard: int) -> Path:
        """The .json of a shard."""
        return self.out / f"shard-{shard:05d}-of-{self.of:05d}.json"

    def job(self, settings: Settings, files: Sequence[SourceFile]) -> str:
        """A digest of all that the vectors depend on."""
        sizes = [(file.id, file.path.stat().st_size) for file in files]
        kept = {
            name: value
            for name, value in asdict(settings).items()
            if name not in ("model", "hangul", "dense", "recall")
        }
        told = json_bytes([kept, self.options.form, self.of, sizes])
        return hashlib.sha256(told).hexdigest()[:32]


def encode_shard(work: Work, shard: int, tell: Told = lambda _: None, encoder: Encoder | None = None) -> ShardFacts:
    """Make one shard, unless it exists.

    Args:
        work: What is to be encoded.
        shard: Which part, from 1.
        tell: Is told of the progress.
        encoder: If it is loaded already.
    """
    if not 1 <= shard <= work.of:
        raise UsageError(f"shard {shard} of {work.of}: the first is 1, the last {work.of}")
    settings = work.settings()
    files = work.files()
    job = work.job(settings, files)
    path = work.path(shard)
    with disk_errors(work.out):
        work.out.mkdir(parents=True, exist_ok=True)
    if path.is_file() and (known := ShardFacts.load(path)).job == job:
        return known
    encoder = encoder or Encoder.from_pretrained(settings.model)
    vectors, keys = [np.empty((0, settings.dimension), np.float16)], [np.empty((0, 2), np.uint64)]
    done = 0
    for batch in _batches(_passages(files, work, shard, splitter(settings))):
        vectors.append(encoder.encode_passages(batch).astype(np.float16))
        keys.append(np.array([passage_key(title, text) for title, text in batch], np.uint64))
        done += len(batch)
        tell(done)
    facts = ShardFacts(shard, work.of, job, settings.model, settings.fingerprint, settings.dimension, done)
    with disk_errors(work.out):
        _write_array(path.with_suffix(".npy"), np.concatenate(vectors))
        _write_array(path.with_suffix(".keys.npy"), np.concatenate(keys))
        write_atomic(path, json_bytes(asdict(facts)) + b"\n")
    return facts


def _write_array(path: Path, array: np.ndarray) -> None:
    """As `np.save`, which does not say that a disk is full, and leaves behind what it has written."""
    rows = np.ascontiguousarray(array)
    with replacing(path) as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(rows))
        file.write(rows.data)


def _passages(files: Sequence[SourceFile], work: Work, shard: int, cut: Splitter) -> Iterator[tuple[str, str]]:
    """Title and text of the passages of one shard. Small files go to one shard; all have their part of large ones."""
    for number, file in enumerate(files):
        whole = file.path.stat().st_size < _SHARED_FROM
        if whole and number % work.of != shard - 1:
            continue
        for place, document in enumerate(read(file, work.options.form)):
            if isinstance(document, Skipped) or (not whole and place // _BLOCK % work.of != shard - 1):
                continue
            yield from _cut(document, cut)


def _cut(document: Document, cut: Splitter) -> Iterator[tuple[str, str]]:
    """As `Ingest` does it."""
    spans = [(0, len(document.text))]
    if not document.whole or cut.chunks:
        spans = list(cut.spans(document.text, document.blocks)) or spans
    for title, (start, end) in zip(passage_titles(document, spans), spans, strict=True):
        yield title, document.text[start:end]


def _batches(passages: Iterator[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    batch: list[tuple[str, str]] = []
    for passage in passages:
        batch.append(passage)
        if len(batch) == _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch
