"""How large an experiment is."""

from dataclasses import dataclass

from mundap.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The sizes of an experiment; 0 stands for all there is.

    Attributes:
        questions: Training questions of each data set.
        test: Held-out questions of each data set.
        passages: Passages of the corpus.
        steps: Optimizer steps of a retriever.
        epochs: Upper limit on passes over the training questions.
        layers: Layers of the network that are kept.
        new_layers: The upper ones of these that are initialised at random.
        batch_sizes: Stand for the papers' 8, 32 and 128 questions.
        passage_length: Tokens of a passage.
        seeds: Runs of every arm.
        refresh_batches: Batches between two refreshes of ANCE.
        reader_steps: Optimizer steps of a reader.
        reader_batch_size: Questions in a reader's batch.
        reader_length: Tokens of a reader's window.
        num_passages: Passages per question in a reader's training.
        read: Passages that are read for a held-out question.
        learning_rate: Of a retriever.
        time: In words, on what machine.
        disk: In words.
    """

    questions: int
    test: int
    passages: int
    steps: int
    epochs: int = 1000
    layers: int
    new_layers: int
    batch_sizes: tuple[int, int, int]
    passage_length: int
    seeds: int
    refresh_batches: int
    reader_steps: int
    reader_batch_size: int
    reader_length: int
    num_passages: int
    read: int
    learning_rate: float = 2e-4
    time: str = ""
    disk: str = ""

    @property
    def batch_size(self) -> int:
        """The one that stands for the papers' 128."""
        return self.batch_sizes[-1]


SCALES = {
    "tiny": Scale(
        questions=200, test=60, passages=600, steps=8, layers=3, new_layers=2, batch_sizes=(4, 6, 8),
        passage_length=64, seeds=2, refresh_batches=4, reader_steps=3, reader_batch_size=4, reader_length=128,
        num_passages=2, read=2, time="minutes on two cores: shows that it runs, not what comes out", disk="100 MB",
    ),
    "small": Scale(
        questions=1500, test=800, passages=5000, steps=100, layers=2, new_layers=1, batch_sizes=(4, 8, 16),
        passage_length=64, seeds=3, refresh_batches=50, reader_steps=30, reader_batch_size=8, reader_length=192,
        num_passages=2, read=4, time="the minutes above, on two idle cores",
        disk="the gigabytes above while it runs, then 50 MB",
    ),
    "full": Scale(
        questions=0, test=0, passages=0, steps=0, epochs=40, layers=0, new_layers=0, batch_sizes=(8, 32, 128),
        passage_length=256, seeds=1, refresh_batches=5000, reader_steps=0, reader_batch_size=16, reader_length=350,
        num_passages=24, read=100, learning_rate=1e-5, time="days on 8 GPUs, as in the papers",
        disk="100 GB, and 64 GB of memory for the vectors of 21 million passages",
    ),
}  # fmt: skip


def scale(name: str) -> Scale:
    """The scale with a name.

    Raises:
        UsageError: There is none.
    """
    if name not in SCALES:
        raise UsageError(f"no scale {name!r}: choose one of {', '.join(SCALES)}")
    return SCALES[name]
