"""The one small file that says what the index consists of. What it does not list does not exist."""

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from mundap.disk import write_atomic
from mundap.errors import IndexDamaged, IndexMissing

FORMAT = 1
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
    """The approximate dense index: it covers the passages numbered below `until`; newer ones are scanned."""

    file: FileEntry
    kind: str
    until: int
    passages: int


@dataclass(frozen=True, slots=True)
class Settings:
    """What an index is made with and keeps for life.

    Attributes:
        words: The most words in a passage.
        overlap: Words repeated from the passage before.
        sentences: Whether passages end where sentences do.
        chunks: The most passages of a document; 0 for all.
        language: The language of the stemmer and the stop words, a two-letter code.
        hangul: How Korean is analysed: `kiwi` (morphemes) or `bigrams`.
        model: The encoder's name or folder; empty for an index without vectors.
        fingerprint: The encoder's own checksum.
        dimension: The length of a vector.
        dense: `auto`, `exact`, `ivf` or `hnsw`.
    """

    words: int = 100
    overlap: int = 0
    sentences: bool = False
    chunks: int = 0
    language: str = "en"
    hangul: str = "bigrams"
    model: str = ""
    fingerprint: str = ""
    dimension: int = 0
    dense: str = "auto"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A state of the index. Passage numbers are given out once and never used again.

    Attributes:
        settings: What the index was made with.
        lexical: The folder of the lexical index, which keeps its own checksums.
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
    lexical: str
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
        """Every file this state consists of, besides the lexical index."""
        entries = [entry for segment in self.segments for entry in segment.files]
        entries += [self.deleted] if self.deleted else []
        return entries + ([self.dense.file] if self.dense else [])

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
    def load(cls, folder: Path, name: str = COMMITTED) -> Self:
        """Read and check it.

        Raises:
            IndexMissing: There is none.
            IndexDamaged: It is broken or of a newer format.
        """
        path = folder / name
        try:
            body = json.loads(path.read_bytes())
            version = body.pop("format")
        except (FileNotFoundError, NotADirectoryError):
            if name == COMMITTED and (folder / IN_PROGRESS).exists():
                raise IndexMissing(
                    f"the index in {folder} is not finished. Wait for its build, or run it again to go on."
                ) from None
            raise IndexMissing(f"no index in {folder}. Make one with: mundap index PATHS… -o {folder}") from None
        except OSError as error:
            raise IndexDamaged(f"{path} cannot be read: {error.strerror}.") from error
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _damaged(path, "is not a manifest") from None
        if version != FORMAT:
            raise IndexDamaged(
                f"{path}: index format {version}, and this program reads format {FORMAT}. "
                "Upgrade mundap, or build the index again with `mundap index --fresh`."
            )
        if body.pop("sha256", None) != _digest(body):
            raise _damaged(path, "does not match its checksum")
        return cls(**_restore(body))


def _digest(body: dict[str, Any]) -> str:
    canonical = json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _restore(body: dict[str, Any]) -> dict[str, Any]:
    segments = tuple(
        SegmentEntry(**{**segment, "files": tuple(FileEntry(**entry) for entry in segment["files"])})
        for segment in body["segments"]
    )
    dense = body["dense"]
    return {
        **body,
        "settings": Settings(**body["settings"]),
        "segments": segments,
        "deleted": FileEntry(**body["deleted"]) if body["deleted"] else None,
        "dense": DenseEntry(**{**dense, "file": FileEntry(**dense["file"])}) if dense else None,
    }


def _damaged(path: Path, what: str) -> IndexDamaged:
    return IndexDamaged(f"{path} {what}. Restore it from a copy, or build again with `mundap index --fresh`.")
