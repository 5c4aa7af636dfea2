"""How long an experiment will take, from the speed of this machine on a few texts."""

import shutil
import time

from mundap.experiments.lab import Lab
from mundap.records import Context

_TEXTS = 16
_BACKWARD = 3  # a training step costs about three forward passes
_TEXT = "a passage of a hundred words or so stands for all of them here " * 12


def estimate(lab: Lab, arms: int) -> str:
    """A line on the time and the disk that all arms need.

    Every arm trains one model with each seed and encodes the corpus once: that is most of the work, and all that is
    counted.

    Args:
        lab: Where the experiment is made.
        arms: How many of its rows are trained.
    """
    seconds = _seconds_per_passage(lab)
    scale, data = lab.scale, lab.data
    questions = sum(data.questions.values())
    steps = scale.steps or scale.epochs * questions // scale.batch_size
    training = steps * scale.batch_size * 2 * _BACKWARD * seconds
    hours = arms * scale.seeds * (training + data.passages * seconds) / 3600
    disk = 4 * data.passages * scale.passage_length / 1e9  # token ids, kept once
    free = shutil.disk_usage(lab.out).free / 1e9
    return (
        f"{data.passages:,} passages, {questions:,} training questions: about {hours:,.1f} hours on this machine "
        f"({1 / seconds:,.0f} passages encoded a second), and {disk:,.1f} GB of disk beside the models ({free:,.0f} GB "
        "are free)"
    )


def _seconds_per_passage(lab: Lab) -> float:
    model = lab.encoder(lab.data.base_model)
    texts = [Context("", "", _TEXT)] * _TEXTS
    model.passages(texts[:2])
    started = time.perf_counter()
    model.passages(texts)
    return (time.perf_counter() - started) / _TEXTS
