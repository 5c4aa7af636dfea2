"""Precomputed vectors: shards of `mundap encode`, and files of other programs.

Nothing here runs what a file says: pickles of DPR and Tevatron are read by `pickles.py`, which knows lists, strings and
arrays and nothing else.
"""

import json
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mundap.engines.pickles import read_pickle
from mundap.engines.shards import SHARD, ShardFacts, passage_key
from mundap.errors import ExtraMissing, MundapError, UsageError
from mundap.index.manifest import Settings
from mundap.index.writer import Writer
from mundap.records import Document

_CHECKED_AT_ONCE = 65_536
_KnownBy = Literal["order", "content", "id"]
"""How a row is told from others: by its place, by the passage's title and text, or by the passage's id."""
_NAMED = ("vectors", "embeddings", "vector")  # what a safetensors file calls its matrix


@dataclass(frozen=True, slots=True)
class _Part:
    """One file of vectors.

    Attributes:
        path: The file.
        vectors: One row per passage.
        keys: One row of two numbers a passage, by which it is known; None where rows are in the order of the passages.
        facts: Of a shard of our own: what it is a shard of.
    """

    path: Path
    vectors: np.ndarray
    keys: np.ndarray | None
    facts: ShardFacts | None = None


class ReadyVectors:
    """Precomputed vectors, used in place of an encoder while an index is built.

    Args:
        folder: A folder with vectors, or one file.
        settings: Of the index they are for.

    Raises:
        UsageError: They do not fit the model, or each other, or have shards missing or twice.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        if not settings.dimension:
            raise UsageError("an index without a model has no vectors: name the question encoder")
        self.folder = folder
        self._parts = [_opened(path) for path in _files(folder)]
        _check_shards(folder, self._parts, settings)
        for part in self._parts:
            _check_numbers(part, settings.dimension)
        self._by = _known_by(folder, self._parts)
        self._expected: deque[tuple[int, int]] = deque()
        self._next = 0
        self._starts = np.cumsum([0, *(len(part.vectors) for part in self._parts)])
        if self._by != "order":
            self._keys, self._rows = _sorted_keys(folder, self._parts)
        if self._by == "id":
            self._refuse_doubles()

    @property
    def ordered(self) -> bool:
        """Whether rows are known by their order alone."""
        return self._by == "order"

    def _refuse_doubles(self) -> None:
        """Two rows for one id: nobody can tell which is meant. Equal passages, which shards may have, are no harm."""
        doubled = np.flatnonzero((self._keys[1:] == self._keys[:-1]).all(axis=1))
        if len(doubled):
            places = []
            for row in sorted(self._rows[doubled[0] : doubled[0] + 2].tolist()):
                part = int(np.searchsorted(self._starts, row, "right")) - 1
                places.append(f"row {row - self._starts[part]} of {self._parts[part].path.name}")
            raise UsageError(f"{self.folder} has two vectors with the same id: {places[0]} and {places[1]}")

    def expect(self, names: Sequence[str]) -> None:
        """Announce the ids of the next passages, for files with ids."""
        if self._by == "id":
            self._expected += [passage_key(name) for name in names]

    def begin_at(self, passages: int, new: bool) -> None:
        """Set how many passages the index has already.

        Raises:
            UsageError: Rows that are known by their order alone cannot be added to an index.
        """
        if self._by == "order" and not new:
            raise UsageError(f"{self.folder} has vectors without ids, in the order of the passages: build anew")
        self._next = passages

    def encode_passages(self, passages: Iterable[tuple[str, str]]) -> np.ndarray:
        """The vectors of the next passages, as an encoder would give them."""
        given = list(passages)
        if self._by == "order":
            rows = np.arange(self._next, self._next + len(given))
            self._next += len(given)
            if self._next > self._starts[-1]:
                raise UsageError(f"{self.folder} has {self._starts[-1]} vectors, and there are more passages than that")
            return self._at(rows)
        wanted = [passage_key(title, text) for title, text in given]
        if self._by == "id":
            wanted = [self._expected.popleft() for _ in given]
        return self._at(self._find(np.array(wanted, np.uint64).reshape(-1, 2), given))

    def finished(self) -> None:
        """Make sure that there were as many rows as passages, for files without ids.

        Raises:
            UsageError: They were more: then they belong to something else.
        """
        if self._by == "order" and self._next != self._starts[-1]:
            raise UsageError(
                f"{self.folder} has {self._starts[-1]} vectors for {self._next} passages: they are of other passages, "
                "or these were cut in another way. The index is not finished."
            )

    def _find(self, wanted: np.ndarray, given: Sequence[tuple[str, str]]) -> np.ndarray:
        places = np.searchsorted(self._keys[:, 0], wanted[:, 0])
        rows = np.full(len(wanted), -1, np.int64)
        # Two keys may share their first half: look on until the second half fits.
        for number, place in enumerate(places.tolist()):
            while place < len(self._keys) and self._keys[place, 0] == wanted[number, 0]:
                if self._keys[place, 1] == wanted[number, 1]:
                    rows[number] = self._rows[place]
                    break
                place += 1
        if (rows < 0).any():
            title, text = given[int(np.flatnonzero(rows < 0)[0])]
            raise UsageError(
                f"{self.folder} has no vector for the passage {title!r}, {text[:60]!r}…: it was changed since, or cut "
                "in another way, or not all files are there. The index is not finished."
            )
        return rows

    def _at(self, rows: np.ndarray) -> np.ndarray:
        owner = np.searchsorted(self._starts, rows, "right") - 1
        result = np.empty((len(rows), self._parts[0].vectors.shape[1]), np.float32)
        for number in np.unique(owner):
            mine = owner == number
            result[mine] = self._parts[number].vectors[rows[mine] - self._starts[number]]
        return result


class VectorWriter(Writer):
    """A writer of an index that takes precomputed vectors.

    Args:
        vectors: Where.
        root: The index.
        settings: Of the index.
        _encoder: Not needed.
        further: As for `Writer`.
    """

    def __init__(self, vectors: Path, root: Path, settings: Settings, _encoder: Any, *further: Any) -> None:
        self.ready = ReadyVectors(vectors, settings)
        untyped: Any = self.ready
        super().__init__(root, settings, untyped, *further)
        try:
            self.ready.begin_at(len(self.corpus), new=self.committed is None or self.fresh)
        except UsageError:
            self.__exit__(None, None, None)  # nobody else will: it was never entered
            raise

    def add(self, document: Document, spans: Sequence[tuple[int, int]], languages: Sequence[str] = ()) -> int:
        """Add a document with its passages."""
        names = [document.id]
        if len(spans) != 1:
            names = [f"{document.id}#{place}" for place in range(1, len(spans) + 1)]
        self.ready.expect(names)
        return super().add(document, spans, languages)

    def commit(self) -> bool:
        """Show the changes, if the vectors were the right ones."""
        while self._waiting:
            self._encode(len(self._waiting))
        self.ready.finished()
        return super().commit()


# ---------------------------------------------------------------- files


def _files(folder: Path) -> list[Path]:
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such file or folder")
    visible = [path for path in sorted(folder.iterdir()) if not path.name.startswith(".") and path.is_file()]
    found = [path for path in visible if SHARD.fullmatch(path.name)] or list(filter(_is_vectors, visible))
    if not found:
        raise UsageError(f"{folder} has no vectors: no .npy, .safetensors or pickle file, no shard of `mundap encode`")
    return found


def _is_vectors(path: Path) -> bool:
    if path.name.endswith(".keys.npy"):
        return False
    return path.suffix in (".npy", ".safetensors", ".pkl", ".pickle", ".pt") or _is_pickle(path)


def _is_pickle(path: Path) -> bool:
    """DPR gives its files names such as wiki_0, without an ending: protocol 2 and later begin with these bytes."""
    with path.open("rb") as file:
        head = file.read(2)
    return len(head) == 2 and head[0] == 0x80 and 2 <= head[1] <= 5


def _opened(path: Path) -> _Part:
    try:
        if SHARD.fullmatch(path.name):
            facts = ShardFacts.load(path)
            return _Part(path, _array(path.with_suffix(".npy")), _array(path.with_suffix(".keys.npy")), facts)
        if path.suffix == ".npy":
            vectors = _array(path)
            return _Part(path, vectors, _ids_beside(path, len(vectors)))
        if path.suffix == ".safetensors":
            vectors = _safetensors(path)
            return _Part(path, vectors, _ids_beside(path, len(vectors)))
        vectors, ids = read_pickle(path)
        return _Part(path, vectors, _keys(ids, path, len(vectors)))
    except (OSError, ValueError, EOFError, KeyError) as error:
        raise MundapError(f"{path} cannot be read: {error}") from error


def _array(path: Path) -> np.ndarray:
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (MemoryError, OSError):
        raise
    except Exception as error:  # numpy has no class for a broken file: what comes is zipfile's, the tokenizer's, …
        raise ValueError(f"it is no array ({error})") from error
    if not isinstance(found, np.ndarray) or not found.ndim:
        raise ValueError("it holds no rows")
    return found


def _safetensors(path: Path) -> np.ndarray:
    try:
        from safetensors.numpy import load_file
    except ModuleNotFoundError as error:
        raise ExtraMissing(f"reading {path.name}", "train") from error
    from safetensors import SafetensorError

    try:
        tensors = load_file(path)
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    matrices = {name: np.asarray(tensor) for name, tensor in tensors.items() if tensor.ndim == 2}
    for name in _NAMED:
        if name in matrices:
            return matrices[name]
    if len(matrices) == 1:
        return matrices.popitem()[1]
    listed = ", ".join(sorted(tensors)) or "no tensors"
    raise UsageError(f"{path}: which of {listed} are the vectors? Name it `vectors`.")


def _ids_beside(path: Path, rows: int) -> np.ndarray | None:
    """Ids in a text file beside: NAME.ids or NAME.txt one a line, NAME.json a list. Without, the order counts."""
    for suffix in (".ids", ".txt", ".json"):
        beside = path.with_suffix(suffix)
        if beside.is_file():
            text = beside.read_text("utf-8")
            ids = text.splitlines()
            if suffix == ".json":
                ids = _json(text, beside)
            return _keys(ids, beside, rows)
    return None


def _json(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{path} is no list of ids ({error})") from error


def _keys(ids: Any, path: Path, rows: int) -> np.ndarray:
    if not isinstance(ids, list):
        raise UsageError(f"{path} is no list of ids")
    if len(ids) != rows:
        raise UsageError(f"{path} has {len(ids)} ids for {rows} vectors")
    named = [passage_key(str(name).removeprefix("wiki:")) for name in ids]
    return np.array(named, np.uint64).reshape(-1, 2)


# ---------------------------------------------------------------- checks


def _check_complete(folder: Path, numbers: Sequence[int], total: int) -> None:
    for number, after in pairwise(numbers):
        if number == after:
            raise UsageError(f"{folder} has shard {number} of {total} twice")
    missing = sorted(set(range(1, total + 1)).difference(numbers))
    if missing:
        listed = ", ".join(map(str, missing[:10]))
        if len(missing) > 10:
            listed += " …"
        raise UsageError(
            f"{folder}: {len(missing)} of {total} shards are missing: {listed}. "
            f"Make them with `mundap encode … --shard {missing[0]}/{total}`."
        )


def _check_shards(folder: Path, parts: Sequence[_Part], settings: Settings) -> None:
    """Every shard once, all of one job, made with the model of the index."""
    facts = [part.facts for part in parts if part.facts is not None]
    if not facts:
        return
    if len({fact.job for fact in facts}) > 1:
        raise UsageError(f"{folder} has shards of different jobs: other files, another model or another way of cutting")
    _check_complete(folder, sorted(fact.shard for fact in facts), facts[0].of)
    if facts[0].fingerprint != settings.fingerprint:
        raise UsageError(
            f"{folder} was made with the model {facts[0].model}, and the index has {settings.model}: their vectors do "
            f"not fit. Index with the model {facts[0].model}."
        )


def _check_numbers(part: _Part, dimension: int) -> None:
    vectors = part.vectors
    if vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise UsageError(f"{part.path}: not a matrix of floating point numbers but {vectors.dtype}, {vectors.shape}")
    if vectors.shape[1] != dimension:
        raise UsageError(f"{part.path} has vectors of {vectors.shape[1]} dimensions; the model's have {dimension}")
    if part.keys is not None and part.keys.shape != (len(vectors), 2):
        raise UsageError(f"{part.path} has {len(vectors)} vectors and {len(part.keys)} keys")
    for start in range(0, len(vectors), _CHECKED_AT_ONCE):
        # nan fails every comparison. The index stores half precision: what is larger would become infinity there.
        good = (np.abs(vectors[start : start + _CHECKED_AT_ONCE]) <= float(np.finfo(np.float16).max)).all(axis=1)
        if not good.all():
            row = start + int(np.flatnonzero(~good)[0])
            raise UsageError(f"{part.path}: vector {row} has nan, infinity or a number that half precision cannot hold")


def _known_by(folder: Path, parts: Sequence[_Part]) -> _KnownBy:
    """How rows are told apart, which must be the same for all files."""
    kinds: set[_KnownBy] = set()
    for part in parts:
        if part.keys is None:
            kinds.add("order")
        elif part.facts is not None:
            kinds.add("content")
        else:
            kinds.add("id")
    if len(kinds) > 1:
        raise UsageError(f"{folder} has vectors of several kinds: give files that were made in the same way")
    return kinds.pop()


def _sorted_keys(folder: Path, parts: Sequence[_Part]) -> tuple[np.ndarray, np.ndarray]:
    """All keys in order, and the row each stands for."""
    keys = np.concatenate([part.keys for part in parts if part.keys is not None])
    if not len(keys):
        raise UsageError(f"{folder} has no vectors in it")
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    return keys[order], order
