"""Does it matter where negatives come from? The ANCE paper's question, with the controls that tell it from a warm-up.

From one shallow start, each for twice as many steps: random negatives, those of the batch (NCE), BM25's, and DPR's
mixture. And from one warm-up with BM25's negatives, each for as many steps again: random, NCE, BM25's with random
ones, and ANCE; if wanted, also BM25's and ANCE's together with those of the batch, which tells what a negative is
worth from how many there are.
"""

import itertools
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mundap.disk import json_bytes, write_atomic
from mundap.errors import UsageError
from mundap.reproduce import AnceScale, Task, Tell, figures, runs, sized
from mundap.reproduce.ranking import Judge, Ranks, by_question
from mundap.reproduce.setting import Setting, prepare
from mundap.training import retriever
from mundap.training.ance import trainer
from mundap.training.ance.meeting import Meeting
from mundap.training.ance.negatives import Generation

WARM = "warm-up (BM25)"
ANCE = "warm-up -> ANCE"
DPR_AFTER = "warm-up -> BM25 + in-batch"
ANCE_IN_BATCH = "warm-up -> ANCE + in-batch"
_ALONE: Mapping[str, dict[str, Any]] = {
    "random": {"in_batch": False, "hard": 0, "random": 1},
    "NCE (in-batch)": {"in_batch": True, "hard": 0, "random": 0},
    "BM25": {"in_batch": False, "hard": 1, "random": 0},
    "DPR (BM25 + in-batch)": {"in_batch": True, "hard": 1, "random": 0},
}
_AFTER: Mapping[str, dict[str, Any]] = {
    "warm-up -> random": _ALONE["random"],
    "warm-up -> NCE": _ALONE["NCE (in-batch)"],
    "warm-up -> BM25 + random": {"in_batch": False, "hard": 1, "random": 1},
    ANCE: _ALONE["BM25"],
    DPR_AFTER: _ALONE["DPR (BM25 + in-batch)"],
    ANCE_IN_BATCH: _ALONE["DPR (BM25 + in-batch)"],
}


def run(task: Task, tell: Tell) -> dict[str, Any]:
    """All runs, their figures, the evidence, and the page that shows them."""
    from mundap.reproduce import ance_page, evidence

    sized(task, AnceScale)
    if task.reader:
        raise UsageError("no reader takes part in this experiment: leave out --reader")
    setting = prepare(task, tell)
    judge = Judge(setting)
    ranks: dict[str, list[Ranks]] = {
        "BM25 (no training)": [judge.bm25_ranks()],
        "start": [_ranked(task, setting, judge, setting.start, "start")],
    }
    ranks |= {arm: [] for arm in arms(task)}
    for seed in range(task.scale.seeds):
        for arm in arms(task):
            tell(f"seed {seed + 1} of {task.scale.seeds}: {arm}")
            model = _trained(task, setting, arm, seed)
            ranks[arm].append(_ranked(task, setting, judge, model, f"{runs.name(arm)}-{seed}"))
    against = {ours: _against(ranks, ours) for ours in (ANCE, ANCE_IN_BATCH) if ours in ranks}
    found: dict[str, Any] = {
        "questions": len(setting.test),
        "training_questions": setting.questions,
        "passages": setting.passages,
        "seeds": task.scale.seeds,
        "arms": _table(ranks),
        "against": against,
    }
    found["verdict"] = _verdict(found["arms"], against)
    tell("looking at the negatives")
    models = {
        "start": setting.start,
        WARM: runs.folder(task, WARM, 0) / "model",
        ANCE: runs.folder(task, ANCE, 0) / "model",
    }
    opened = {name: runs.opened(task, setting, path) for name, path in models.items()}
    meeting = Meeting(runs.folder(task, ANCE, 0) / trainer.MEETING)
    last = Generation.open(meeting, meeting.published()[-1])
    seen = evidence.look(setting, opened, {ANCE: last} if last else {}, task.out)
    write_atomic(task.out / "results.json", json_bytes(found | {"evidence": seen.numbers()}))
    write_atomic(task.out / "report.html", ance_page.report(task, found, seen).encode())
    return found | {"report": str(task.out / "report.html")}


def arms(task: Task) -> list[str]:
    """All kinds of training that are compared."""
    return [arm for arm in (WARM, *_ALONE, *_AFTER) if task.in_batch or arm not in (DPR_AFTER, ANCE_IN_BATCH)]


def _trained(task: Task, setting: Setting, arm: str, seed: int) -> Path:
    """The model of one arm and seed, trained now if it is not there."""
    out = runs.folder(task, arm, seed)
    if (out / "model").exists():
        return out / "model"
    refresh = sized(task, AnceScale).refresh
    whole = runs.recipe(task, setting, seed)
    whole = replace(whole, out=str(out), steps=task.scale.steps, refresh=refresh, synchronous=True)
    if arm in _ALONE:
        whole = replace(whole, steps=2 * task.scale.steps)
    elif arm in _AFTER:
        whole = replace(whole, start=str(runs.folder(task, WARM, seed) / "model"))
    if arm in (ANCE, ANCE_IN_BATCH):
        trainer.train(replace(whole, **_AFTER[arm]))
    else:
        retriever.train(runs.plain(whole, **{**_ALONE, **_AFTER, WARM: _ALONE["BM25"]}[arm]))
    return out / "model"


def _ranked(task: Task, setting: Setting, judge: Judge, model: Path, name: str) -> Ranks:
    """The ranks of a model's answers, kept when they are known."""
    path = task.out / "ranks" / f"{name}.json"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        found = judge.ranks(runs.opened(task, setting, model))
        rows = {"retrieval": found.retrieval.tolist(), "reranking": found.reranking.tolist()}
        write_atomic(path, json_bytes(rows))
    rows = json.loads(path.read_text())
    return Ranks(np.array(rows["retrieval"]), np.array(rows["reranking"]))


def _table(ranks: Mapping[str, list[Ranks]]) -> dict[str, Any]:
    """Means over the seeds, with the 95 % interval of the mean by Student's t."""
    table: dict[str, Any] = {}
    for arm, every in ranks.items():
        rows = [one.figures() for one in every]
        table[arm] = {
            task: {name: figures.interval([row[task][name] for row in rows]) for name in first}
            for task, first in rows[0].items()
        }
    return table


def _against(ranks: Mapping[str, list[Ranks]], ours: str) -> dict[str, Any]:
    """One arm less each of the others, by task and figure."""
    found: dict[str, Any] = {arm: {"retrieval": {}, "reranking": {}} for arm in ranks if arm != ours}
    for kind in ("retrieval", "reranking"):
        for figure in ("top1", "top20", "mrr10"):
            values = {arm: _values(every, kind, figure) for arm, every in ranks.items()}
            for arm, one in figures.against(values, ours, 1 if figure == "mrr10" else 100).items():
                found[arm][kind][figure] = one
    return found


def _verdict(table: Mapping[str, Any], against: Mapping[str, Any]) -> str:
    """What came out, in a sentence or two."""
    standing = {ours: _standing(rows) for ours, rows in against.items()}
    order = [ANCE, "DPR (BM25 + in-batch)", "BM25", "random"]
    means = [table[arm]["retrieval"]["mrr10"]["mean"] for arm in order]
    met = all(one > other for one, other in itertools.pairwise(means))
    return (
        f"By MRR@10 of retrieval, ANCE is {standing[ANCE]} (p < .05, corrected by Holm). The paper's order, ANCE "
        f"before DPR before BM25's negatives before random ones, {'is' if met else 'is not'} met by the means."
    ) + (f" With the batch's negatives as well, ANCE is {standing[ANCE_IN_BATCH]}." if len(standing) > 1 else "")


def _standing(against: Mapping[str, Any]) -> str:
    """Which arms one is better and worse than."""
    better: list[str] = []
    worse: list[str] = []
    even: list[str] = []
    for arm in (arm for arm in (*_ALONE, *_AFTER) if arm in against):
        one = against[arm]["retrieval"]["mrr10"]
        (even if one["p_holm"] >= figures.SURE else better if one["difference"] > 0 else worse).append(arm)
    words = (("better than", better), ("worse than", worse), ("not to be told from", even))
    return "; ".join(f"{word} {', '.join(names)}" for word, names in words if names)


def _values(every: list[Ranks], task: str, figure: str) -> np.ndarray:
    """One value a question, the mean over seeds: questions are the sample, not runs."""
    return np.asarray(np.mean([by_question(getattr(one, task), figure) for one in every], 0))
