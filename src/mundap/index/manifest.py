"""The one small file that says what the index consists of. What it does not list does not exist.

Format 2 lists the files of the lexical index too. An index of format 1, which did not, is opened as it is, and becomes
one of format 2 with the next change.

Whoever extends the manifest has two ways. A field that an older program may overlook is simply added: older ones read
the index and refuse to change it, since they would lose the field. A field that must not be overlooked raises `FORMAT`.
"""

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path, PurePosixPath
from types import UnionType
from typing import Any, Self, TypeVar, get_args, get_origin, get_type_hints

from mundap.disk import write_atomic
from mundap.errors import IndexDamaged, IndexMissing
from mundap.index.modes import MOST_K1, TANTIVY, Bm25

FORMAT = 2
READABLE = (1, 2)
COMMITTED = "manifest.json"
IN_PROGRESS = "manifest.next.json"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file with what it must be: its path below the index folder, its size and its SHA-256."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """A segment: passages with the numbers `first` to `last`, fewer than that if some were compacted away."""

    name: str
    first: int
    last: int
    passages: int
    documents: int
    files: tuple[FileEntry, ...]


@dataclass(frozen=True, slots=True)
class DenseEntry:
    """The approximate dense index: it covers the passages numbered below `until`; newer ones are scanned.

    Where it was tuned for a recall, `probes` and `candidates` are how much of it is searched, and `recall` is what that
    found of a sample, in thousandths; else they are 0, and the table of `sizes.py` says it. `copy` is the eight-bit
    copy of the vectors that a large one has; whoever overlooks it finds the same, only slower.
    """

    file: FileEntry
    kind: str
    until: int
    passages: int
    probes: int = 0
    candidates: int = 0
    recall: int = 0
    copy: FileEntry | None = None

    def files(self) -> list[FileEntry]:
        """Its files."""
        return [one for one in (self.file, self.copy) if one]


@dataclass(frozen=True, slots=True)
class LexicalEntry:
    """The lexical index of a state: a folder that is never written to once it is committed, and its files.

    Of work in progress and in format 1 the files are not listed.
    """

    folder: str
    files: tuple[FileEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """What an index is made with and keeps for life.

    Attributes:
        words: Maximum words per passage.
        overlap: Words repeated from the previous passage.
        sentences: Whether passages end where sentences do.
        chunks: Maximum passages per document; 0 for all.
        language: The language of the stemmer and the stop words, a two-letter code; `auto` for that of each passage.
        hangul: How Korean is analysed: `kiwi` (morphemes) or `bigrams`.
        model: The encoder's name or folder; empty for an index without vectors.
        fingerprint: The encoder's own checksum.
        dimension: The length of a vector.
        dense: `auto`, `exact`, `ivf` or `hnsw`.
        k1: Of BM25, as searches use it that ask for no other. An index from before it was noted has tantivy's.
        b: Likewise.
        recall: What an approximate index is tuned for, in thousandths; 0 for the table of `sizes.py`.
    """

    words: int = 100
    overlap: int = 0
    sentences: bool = False
    chunks: int = 0
    language: str = "auto"
    hangul: str = "bigrams"
    model: str = ""
    fingerprint: str = ""
    dimension: int = 0
    dense: str = "auto"
    recall: int = 0
    k1: float = TANTIVY.k1
    b: float = TANTIVY.b

    @property
    def bm25(self) -> Bm25:
        """The parameters of BM25 together."""
        return Bm25(self.k1, self.b)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A state of the index. Passage numbers are given out once and never used again.

    Attributes:
        settings: What the index was made with.
        lexical: The lexical index.
        generation: Counts the commits.
        next_number: The number of the next new passage.
        next_segment: The name of the next new segment.
        segments: In the order of their numbers.
        deleted: The numbers of deleted passages that are still in a segment.
        dense: The approximate dense index, if there is one.
        tool: What wrote it.
        job: Of work in progress: what is being done.
    """

    settings: Settings
    lexical: LexicalEntry
    generation: int = 0
    next_number: int = 0
    next_segment: int = 0
    segments: tuple[SegmentEntry, ...] = ()
    deleted: FileEntry | None = None
    dense: DenseEntry | None = None
    tool: str = ""
    job: dict[str, Any] = field(default_factory=dict)

    @property
    def passages(self) -> int:
        """Passages in the segments, deleted ones included."""
        return sum(segment.passages for segment in self.segments)

    def files(self) -> list[FileEntry]:
        """Every file this state consists of."""
        entries = [entry for segment in self.segments for entry in segment.files]
        entries += self.lexical.files
        entries += [self.deleted] if self.deleted else []
        return entries + (self.dense.files() if self.dense else [])

    def with_changes(self, **changes: Any) -> Self:
        """A copy with some fields replaced."""
        return replace(self, **changes)

    def save(self, folder: Path, name: str) -> None:
        """Write it, atomically, with a digest over itself."""
        body = asdict(self)
        digest = _digest(body)
        text = json.dumps({"format": FORMAT, "sha256": digest, **body}, ensure_ascii=False, indent=1)
        write_atomic(folder / name, text.encode() + b"\n")

    @classmethod
    def load(cls, folder: Path, name: str = COMMITTED, to_change: bool = False) -> Self:
        """Read and check it, as `find` does.

        Raises:
            IndexMissing: There is none.
            IndexDamaged: It is broken or of a newer format.
        """
        found = cls.find(folder, name, to_change)
        if found is not None:
            return found
        if name == COMMITTED and (folder / IN_PROGRESS).exists():
            message = "the index in {path} is not finished. Wait for its build, or run it again to resume."
            raise IndexMissing(message, path=folder)
        raise IndexMissing("no index in {path}. Make one with `mundap index PATHS… -o {path}`.", path=folder)

    @classmethod
    def find(cls, folder: Path, name: str = COMMITTED, to_change: bool = False) -> Self | None:
        """Read and check it; None if there is none.

        Args:
            folder: The index.
            name: The committed state, or the work in progress.
            to_change: It will be written again: then nothing in it may be unknown.

        Raises:
            IndexDamaged: It is broken or of a newer format.
        """
        path = folder / name
        body = _body(path)
        if body is None:
            return None
        unknown: list[str] = []
        try:
            manifest = _restored(cls, body, "", unknown)
            _check_names(manifest)
            _check_numbers(manifest)
        except _Misfit as error:
            raise _damaged(path, f"is not as it should be: {error}") from None
        if unknown and to_change:
            raise IndexDamaged(
                f"the index in {folder} was written by a newer program ({manifest.tool}), and this one does not know "
                f"its {unknown[0]}. It can be read. Upgrade mundap to change it."
            )
        return manifest


T = TypeVar("T")
_NAMES = {int: "a whole number", str: "a text", bool: "true or false", float: "a number", dict: "an object"}


class _Misfit(Exception):
    """A value is not what its field wants."""


def _body(path: Path) -> dict[str, Any] | None:
    """What the file says, or None if there is none."""
    try:
        body = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise IndexDamaged(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError):
        raise _damaged(path, "is not a manifest") from None
    if not isinstance(body, dict) or "format" not in body:
        raise _damaged(path, "is not a manifest")
    _check_body(path, body)
    return body


def _check_body(path: Path, body: dict[str, Any]) -> None:
    """Refuse a format that is not known and a digest that does not fit; what is left are the fields of today."""
    version = body.pop("format")
    if version not in READABLE or isinstance(version, bool):
        raise IndexDamaged(
            f"{path}: index format {str(version)[:20]}, and this program reads formats up to {FORMAT}. "
            "Upgrade mundap, or build the index again with `mundap index --fresh`."
        )
    if body.pop("sha256", None) != _digest(body):
        raise _damaged(path, "does not match its checksum")
    if version == 1:
        body["lexical"] = {"folder": body.get("lexical")}


def _digest(body: dict[str, Any]) -> str:
    try:
        canonical = json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        return ""
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


def _restored(kind: type[T], value: Any, where: str, unknown: list[str]) -> T:
    """A record out of its JSON, every value of the type it should have; names of further fields go to `unknown`."""
    if not isinstance(value, dict):
        raise _Misfit(f"{where or 'it'} is not an object")
    types = get_type_hints(kind)
    unknown += [f"{where}{name}" for name in value if name not in types]
    found = {}
    for one in fields(kind):  # type: ignore[arg-type]
        if one.name in value:
            found[one.name] = _value(types[one.name], value[one.name], where + one.name, unknown)
    try:
        return kind(**found)
    except TypeError:
        missing = next(name for name in types if name not in found)
        raise _Misfit(f"{where}{missing} is missing") from None


def _value(kind: Any, value: Any, where: str, unknown: list[str]) -> Any:
    inside = get_args(kind)
    if isinstance(kind, UnionType):  # something, or None
        if value is None:
            return None
        return _value(inside[0], value, where, unknown)
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise _Misfit(f"{where} is not a list")
        return tuple(_value(inside[0], one, where, unknown) for one in value)
    if is_dataclass(kind):
        return _restored(kind, value, f"{where}.", unknown)  # type: ignore[arg-type]
    return _plain_value(get_origin(kind) or kind, value, where)


def _plain_value(wanted: Any, value: Any, where: str) -> Any:
    if wanted is float and type(value) is int:  # other programs may write 1 for 1.0
        value = float(value)
    # True is an int to Python; no count or size of ours is negative, or beyond what a file can hold.
    if not isinstance(value, wanted) or isinstance(value, bool) != (wanted is bool):
        raise _Misfit(f"{where} is not {_NAMES[wanted]}")
    if wanted is int and not 0 <= value < 1 << 62:
        raise _Misfit(f"{where} is out of bounds")
    if wanted is float and not 0 <= value <= MOST_K1:  # nan is not either
        raise _Misfit(f"{where} is out of bounds")
    return value


def _check_names(manifest: Manifest) -> None:
    """What a manifest names is below the folder of the index, where it always is."""
    if manifest.settings.b > 1:
        raise _Misfit("settings.b is out of bounds")
    if not re.fullmatch(r"lexical-\d{6,}", manifest.lexical.folder):
        raise _Misfit("lexical.folder is no name of ours")
    for segment in manifest.segments:
        if not re.fullmatch(r"\d{6,}", segment.name):
            raise _Misfit("a segment has no name of ours")
    for entry in manifest.files():
        path = PurePosixPath(entry.path)
        if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in entry.path:
            raise _Misfit(f"the file {entry.path[:100]!r} is not below it")


def _check_numbers(manifest: Manifest) -> None:
    """The numbers of segments follow each other, there are enough of them, and new ones are beyond all of these."""
    free = 0
    for segment in manifest.segments:
        if segment.first < free or segment.passages > segment.last - segment.first + 1:
            raise _Misfit(f"the numbers of segment {segment.name} do not fit")
        free = segment.last + 1
    if manifest.next_number < free:
        raise _Misfit("next_number is in use already")


def _damaged(path: Path, what: str) -> IndexDamaged:
    return IndexDamaged(f"{path} {what}. Restore it from a copy, or build again with `mundap index --fresh`.")
