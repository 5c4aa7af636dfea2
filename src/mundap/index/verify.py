"""Is the index whole? Every file against its checksum, and the parts against each other."""

import json
import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from mundap.disk import checksum
from mundap.errors import MundapError
from mundap.index.analyzer import Analyzer
from mundap.index.corpus import Corpus
from mundap.index.lexical import Lexical, listed
from mundap.index.manifest import FileEntry, Manifest, Settings
from mundap.models import folder as models

_PARTS = ("encoder", "question")


def verify(root: Path, with_model: bool = True) -> list[str]:
    """Everything that is wrong, in words; an empty list if nothing is. The model is not part of the index's folder.

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
        if with_model and manifest.settings.model:
            problems += _model(manifest.settings)
    except MundapError as error:
        problems.append(str(error))
    return problems


def damaged_passages(root: Path) -> list[str]:
    """What is wrong with the passages, their vectors and what is deleted of them: all else can be made of these.

    Raises:
        MundapError: There is no index, or its manifest cannot be read.
    """
    manifest = Manifest.load(root)
    entries = [entry for segment in manifest.segments for entry in segment.files]
    if manifest.deleted:
        entries.append(manifest.deleted)
    return _files(root, entries)


def _files(root: Path, entries: Iterable[FileEntry]) -> list[str]:
    problems = []
    for entry in entries:
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
    problems = []
    for name in listed(folder):
        if not (folder / name).is_file():
            problems.append(f"{folder / name} is missing")
        elif not name.endswith((".json", ".bin")) and not _crc(folder / name):  # .bin: ours, see terms.py
            problems.append(f"{folder / name} is damaged: its checksum is wrong")
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


def _parts(root: Path, manifest: Manifest) -> list[str]:
    problems = []
    corpus = Corpus(root, manifest)
    settings = manifest.settings
    lexical = Lexical(root / manifest.lexical.folder, Analyzer(settings.language, settings.hangul))
    found = lexical.living(corpus.alive)
    if found != len(corpus):
        problems.append(f"{root / manifest.lexical.folder} knows {found} of {len(corpus)} passages")
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
    return problems


def _model(settings: Settings) -> list[str]:
    """The model's files, each against its checksum, and whether it is the one the index was made with."""
    folder = models.find(settings.model)
    config = models.EncoderConfig.load(folder)
    problems = []
    if config.fingerprint != settings.fingerprint:
        problems.append(f"{folder} is not the model that the index was made with")
    names = {"tokenizer.json", *config.sha256, *(models.weights(folder, part=part).name for part in _PARTS)}
    for name in sorted(names):
        expected = config.sha256.get(name)
        if not (folder / name).is_file():
            problems.append(f"{folder / name} is missing")
        elif expected and checksum(folder / name) != expected:
            problems.append(f"{folder / name} has changed: its checksum is wrong")
    return problems
