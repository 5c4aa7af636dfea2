"""The papers' tables and figures, one command each.

An experiment is a module with a function `plan(lab)` that gives a `Plan` (see `frame.py`), and a line here.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mundap.errors import UsageError

if TYPE_CHECKING:
    from mundap.experiments.lab import Inputs
    from mundap.training.learner import Tell


@dataclass(frozen=True, slots=True)
class _Experiment:
    """An experiment by name.

    Attributes:
        module: Where it is.
        function: Its plan in there.
        summary: What it compares, in a line.
        minutes: An estimate for the small scale on two idle cores: computed, not measured.
        gigabytes: An estimate of the disk it takes while it runs; reports and data stay, some 50 MB.
        data: What it needs besides a corpus and one data set.
    """

    module: str
    function: str
    summary: str
    minutes: int
    gigabytes: float
    data: str = ""


_TWO_SETS = "two data sets or more"

# The minutes are computed: from the processor time that a step of 32 passages (.41 s) and a passage of the corpus
# (3.3 ms) take in bf16, halved for two cores. In fp32 it is 1.6 times as much.
EXPERIMENTS = {
    "table2": _Experiment(
        "retrievers", "table2", "BM25, DPR, BM25+DPR and ANCE, trained on one set or on all", 52, 2.9,
        f"best with {_TWO_SETS}",
    ),
    "negatives": _Experiment("negatives", "plan", "random, BM25, gold and in-batch negatives, and how many", 11, 2.0),
    "sample-efficiency": _Experiment(
        "examples", "sample_efficiency", "how many training questions beat BM25", 7, 1.1
    ),
    "gold-vs-distant": _Experiment(
        "examples", "gold_vs_distant", "gold passages against passages found by BM25", 4, 0.7,
        "questions with gold passages",
    ),
    "similarity-and-loss": _Experiment(
        "negatives", "similarity_and_loss", "dot, cosine, L2; softmax and triplet loss", 11, 1.4
    ),
    "cross-dataset": _Experiment(
        "retrievers", "cross_dataset", "trained on one set, tested on another", 19, 1.3, _TWO_SETS
    ),
    "qa": _Experiment(
        "qa", "qa", "answers: exact match by retriever and reader", 47, 2.8, f"best with {_TWO_SETS} and --reader"
    ),
    "joint": _Experiment(
        "qa", "joint", "retriever and reader trained together, or one after the other", 21, 1.7, "best with --reader"
    ),
    "ict": _Experiment(
        "ict", "plan", "ORQA as a whole: inverse cloze task, frozen passages, marginal likelihood; and DPR", 12, 1.6,
        "best with --reader",
    ),
    "cross-batch": _Experiment(
        "negatives", "cross_batch", "RocketQA's cross-batch negatives: what a larger batch brings", 3, 0.7
    ),
    "ance": _Experiment(
        "ance", "plan", "ANCE and other kinds of negatives, FirstP and MaxP; loss, gradients, overlap, t-SNE", 34, 3.0
    ),
    "speed": _Experiment("speed", "plan", "encoding, search, reranking, refreshing and a training step, timed", 1, 0.3),
    "qualitative": _Experiment("qualitative", "plan", "questions that only BM25 or only DPR answers", 2, 0.5),
}  # fmt: skip


def experiment(name: str) -> _Experiment:
    """The experiment with a name.

    Raises:
        UsageError: There is none.
    """
    if name not in EXPERIMENTS:
        raise UsageError(f"no experiment {name!r}: choose one of {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


def run(name: str, inputs: "Inputs", tell: "Tell" = lambda line: None) -> dict[str, Any]:
    """Run an experiment, or go on with one that was stopped.

    Its figures are returned, and written to OUT/results.json, OUT/results.md and OUT/report.html.

    Raises:
        UsageError: There is no such experiment, or its data does not fit.
    """
    chosen = experiment(name)
    from mundap.experiments import frame
    from mundap.experiments.lab import Lab

    if not inputs.scale.passages:  # full scale: know first what it takes
        from mundap.experiments.estimate import tell_ahead

        tell_ahead(inputs, tell)
    lab = Lab(inputs, tell)
    plan = getattr(import_module(f"mundap.experiments.{chosen.module}"), chosen.function)(lab)
    return frame.run(name, plan, lab)
