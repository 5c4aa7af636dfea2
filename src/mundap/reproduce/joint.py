"""Should retriever and reader learn together? The DPR paper's question, and its answer: one after the other is better.

Two retrievers, each with two kinds of readers. The retrievers: a shallow start, and the same trained as DPR's are (the
batch's negatives and one of BM25's). The readers learn from what their retriever finds: alone, or together with the
question encoder, while the passage encoder and so the vectors of the corpus stay as they are. `DPR -> joint` is to be
compared with `DPR -> reader`: both begin with the same trained retriever.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mundap.disk import json_bytes, write_atomic
from mundap.errors import UsageError
from mundap.models.reader_checkpoint import open_reader
from mundap.records import Example
from mundap.reproduce import JointScale, Task, Tell, figures, runs, sized
from mundap.reproduce.ranking import Judge, Model, by_question, measured
from mundap.reproduce.reading import Reading
from mundap.reproduce.setting import Setting, prepare
from mundap.training import formats, reader, retriever
from mundap.training.ance.negatives import Sieve
from mundap.training.recipe import DataSet, ReaderRecipe

START, DPR = "start", "DPR"
ALONE = "start -> reader"
JOINT = "start -> joint"
IN_TURN = "DPR -> reader"
AFTER = "DPR -> joint"
ARMS: Mapping[str, tuple[str, bool]] = {
    ALONE: (START, False),
    JOINT: (START, True),
    IN_TURN: (DPR, False),
    AFTER: (DPR, True),
}
"""Which retriever an arm has, and whether that learns along with the reader."""

COMPARED = [("retrieval", "top1"), ("retrieval", "top20"), ("answers", "exact_match"), ("answers", "f1")]
_FOUND = 20  # passages that a retriever finds for a training question, of which those without the answer are negatives
_LITTLE = 5.0  # exact match in percent, below which readers cannot be told apart


def run(task: Task, tell: Tell) -> dict[str, Any]:
    """All runs, their figures, and the page that shows them.

    Raises:
        UsageError: The task is another experiment's.
        MundapError: A checkpoint cannot be read, or there is too little data.
    """
    from mundap.reproduce import joint_page

    sized(task, JointScale)
    if task.in_batch:
        raise UsageError("in-batch negatives are always used in this experiment: leave out --in-batch")
    open_reader(task.reader or task.start, fresh=True)  # what cannot be read is told before anything is done
    setting = prepare(task, tell)
    judge = Judge(setting)
    start = Source(task, setting, START, setting.start)
    outcomes: dict[str, list[Outcome]] = {arm: [] for arm in ARMS}
    for seed in range(task.scale.seeds):
        sources = {START: start}
        for arm, (base, _) in ARMS.items():
            tell(f"seed {seed + 1} of {task.scale.seeds}: {arm}")
            if base not in sources:
                sources[base] = Source(task, setting, f"{base}-{seed}", _retriever(task, setting, seed))
            outcomes[arm].append(_outcome(sources[base], judge, arm, seed))
    found: dict[str, Any] = {
        "questions": len(setting.test),
        "training_questions": setting.questions,
        "passages": setting.passages,
        "seeds": task.scale.seeds,
        "arms": {arm: _figures(every) for arm, every in outcomes.items()},
        "exact_match_by_passages": {arm: _by_passages(every) for arm, every in outcomes.items()},
        "against": {ours: _against(outcomes, ours) for ours in (AFTER, JOINT)},
    }
    found["verdict"] = _verdict(found["arms"], found["against"])
    write_atomic(task.out / "results.json", json_bytes(found))
    write_atomic(task.out / "report.html", joint_page.report(task, found).encode())
    return found | {"report": str(task.out / "report.html")}


class Source:
    """A retriever as readers get it: what it finds for the training questions is what they learn from.

    Args:
        task: The experiment.
        setting: Its data.
        name: Of the retriever.
        folder: Of its checkpoint.
    """

    def __init__(self, task: Task, setting: Setting, name: str, folder: Path) -> None:
        self.task = task
        self.setting = setting
        self.folder = folder
        self._name = runs.name(name)

    @cached_property
    def model(self) -> Model:
        """The retriever with the vectors of the corpus."""
        return runs.opened(self.task, self.setting, self.folder)

    @cached_property
    def examples(self) -> Path:
        """The training examples, with those passages as negatives that this retriever finds and that have no answer."""
        path = self.task.out / "data" / f"found-{self._name}.jsonl"
        if path.exists():
            return path
        known = [one for one in formats.read_examples(self.setting.examples) if isinstance(one, Example)]
        numbers, _ = self.model.top([one.question.text for one in known], _FOUND)
        corpus = self.model.corpus
        sieve = Sieve(corpus)
        with formats.writing(path, "dpr-jsonl") as write:
            for one, row in zip(known, numbers.tolist(), strict=True):
                wrong = sieve.wrong(one, row, self.setting.match)
                write(replace(one, hard=tuple(corpus.context(row[place]) for place in wrong), negatives=()))
        return path


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one arm and seed made of the held-back questions.

    Attributes:
        ranks: Where each question's first passage with the answer stands, 0 if not within the first hundred.
        answers: Questions x numbers of passages read x (exact match, F1), from 0 to 1.
    """

    ranks: np.ndarray
    answers: np.ndarray

    def values(self, figure: str) -> np.ndarray:
        """One value a question, from 0 to 1."""
        if figure in ("exact_match", "f1"):
            return np.asarray(self.answers[:, -1, int(figure == "f1")])
        return by_question(self.ranks, figure)


def _retriever(task: Task, setting: Setting, seed: int) -> Path:
    """The start trained as DPR's retriever is, now if it is not there."""
    out = runs.folder(task, DPR, seed)
    if not (out / "model").exists():
        whole = replace(runs.recipe(task, setting, seed), out=str(out), steps=task.scale.steps)
        retriever.train(runs.plain(whole, in_batch=True, hard=1, random=0))
        _tidy(out)
    return out / "model"


def _reader(source: Source, arm: str, seed: int) -> Path:
    """The folder of an arm's run, which has the reader in `model` and, of a joint one, the pair in `retriever`."""
    task, setting, scale = source.task, source.setting, sized(source.task, JointScale)
    together = ARMS[arm][1]
    out = runs.folder(task, arm, seed)
    if all((out / part).exists() for part in (("model", "retriever") if together else ("model",))):
        return out
    recipe = ReaderRecipe(
        train=(DataSet(str(source.examples), match=setting.match),),
        start=str(task.reader or task.start),
        out=str(out),
        batch=scale.reader_batch,
        passages=scale.shown,
        null=0.0,  # every question teaches both
        epochs=1000,
        steps=scale.reader_steps,
        dropout=0.0,
        question_length=runs.QUESTION_LENGTH,
        passage_length=scale.window,
        retriever=str(source.folder) if together else "",
        checkpoint=2.0,
        seed=seed,
    )
    reader.train(recipe)
    _tidy(out)
    return out


def _tidy(run: Path) -> None:
    """The state of a run that is done is three times as large as its model, and there are many."""
    shutil.rmtree(run / "checkpoints", ignore_errors=True)


def _outcome(source: Source, judge: Judge, arm: str, seed: int) -> Outcome:
    """What an arm comes to, kept when it is known."""
    task, setting = source.task, source.setting
    path = task.out / "outcomes" / f"{runs.name(arm)}-{seed}.json"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        run = _reader(source, arm, seed)
        model = source.model
        if ARMS[arm][1]:
            model = runs.opened(task, setting, run / "retriever", model.vectors)  # the passage side is the same
        numbers, _ = model.top(judge.texts)
        ranks = judge.retrieval(model, numbers)
        size = sized(task, JointScale).read
        passages = [[model.corpus.context(number) for number in row[:size]] for row in numbers.tolist()]
        answers = Reading(run / "model", runs.QUESTION_LENGTH, setting.match).judged(setting.test, passages)
        write_atomic(path, json_bytes({"ranks": ranks.tolist(), "answers": answers.tolist()}))
    rows = json.loads(path.read_text())
    return Outcome(np.array(rows["ranks"]), np.array(rows["answers"]))


def _figures(every: list[Outcome]) -> dict[str, Any]:
    """Means over the seeds with their intervals, in percent but for MRR@10."""
    ranks = [measured(one.ranks) for one in every]
    return {
        "retrieval": {name: figures.interval([row[name] for row in ranks]) for name in ranks[0]},
        "answers": {
            name: figures.interval([100 * float(one.values(name).mean()) for one in every])
            for name in ("exact_match", "f1")
        },
    }


def _by_passages(every: list[Outcome]) -> dict[str, float]:
    means = np.mean([one.answers[:, :, 0] for one in every], axis=(0, 1))
    return {str(k): round(100 * float(mean), 4) for k, mean in enumerate(means, 1)}


def _against(outcomes: Mapping[str, list[Outcome]], ours: str) -> dict[str, Any]:
    """One arm less each of the others."""
    found: dict[str, Any] = {arm: {"retrieval": {}, "answers": {}} for arm in outcomes if arm != ours}
    for kind, figure in COMPARED:
        values = {arm: np.asarray(np.mean([one.values(figure) for one in every], 0)) for arm, every in outcomes.items()}
        for arm, one in figures.against(values, ours).items():
            found[arm][kind][figure] = one
    return found


def _verdict(arms: Mapping[str, Any], against: Mapping[str, Any]) -> str:
    """What came out, in plain words."""
    words = []
    standing = {}
    means = {arm: arms[arm]["answers"]["exact_match"]["mean"] for arm in arms}
    for ours, called in (
        (AFTER, "Joint training from the trained retriever"),
        (JOINT, "Joint training from the start"),
    ):
        one = against[ours][IN_TURN]["answers"]["exact_match"]
        sure = one["p_holm"] < figures.SURE
        standing[ours] = "no better than" if not sure else "better than" if one["difference"] > 0 else "worse than"
        words.append(
            f"{called} is {standing[ours]} one after the other: {means[ours]:.1f} exact match against "
            f"{means[IN_TURN]:.1f} ({one['difference']:+.1f}, p = {one['p_holm']:.2g})."
        )
    met = {"worse than": "is met", "no better than": "is not contradicted", "better than": "is not met"}
    words.append(
        f"The paper's finding (on Natural Questions 39.8 jointly, 41.5 one after the other) {met[standing[AFTER]]}."
    )
    if max(means.values()) < _LITTLE:
        words.append("But the readers have hardly learnt to read: let them start from a trained one (--reader).")
    return " ".join(words)
