"""Does it matter where negatives come from? The ANCE paper's question, with the controls that tell it from a warm-up.

From one shallow start, each for twice as many steps: random negatives, those of the batch (NCE), BM25's, and DPR's
mixture. And from one warm-up with BM25's negatives, each for as many steps again: random, NCE, BM25's with random
ones, and ANCE.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from mundap.disk import json_bytes, write_atomic
from mundap.evaluation.significance import compare
from mundap.reproduce import Task, Tell
from mundap.reproduce.ranking import Judge, Model, Ranks
from mundap.reproduce.setting import Setting, prepare
from mundap.training import retriever
from mundap.training.ance import trainer
from mundap.training.recipe import AnceRecipe, DataSet, Recipe

WARM = "warm-up (BM25)"
ANCE = "warm-up -> ANCE"
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
    ANCE: {"in_batch": False, "hard": 1, "random": 0},
}
ARMS = (WARM, *_ALONE, *_AFTER)


def run(task: Task, tell: Tell) -> dict[str, Any]:
    """All runs, their figures, the evidence, and the page that shows them."""
    from mundap.reproduce import evidence, page

    setting = prepare(task, tell)
    judge = Judge(setting)
    ranks: dict[str, list[Ranks]] = {
        "BM25 (no training)": [judge.bm25_ranks()],
        "start": [_ranked(task, setting, judge, setting.start, "start")],
    }
    ranks |= {arm: [] for arm in ARMS}
    for seed in range(task.scale.seeds):
        for arm in ARMS:
            tell(f"seed {seed + 1} of {task.scale.seeds}: {arm}")
            ranks[arm].append(_ranked(task, setting, judge, _trained(task, setting, arm, seed), f"{_name(arm)}-{seed}"))
    found: dict[str, Any] = {
        "questions": len(setting.test),
        "seeds": task.scale.seeds,
        "arms": _table(ranks),
        "against": _against(ranks),
    }
    tell("looking at the negatives")
    models = {"start": setting.start, WARM: _folder(task, WARM, 0) / "model", ANCE: _folder(task, ANCE, 0) / "model"}
    seen = evidence.look(setting, {name: _opened(task, setting, path) for name, path in models.items()}, task.out)
    write_atomic(task.out / "results.json", json_bytes(found | {"evidence": seen.numbers()}))
    write_atomic(task.out / "report.html", page.report(task, found, seen).encode())
    return found | {"report": str(task.out / "report.html")}


def _recipe(task: Task, setting: Setting, seed: int) -> AnceRecipe:
    scale = task.scale
    return AnceRecipe(
        train=(DataSet(str(setting.examples), match=setting.match),),
        start=str(setting.start),
        index=str(setting.index),
        batch=scale.batch,
        epochs=1000,
        rate=2e-4,
        warmup=0.1,
        dropout=0.0,
        question_length=32,
        passage_length=scale.length,
        temperature=0.05,
        similarity="cosine",
        refresh=scale.refresh,
        synchronous=True,
        checkpoint=2.0,
        seed=seed,
    )


def _trained(task: Task, setting: Setting, arm: str, seed: int) -> Path:
    """The model of one arm and seed, trained now if it is not there."""
    out = _folder(task, arm, seed)
    if (out / "model").exists():
        return out / "model"
    whole = replace(_recipe(task, setting, seed), out=str(out), steps=task.scale.steps)
    if arm in _ALONE:
        whole = replace(whole, steps=2 * task.scale.steps)
    elif arm in _AFTER:
        whole = replace(whole, start=str(_folder(task, WARM, seed) / "model"))
    if arm == ANCE:
        trainer.train(replace(whole, **_AFTER[ANCE]))
    else:
        retriever.train(_plain(whole, **{**_ALONE, **_AFTER, WARM: _ALONE["BM25"]}[arm]))
    return out / "model"


def _plain(recipe: AnceRecipe, **changes: Any) -> Recipe:
    """The same without ANCE."""
    return Recipe(**{one.name: getattr(recipe, one.name) for one in fields(Recipe)} | changes)


def _opened(task: Task, setting: Setting, folder: Path) -> Model:
    return Model(folder, _recipe(task, setting, 0), task.out / "data" / "tokens")


def _ranked(task: Task, setting: Setting, judge: Judge, model: Path, name: str) -> Ranks:
    """The ranks of a model's answers, kept when they are known."""
    path = task.out / "ranks" / f"{name}.json"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        found = judge.ranks(_opened(task, setting, model))
        rows = {"retrieval": found.retrieval.tolist(), "reranking": found.reranking.tolist()}
        write_atomic(path, json_bytes(rows))
    rows = json.loads(path.read_text())
    return Ranks(np.array(rows["retrieval"]), np.array(rows["reranking"]))


def _folder(task: Task, arm: str, seed: int) -> Path:
    return task.out / "runs" / f"{_name(arm)}-{seed}"


def _name(arm: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", arm.lower()).strip("-")


def _table(ranks: Mapping[str, list[Ranks]]) -> dict[str, Any]:
    """Means over the seeds, with the 95 % interval of the mean by Student's t."""
    table: dict[str, Any] = {}
    for arm, runs in ranks.items():
        rows = [one.figures() for one in runs]
        table[arm] = {
            task: {name: _interval([row[task][name] for row in rows]) for name in rows[0][task]} for task in rows[0]
        }
    return table


def _interval(values: list[float]) -> dict[str, Any]:
    from scipy import stats

    mean = float(np.mean(values))
    if len(values) < 2:
        return {"mean": round(mean, 4), "runs": [round(value, 4) for value in values]}
    error = float(np.std(values, ddof=1)) / len(values) ** 0.5
    half = float(stats.t.ppf(0.975, len(values) - 1)) * error
    return {"mean": round(mean, 4), "half_width": round(half, 4), "runs": [round(value, 4) for value in values]}


def _against(ranks: Mapping[str, list[Ranks]]) -> dict[str, Any]:
    """ANCE less each other arm, question by question, over all seeds."""
    found: dict[str, Any] = {}
    for arm, runs in ranks.items():
        if arm == ANCE:
            continue
        repeated = runs * len(ranks[ANCE]) if len(runs) == 1 else runs
        found[arm] = {
            task: {
                figure: compare(_values(repeated, task, figure), _values(ranks[ANCE], task, figure)).as_dict(
                    1 if figure == "mrr10" else 100
                )
                for figure in ("top1", "top20", "mrr10")
            }
            for task in ("retrieval", "reranking")
        }
    return found


def _values(runs: list[Ranks], task: str, figure: str) -> np.ndarray:
    """One value a question, the mean over seeds: questions are the sample, not runs."""
    rows = []
    for one in runs:
        ranks = getattr(one, task)
        if figure == "mrr10":
            rows.append(np.where((ranks > 0) & (ranks <= 10), 1 / np.maximum(ranks, 1), 0.0))
        else:
            rows.append(((ranks > 0) & (ranks <= int(figure.removeprefix("top")))).astype(float))
    return np.asarray(np.mean(rows, 0))
