"""Verify an index: every file against its checksum, and the parts against each other."""

import json
import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mundap.disk import checksum
from mundap.errors import Message, MundapError
from mundap.index.analyzer import Analyzer
from mundap.index.corpus import Corpus
from mundap.index.lexical import Lexical, listed
from mundap.index.manifest import FileEntry, Manifest, Settings
from mundap.index.segment import Segment
from mundap.models import folder as models

_PARTS = ("encoder", "question")
_AT_ONCE = 65_536  # vectors


def verify(root: Path, with_model: bool = True) -> list[Message]:
    """List all problems of an index, in words; empty if it is intact. See `verify_model` for the model.

    Raises:
        MundapError: There is no index, or its manifest cannot be read.
    """
    manifest = Manifest.load(root)
    problems = _files(root, manifest.files())
    if problems:
        return problems
    try:
        problems += _lexical(root / manifest.lexical.folder)
        problems += _parts(root, manifest) if not problems else []
    except MundapError as error:
        problems.append(Message(error.message, **error.facts))
    if with_model:
        problems += verify_model(root)
    return problems


def verify_model(root: Path) -> list[Message]:
    """Problems of the index's model. It is outside the index's folder, so that no repair can restore it.

    Raises:
        MundapError: There is no index, or its manifest cannot be read.
    """
    settings = Manifest.load(root).settings
    if not settings.model:
        return []
    try:
        return _model(settings)
    except MundapError as error:
        return [Message(error.message, **error.facts)]


def damaged_passages(root: Path) -> list[Message]:
    """Problems of passages, vectors and tombstones: everything else can be rebuilt from these.

    Raises:
        MundapError: There is no index, or its manifest cannot be read.
    """
    manifest = Manifest.load(root)
    entries = [entry for segment in manifest.segments for entry in segment.files]
    if manifest.deleted:
        entries.append(manifest.deleted)
    return _files(root, entries)


def _files(root: Path, entries: Iterable[FileEntry]) -> list[Message]:
    problems: list[Message] = []
    for entry in entries:
        path = root / entry.path
        if not path.is_file():
            problems.append(Message("{path} is missing", path=path))
        elif path.stat().st_size != entry.bytes:
            told = "{path} has {size} bytes, not {expected}"
            problems.append(Message(told, path=path, size=path.stat().st_size, expected=entry.bytes))
        elif checksum(path) != entry.sha256:
            problems.append(Message("{path} has changed: its checksum is wrong", path=path))
    return problems


def _lexical(folder: Path) -> list[Message]:
    """Tantivy's files end with a footer that has the CRC of what is before it."""
    problems: list[Message] = []
    for name in listed(folder):
        path = folder / name
        if not path.is_file():
            problems.append(Message("{path} is missing", path=path))
        elif not name.endswith((".json", ".bin")) and not _crc(path):  # .bin: ours, see terms.py
            problems.append(Message("{path} is damaged: its checksum is wrong", path=path))
    return problems


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


def _parts(root: Path, manifest: Manifest) -> list[Message]:
    problems: list[Message] = []
    corpus = Corpus(root, manifest)
    settings = manifest.settings
    lexical = Lexical(root / manifest.lexical.folder, Analyzer(settings.language, settings.hangul))
    found = lexical.living(corpus.alive)
    if found != len(corpus):
        folder = root / manifest.lexical.folder
        problems.append(Message("{path} knows {n} of {all} passages", path=folder, n=found, all=len(corpus)))
    for segment in corpus.segments:
        table = segment.passages
        if len(table) != len(segment) or (len(table) and int(table["document"].max()) >= len(segment.documents)):
            problems.append(Message("{path}: passages and documents do not fit together", path=segment.folder))
        if settings.dimension:
            problems += _vectors(segment)
    return problems


def _vectors(segment: Segment) -> list[Message]:
    vectors, passages = len(segment.vectors), len(segment)
    if vectors != passages:
        told = "{path}: {vectors} vectors for {passages} passages"
        return [Message(told, path=segment.folder, vectors=vectors, passages=passages)]
    for start in range(0, vectors, _AT_ONCE):
        if not np.isfinite(segment.vectors[start : start + _AT_ONCE]).all():
            return [Message("{path}: a vector is not a number", path=segment.folder)]
    return []


def _model(settings: Settings) -> list[Message]:
    """The model's files, each against its checksum, and whether it is the one the index was made with."""
    folder = models.find(settings.model)
    config = models.EncoderConfig.load(folder)
    problems: list[Message] = []
    if config.fingerprint != settings.fingerprint:
        problems.append(Message("{path} is not the model that the index was made with", path=folder))
    names = {"tokenizer.json", *config.sha256, *(models.weights(folder, part=part).name for part in _PARTS)}
    for name in sorted(names):
        path, expected = folder / name, config.sha256.get(name)
        if not path.is_file():
            problems.append(Message("{path} is missing", path=path))
        elif expected and checksum(path) != expected:
            problems.append(Message("{path} has changed: its checksum is wrong", path=path))
    return problems
