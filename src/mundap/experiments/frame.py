"""The frame of all experiments: arms x seeds -> values for every question -> a table beside the paper's.

An experiment is a `Plan`. Every arm and seed is kept in OUT/outcomes when it is known, so that a stopped experiment
resumes.
"""

import json
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mundap.disk import json_bytes, write_atomic
from mundap.evaluation.significance import compare
from mundap.experiments.lab import Lab
from mundap.experiments.page import SURE
from mundap.records import Context

_TIMED_TEXTS = 16
_BACKWARD = 3  # a training step costs about three forward passes
_TIMED_TEXT = "a passage of a hundred words or so stands for all of them here " * 12

_SECONDS, _CPU_SECONDS = "seconds", "cpu seconds"  # kept beside an arm's values

Values = Mapping[str, Any]
"""By column: a value for every question (or for every measurement)."""

Outcomes = dict[str, list[dict[str, np.ndarray]]]
"""By arm, for every seed: the values by column."""


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of a table.

    Attributes:
        name: Its key.
        title: Its heading.
        scale: What a mean is multiplied by to be shown.
        digits: Behind the point.
    """

    name: str
    title: str
    scale: float = 100.0
    digits: int = 1


@dataclass(frozen=True, slots=True)
class Arm:
    """A row of a table that is measured.

    Attributes:
        name: What it is called.
        measure: Trains what must be trained and gives the values of a seed.
        paper: The paper's figures, by column.
        seeded: Whether the seed makes a difference; BM25 has none.
    """

    name: str
    measure: Callable[[Lab, int], Values]
    paper: Mapping[str, float] = field(default_factory=dict)
    seeded: bool = True


@dataclass(frozen=True, slots=True)
class Quoted:
    """A row of another system, quoted from a publication."""

    name: str
    paper: Mapping[str, float]
    source: str


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says: one arm is better than another.

    Attributes:
        text: The claim as a sentence.
        better: The arm that should be better.
        worse: The arm that should be worse.
        column: By which figure.
    """

    text: str
    better: str
    worse: str
    column: str


@dataclass(frozen=True, slots=True)
class Extra:
    """What an experiment shows besides its table.

    Attributes:
        facts: For the JSON.
        html: Parts of the page.
        markdown: The same in short.
    """

    facts: Mapping[str, Any] = field(default_factory=dict)
    html: Sequence[str] = ()
    markdown: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """An experiment.

    Attributes:
        title: The question it answers.
        source: The paper and its table or figure.
        columns: Of the table.
        arms: Its rows.
        claims: What the paper says of them.
        quoted: Rows of other systems.
        caution: What differs from the paper, in plain words.
        appendix: Called when all arms are known; gives what is shown below the table.
        curve: For a plot: by arm a name of its curve and an x; the first column is y.
        across: What x is.
    """

    title: str
    source: str
    columns: Sequence[Column]
    arms: Sequence[Arm]
    claims: Sequence[Claim] = ()
    quoted: Sequence[Quoted] = ()
    caution: str = ""
    appendix: Callable[[Lab, Outcomes], Extra] | None = None
    curve: Mapping[str, tuple[str, float]] = field(default_factory=dict)
    across: str = ""


def run(name: str, plan: Plan, lab: Lab) -> dict[str, Any]:
    """Measure every arm with every seed, and write results.json, results.md and report.html."""
    from mundap.experiments import page

    if not lab.scale.passages:  # full scale: know first what it takes
        lab.tell(_estimate(lab, sum(arm.seeded for arm in plan.arms)))
    outcomes = _measured(plan, lab)
    extra = Extra()
    if plan.appendix is not None:
        extra = plan.appendix(lab, outcomes)
    found = {
        "experiment": name,
        "title": plan.title,
        "source": plan.source,
        "setting": lab.describe(),
        "seeds": lab.scale.seeds,
        "seconds": _total(outcomes, _SECONDS),
        "cpu_seconds": _total(outcomes, _CPU_SECONDS),
        "arms": {arm.name: _row(arm, plan.columns, outcomes[arm.name]) for arm in plan.arms},
        "quoted": [{"name": one.name, "paper": dict(one.paper), "source": one.source} for one in plan.quoted],
        "claims": _judge_claims(plan, outcomes),
        "caution": plan.caution,
        **extra.facts,
    }
    write_atomic(lab.out / "results.json", json_bytes(found))
    write_atomic(lab.out / "results.md", (page.markdown(plan, found) + extra.markdown).encode())
    page.write(lab.out / "report.html", plan, found, extra, lab.recipes())
    lab.tidy()
    return found | {"report": str(lab.out / "report.html")}


def _measured(plan: Plan, lab: Lab) -> Outcomes:
    outcomes: Outcomes = {arm.name: [] for arm in plan.arms}
    for seed in range(lab.scale.seeds):
        for arm in plan.arms:
            if arm.seeded or seed == 0:
                outcomes[arm.name].append(_outcome(arm, lab, seed))
    return outcomes


def slug(name: str) -> str:
    """A name as part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _outcome(arm: Arm, lab: Lab, seed: int) -> dict[str, np.ndarray]:
    path = lab.out / "outcomes" / f"{slug(arm.name)}-{seed}.json"
    if not path.exists():
        lab.tell(f"seed {seed + 1} of {lab.scale.seeds}: {arm.name}")
        began, worked = time.monotonic(), time.process_time()
        values = {name: np.asarray(row, float).tolist() for name, row in arm.measure(lab, seed).items()}
        values[_SECONDS] = [time.monotonic() - began]
        values[_CPU_SECONDS] = [time.process_time() - worked]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json_bytes(values))
    return {name: np.array(row) for name, row in json.loads(path.read_text("utf-8")).items()}


def _total(outcomes: Outcomes, name: str) -> float:
    """The sum over all runs of an experiment. A run that another experiment had made already costs next to nothing."""
    total = 0.0
    for runs in outcomes.values():
        for one in runs:
            if name in one:
                total += float(one[name].sum())
    return round(total, 1)


def _row(arm: Arm, columns: Sequence[Column], every: Sequence[Mapping[str, np.ndarray]]) -> dict[str, Any]:
    """Means over the seeds with their intervals, and the paper's figure beside each."""
    row: dict[str, Any] = {}
    for column in columns:
        cell: dict[str, Any] = {}
        if column.name in every[0]:
            cell = _interval([column.scale * float(one[column.name].mean()) for one in every])
        if column.name in arm.paper:
            cell["paper"] = arm.paper[column.name]
        if cell:
            row[column.name] = cell
    return row


def _judge_claims(plan: Plan, outcomes: Outcomes) -> list[dict[str, Any]]:
    """Every claim with the difference we find: paired over questions, p corrected for the number of claims."""
    columns = {column.name: column for column in plan.columns}
    tests = []
    for claim in plan.claims:
        worse, better = _mean(outcomes[claim.worse], claim.column), _mean(outcomes[claim.better], claim.column)
        tests.append(compare(worse, better))
    corrected = _holm([one.p for one in tests])
    rows = []
    for claim, test, p in zip(plan.claims, tests, corrected, strict=True):
        row = test.as_dict(columns[claim.column].scale)
        verdict = "not settled"
        if p < SURE and row["difference"] > 0:
            verdict = "holds"
        elif p < SURE:
            verdict = "contradicted"
        rows.append(
            {"claim": claim.text, "better_arm": claim.better, "worse_arm": claim.worse, "figure": claim.column, **row,
             "p_holm": float(f"{p:.3g}"), "verdict": verdict}
        )  # fmt: skip
    return rows


def _mean(every: Sequence[Mapping[str, np.ndarray]], column: str) -> np.ndarray:
    """One value a question, the mean over seeds: questions are the sample, not runs."""
    return np.asarray(np.mean([one[column] for one in every], 0))


def _interval(values: list[float]) -> dict[str, Any]:
    """The mean over seeds, with the 95 % interval of the mean by Student's t."""
    from scipy import stats

    mean = float(np.mean(values))
    runs = [round(value, 4) for value in values]
    if len(values) < 2:
        return {"mean": round(mean, 4), "runs": runs}
    error = float(np.std(values, ddof=1)) / len(values) ** 0.5
    half = float(stats.t.ppf(0.975, len(values) - 1)) * error
    return {"mean": round(mean, 4), "half_width": round(half, 4), "runs": runs}


def _holm(chances: list[float]) -> list[float]:
    """p-values of several tests, corrected for their number by Holm's method."""
    order = sorted(range(len(chances)), key=lambda number: chances[number])
    result, highest = [1.0] * len(chances), 0.0
    for place, number in enumerate(order):
        highest = max(highest, min(1.0, (len(chances) - place) * chances[number]))
        result[number] = highest
    return result


def _estimate(lab: Lab, arms: int) -> str:
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
    texts = [Context("", "", _TIMED_TEXT)] * _TIMED_TEXTS
    model.passages(texts[:2])
    started = time.perf_counter()
    model.passages(texts)
    return (time.perf_counter() - started) / _TIMED_TEXTS
