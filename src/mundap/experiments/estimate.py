"""How long an experiment will take, from the speed of this machine on a few texts."""

import shutil
import time
from pathlib import Path

from mundap.datasets import queries
from mundap.errors import UsageError
from mundap.experiments.lab import Inputs, Lab
from mundap.experiments.ranking import TrainedEncoder
from mundap.index.index import Index
from mundap.records import Context
from mundap.training.learner import Tell
from mundap.training.recipe import AnceRecipe

_TEXTS = 16
_BACKWARD = 3  # a training step costs about three forward passes
_PAPERS = ("nq", "triviaqa", "wq", "trec", "squad")
_BYTES = 650  # of a passage of a hundred words with its title; compressed a third of that
_INDEX = 2  # bytes of a BM25 index for each of its text
_TEXT = "a passage of a hundred words or so stands for all of them here " * 12


def tell_ahead(inputs: Inputs, tell: Tell) -> None:
    """Check the files of an experiment at full scale, and say what they are and what it takes, before any work.

    Args:
        inputs: What the experiment is made with.
        tell: Called with a line for each file, and for time and disk.

    Raises:
        UsageError: A file is missing or empty.
    """
    files, scale = inputs.files, inputs.scale
    size = sum(map(_size, files.corpus))
    passages = _passages(files.corpus)
    tell(f"corpus: {', '.join(map(str, files.corpus))}: {size / 1e9:,.1f} GB, about {passages:,} passages")
    questions = 0
    for name, (train, test) in files.sets.items():
        counts = [_questions(train), _questions(test)]
        tell(f"{name}: {counts[0]:,} training questions in {train}, {counts[1]:,} held-out ones in {test}")
        questions += counts[0]
        if name in files.qrels:
            judged = files.judgements(name)
            judgements = sum(map(len, judged.values()))
            tell(f"{name}: {judgements:,} judgements of {len(judged):,} questions in {files.qrels[name]}")
    missing = [name for name in _PAPERS if name not in files.sets]
    if missing:
        tell(f"sets of the papers that are not there, as NAME-train.* and NAME-test.*: {', '.join(missing)}")
    recipe = AnceRecipe(base_model=str(inputs.base_model), passage_length=scale.passage_length)
    seconds = _seconds_per_passage(TrainedEncoder(inputs.base_model, recipe))
    steps = scale.steps or scale.epochs * questions // scale.batch_size
    hours = _row_seconds(steps, scale.batch_size, passages, seconds) / 3600
    disk = _token_gigabytes(passages, scale.passage_length) + _INDEX * size / 1e9
    tell(
        f"each row that is trained takes about {hours:,.1f} hours on this machine, with each seed; all rows together "
        f"{disk:,.1f} GB of disk beside the models ({_free(inputs.out):,.0f} GB are free)"
    )


def _size(path: Path) -> int:
    """Bytes of a file, or of all in a folder.

    Raises:
        UsageError: There is none, or nothing in it.
    """
    total = 0
    if path.is_file():
        total = path.stat().st_size
    elif path.is_dir():
        total = sum(one.stat().st_size for one in path.rglob("*") if one.is_file())
    if not total:
        raise UsageError("{path} is missing or empty: the experiment needs it", path=path)
    return total


def _passages(corpus: tuple[Path, ...]) -> int:
    """As an index knows it; of other files by their size."""
    total = 0
    for path in corpus:
        if (path / "manifest.json").is_file():
            total += len(Index(path))
        elif path.suffix in (".gz", ".bz2", ".xz", ".zst"):
            total += 3 * _size(path) // _BYTES
        else:
            total += _size(path) // _BYTES
    return max(1, total)


def _questions(path: Path) -> int:
    _size(path)
    return len(queries.read_all(path)[0])


def estimate(lab: Lab, arms: int) -> str:
    """A line on the time and the disk that all arms need.

    Every arm trains one model with each seed and encodes the corpus once: that is most of the work, and all that is
    counted.

    Args:
        lab: Where the experiment is made.
        arms: How many of its rows are trained.
    """
    seconds = _seconds_per_passage(lab.encoder(lab.data.base_model))
    scale, data = lab.scale, lab.data
    questions = sum(data.questions.values())
    steps = scale.steps or scale.epochs * questions // scale.batch_size
    hours = arms * scale.seeds * _row_seconds(steps, scale.batch_size, data.passages, seconds) / 3600
    disk = _token_gigabytes(data.passages, scale.passage_length)
    return (
        f"{data.passages:,} passages, {questions:,} training questions: about {hours:,.1f} hours on this machine "
        f"({1 / seconds:,.0f} passages encoded a second), and {disk:,.1f} GB of disk beside the models "
        f"({_free(lab.out):,.0f} GB are free)"
    )


def _row_seconds(steps: int, batch_size: int, passages: int, seconds: float) -> float:
    """To train a retriever and to encode the corpus with it."""
    return (steps * batch_size * 2 * _BACKWARD + passages) * seconds


def _token_gigabytes(passages: int, length: int) -> float:
    """Token ids of the corpus, kept once."""
    return 4 * passages * length / 1e9


def _free(folder: Path) -> float:
    """Gigabytes that are free where a folder is, or will be."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free / 1e9


def _seconds_per_passage(model: TrainedEncoder) -> float:
    texts = [Context("", "", _TEXT)] * _TEXTS
    model.passages(texts[:2])
    started = time.perf_counter()
    model.passages(texts)
    return (time.perf_counter() - started) / _TEXTS
