"""The source of the real vectors that generated ones imitate: texts, an index, or the examples of a clone."""

import random
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

from mundap.bench.vectors import Bank
from mundap.encoder.runtime import Encoder
from mundap.errors import UsageError
from mundap.index.build import Options
from mundap.index.corpus import Corpus
from mundap.index.files import find_files
from mundap.index.manifest import Manifest, Settings
from mundap.index.model import open_encoder
from mundap.index.tuning import sample_questions, some_words

EXAMPLES = Path(__file__).parents[3] / "examples"
"""There in a clone of the repository only."""

_MOST = 50_000
_QUESTIONS = 1000
_SEED = 7


def from_texts(paths: Sequence[str | Path] = ()) -> Bank:
    """Encode the passages of some files, and questions drawn from them, with the shipped encoder.

    Args:
        paths: Files and folders, as `mundap index` takes them; by default the examples.

    Raises:
        UsageError: There are no examples, or not enough text.
    """
    if not paths:
        if not EXAMPLES.is_dir():
            raise UsageError("the examples are in a clone of the repository only: name texts of your own")
        paths = [EXAMPLES / "encyclopedia" / "en", EXAMPLES / "documentation"]
    encoder = Encoder.from_pretrained()
    settings = Settings(sentences=True)
    with find_files(paths, Path.cwd(), Options()) as files:
        found = list(islice(files.passages(settings), _MOST))
    vectors = encoder.encode_passages(found)
    return Bank.of(vectors, encoder.encode_questions(list(_questions([text for _, text in found]))))


def from_index(path: Path) -> Bank:
    """The vectors of an index, or of a sample of it, and questions drawn from its passages.

    Raises:
        UsageError: It has no vectors, or not enough.
    """
    manifest = Manifest.load(path)
    encoder = open_encoder(manifest.settings)
    if encoder is None:
        raise UsageError(f"the index in {path} has no vectors: choose one that was made with a model")
    corpus = Corpus(path, manifest)
    numbers = np.sort(corpus.sample(_MOST, random.Random(_SEED)))  # noqa: S311
    return Bank.of(corpus.vectors(numbers), sample_questions(corpus, encoder, _QUESTIONS))


def _questions(texts: Sequence[str]) -> Iterator[str]:
    """A few consecutive words of passages: as short as questions, and about as far from passages."""
    chance = random.Random(_SEED)  # noqa: S311
    for text in chance.sample(texts, min(_QUESTIONS, len(texts))):
        yield some_words(text, chance)
