"""Is the index whole? Every file against its checksum, and the parts against each other."""

import json
import os
import struct
import zlib
from pathlib import Path

import numpy as np

from mundap.disk import checksum
from mundap.errors import MundapError
from mundap.index.analyzer import Analyzer
from mundap.index.corpus import Corpus
from mundap.index.lexical import Lexical
from mundap.index.manifest import Manifest
from mundap.models import folder as models

_TANTIVY_FILES = ("idx", "pos", "term", "store", "fast", "fieldnorm")


def verify(root: Path) -> list[str]:
    """Everything that is wrong, in words; an empty list if nothing is.

    Raises:
        MundapError: There is no index, or its manifest cannot be read.
    """
    manifest = Manifest.load(root)
    problems = _files(root, manifest)
    if problems:
        return problems
    try:
        problems += _lexical(root / manifest.lexical)
        problems += _parts(root, manifest) if not problems else []
    except MundapError as error:
        problems.append(str(error))
    return problems


def _files(root: Path, manifest: Manifest) -> list[str]:
    problems = []
    for entry in manifest.files():
        path = root / entry.path
        if not path.is_file():
            problems.append(f"{path} is missing")
        elif path.stat().st_size != entry.bytes:
            problems.append(f"{path} has {path.stat().st_size} bytes, not {entry.bytes}")
        elif checksum(path) != entry.sha256:
            problems.append(f"{path} has changed: its checksum is wrong")
    return problems


def _lexical(folder: Path) -> list[str]:
    """Tantivy's files end with a footer that has the CRC of what is before it."""
    try:
        segments = json.loads((folder / "meta.json").read_bytes())["segments"]
        names = [segment["segment_id"].replace("-", "") for segment in segments]
    except (OSError, ValueError, KeyError, TypeError):
        return [f"{folder / 'meta.json'} is missing or broken"]
    expected = {f"{name}.{kind}" for name in names for kind in _TANTIVY_FILES}
    present = {path.name for path in folder.iterdir() if path.name.split(".")[0] in names}
    problems = [f"{folder / name} is missing" for name in sorted(expected - present)]
    damaged = (name for name in sorted(present) if not _crc(folder / name))
    return problems + [f"{folder / name} is damaged: its checksum is wrong" for name in damaged]


def _crc(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(size - 8, 0))
            length, _ = struct.unpack("<II", file.read(8))
            file.seek(size - 8 - length)
            expected = json.loads(file.read(length))["crc"]
            file.seek(0)
            left, actual = size - 8 - length, 0
            while left > 0 and (block := file.read(min(left, 1 << 20))):
                actual = zlib.crc32(block, actual)
                left -= len(block)
            return bool(actual == expected)
    except (OSError, ValueError, KeyError, TypeError, struct.error):
        return False


def _parts(root: Path, manifest: Manifest) -> list[str]:
    problems = []
    corpus = Corpus(root, manifest)
    settings = manifest.settings
    lexical = Lexical(root / manifest.lexical, Analyzer(settings.language, settings.hangul))
    found = lexical.living(corpus.alive)
    if found != len(corpus):
        problems.append(f"{root / manifest.lexical} knows {found} of {len(corpus)} passages")
    for segment in corpus.segments:
        table = segment.passages
        if len(table) != len(segment) or (len(table) and int(table["document"].max()) >= len(segment.documents)):
            problems.append(f"{segment.folder}: passages and documents do not fit together")
        if settings.dimension and len(segment.vectors) != len(segment):
            problems.append(f"{segment.folder}: {len(segment.vectors)} vectors for {len(segment)} passages")
        elif settings.dimension and not all(
            np.isfinite(segment.vectors[start : start + 65536]).all() for start in range(0, len(segment), 65536)
        ):
            problems.append(f"{segment.folder}: a vector is not a number")
    if settings.model:
        problems += _model(settings.model)
    return problems


def _model(name: str) -> list[str]:
    folder = models.find(name)
    config = models.EncoderConfig.load(folder)
    return [
        f"{folder / file} has changed: its checksum is wrong"
        for file, expected in config.sha256.items()
        if (folder / file).is_file() and checksum(folder / file) != expected
    ]
