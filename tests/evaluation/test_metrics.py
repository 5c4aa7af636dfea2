"""Against the reference implementations: trec_eval by pytrec-eval-terrier, and ranx."""

import json
import os
import random
import subprocess
import sys

import pytest

from mundap.evaluation import metrics
from mundap.evaluation.outcomes import by_qrels
from mundap.records import Context, Question, Result

CUTS = (1, 5, 10, 100)


def made_up(seed, ties=False):
    """Judgements with grades, and a run with unjudged, missing and tied documents."""
    chance = random.Random(seed)
    documents = [f"d{n}" for n in range(300)]
    qrels, run = {}, {}
    for number in range(40):
        judged = chance.sample(documents, chance.randint(1, 30))
        qrels[f"q{number}"] = {name: chance.choice([0, 0, 1, 1, 2, 3]) for name in judged}
        found = chance.sample(documents, chance.randint(1, 200))
        step = 20 if ties else 1_000_000
        run[f"q{number}"] = {name: chance.randrange(step) / step for name in found}
    qrels["nothing relevant"] = {"d1": 0}
    run["nothing relevant"] = {"d1": 0.5, "d2": 0.4}
    run["not judged"] = {"d1": 1.0}
    return qrels, run


def ours(qrels, run):
    results = [
        Result(
            Question(name, ""),
            tuple(
                Context(one, score=score)
                for one, score in sorted(found.items(), key=lambda p: (p[1], p[0]), reverse=True)
            ),
        )
        for name, found in run.items()
    ]
    system = by_qrels("x", qrels, results, CUTS)
    return {outcome.question.id: outcome.values for outcome in system.outcomes}, system


@pytest.mark.parametrize("ties", [False, True])
def test_as_trec_eval(ties):
    import pytrec_eval

    qrels, run = made_up(1, ties)
    names = {"map", "recip_rank", *(f"{m}.{','.join(map(str, CUTS))}" for m in ("ndcg_cut", "recall", "P"))}
    theirs = pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run)
    mine, _ = ours(qrels, run)
    assert len(theirs) == len(mine) == 41
    for name, values in theirs.items():
        assert mine[name]["map"] == pytest.approx(values["map"], abs=1e-6)
        for k in CUTS:
            assert mine[name][f"ndcg@{k}"] == pytest.approx(values[f"ndcg_cut_{k}"], abs=1e-6)
            assert mine[name][f"recall@{k}"] == pytest.approx(values[f"recall_{k}"], abs=1e-6)
            assert mine[name][f"precision@{k}"] == pytest.approx(values[f"P_{k}"], abs=1e-6)
        whole = mine[name]["mrr@100"]
        assert values["recip_rank"] == pytest.approx(whole, abs=1e-6) or values["recip_rank"] < 1 / 100


RANX = """
import json, sys, ranx
qrels, run, names = json.load(sys.stdin)
print(json.dumps({name: float(value) for name, value in ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), names).items()}))
"""


@pytest.mark.slow
def test_as_ranx():
    qrels, run = made_up(2)
    del run["not judged"]
    names = ["map", *(f"{m}@{k}" for m in ("ndcg", "mrr", "recall", "precision") for k in (5, 10, 100))]
    # To compile takes a minute, to run uncompiled some seconds; numba decides which when it is first imported.
    done = subprocess.run(
        [sys.executable, "-c", RANX],
        input=json.dumps([qrels, run, names]),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    _, system = ours(qrels, run)
    means = system.means()
    for name in names:
        assert means[name] == pytest.approx(theirs[name], abs=1e-5), name


def test_a_missing_question_counts_as_nothing():
    qrels, run = made_up(3)
    _, whole = ours(qrels, run)
    lost = dict(run)
    del lost["q0"]
    values, system = ours(qrels, lost)
    assert system.missing == 1
    assert values["q0"]["ndcg@10"] == 0
    expected = (whole.means()["ndcg@10"] * 41 - {o.question.id: o for o in whole.outcomes}["q0"].values["ndcg@10"]) / 41
    assert system.means()["ndcg@10"] == pytest.approx(expected, abs=1e-5)


def test_the_level_of_relevance():
    qrels = {"q": {"a": 1, "b": 2}}
    result = [Result(Question("q", ""), (Context("a"), Context("b")))]
    assert by_qrels("x", qrels, result, (10,), level=2).means()["mrr@10"] == 0.5
    assert by_qrels("x", qrels, result, (10,), level=1).means()["mrr@10"] == 1


def test_negative_grades_are_no_gain():
    assert metrics.ranking_metrics(["a"], {"a": -2, "b": 1}, 1, [10])["ndcg@10"] == 0
