"""Does it matter where negatives come from? ANCE's table 1 and its figures, with controls for the warm-up.

From one shallow base, each for twice as many steps: random negatives, those of the batch (NCE), BM25's, and DPR's
mixture. And from one warm-up with BM25's negatives, each for as many steps again: random, NCE, BM25's with random ones,
and ANCE; also BM25's and ANCE's together with those of the batch, which tells what a negative is worth from how many
there are.
"""

import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mundap.charts import line_chart, scatter
from mundap.experiments import evidence
from mundap.experiments.frame import Arm, Claim, Column, Extra, Outcomes, Plan, Quoted, slug
from mundap.experiments.lab import Lab
from mundap.experiments.negatives import SMALLER
from mundap.experiments.ranking import figures_of
from mundap.training.ance import trainer
from mundap.training.ance.exchange import ExchangeFolder
from mundap.training.ance.negatives import Generation

WARM = "warm-up (BM25)"
ANCE = "warm-up -> ANCE"
ANCE_IN_BATCH = "warm-up -> ANCE + in-batch"
_RANDOM: dict[str, Any] = {"in_batch_negatives": False, "hard_negatives": 0, "random_negatives": 1}
_NCE: dict[str, Any] = {"in_batch_negatives": True, "hard_negatives": 0}
_BM25: dict[str, Any] = {"in_batch_negatives": False, "hard_negatives": 1}
_DPR: dict[str, Any] = {"in_batch_negatives": True, "hard_negatives": 1}
_ALONE: Mapping[str, tuple[dict[str, Any], dict[str, float]]] = {
    "random": (_RANDOM, {"mrr10": 0.261}),
    "NCE (in-batch)": (_NCE, {"mrr10": 0.256}),
    "BM25 negatives": (_BM25, {"mrr10": 0.299}),
    "DPR (BM25 + in-batch)": (_DPR, {"mrr10": 0.311}),
}
_AFTER: Mapping[str, tuple[dict[str, Any], dict[str, float]]] = {
    "warm-up -> random": (_RANDOM, {"mrr10": 0.280}),
    "warm-up -> NCE": (_NCE, {"mrr10": 0.279}),
    "warm-up -> BM25 + random": ({**_BM25, "random_negatives": 1}, {"mrr10": 0.306}),
    "warm-up -> BM25 + in-batch": (_DPR, {}),
    ANCE: (_BM25, {"mrr10": 0.330}),
    ANCE_IN_BATCH: (_DPR, {}),
}
_COLUMNS = (
    Column("mrr10", "MRR@10", 1.0, 3),
    Column("top1", "top-1"),
    Column("top20", "top-20"),
    Column("top100", "top-100"),
    Column("rerank_mrr10", "rerank MRR@10", 1.0, 3),
    Column("rerank_top1", "rerank top-1"),
)


def plan(lab: Lab) -> Plan:
    """All kinds of negatives, and why they differ."""
    arms = [
        Arm("BM25", lambda lab, seed: _measured(lab, None), {"mrr10": 0.240}, seeded=False),
        Arm("base", lambda lab, seed: _measured(lab, lab.data.base_model), seeded=False),
        Arm(WARM, lambda lab, seed: _measured(lab, _warm(lab, seed))),
    ]
    for name, (_, paper) in {**_ALONE, **_AFTER}.items():
        arms.append(Arm(name, _measure(name), paper))
    return Plan(
        title="Where should negatives come from?",
        source="ANCE, table 1 (MRR@10 on MS MARCO passages), figures 3 to 5",
        columns=_COLUMNS,
        arms=arms,
        claims=(
            Claim("ANCE beats BM25 + random negatives", ANCE, "warm-up -> BM25 + random", "mrr10"),
            Claim("ANCE beats DPR", ANCE, "DPR (BM25 + in-batch)", "mrr10"),
            Claim("ANCE beats random negatives after the same warm-up", ANCE, "warm-up -> random", "mrr10"),
            Claim(
                "ANCE's negatives beat BM25's at equal numbers", ANCE_IN_BATCH, "warm-up -> BM25 + in-batch", "mrr10"
            ),
            Claim("DPR beats BM25 negatives alone", "DPR (BM25 + in-batch)", "BM25 negatives", "mrr10"),
        ),
        quoted=(
            Quoted("DeepCT", {"mrr10": 0.243}, "Dai and Callan 2019"),
            Quoted("best traditional TREC run", {"mrr10": 0.240}, "TREC DL 2019"),
        ),
        caution=(
            f"{SMALLER} The paper's column is MS MARCO. A warm-up and what follows it have a schedule of the learning "
            "rate each, the other runs one over all steps. Kinds differ in number too: a question has one negative of "
            "its own with random, BM25 and ANCE, and with in-batch ones as many as the batch has passages. Where the "
            "test file names no gold passage, only questions that BM25 answers within its top 100 are asked, which "
            "favours BM25."
        ),
        appendix=_appendix,
    )


def _warm(lab: Lab, seed: int) -> Path:
    return lab.trained(slug(WARM), seed, **_BM25)


def _measure(name: str) -> Any:
    def measure(lab: Lab, seed: int) -> Mapping[str, Any]:
        return _measured(lab, _model(lab, name, seed))

    return measure


def _model(lab: Lab, name: str, seed: int) -> Path:
    if name in _ALONE:
        twice: dict[str, Any] = {"max_steps": 2 * lab.scale.steps, "epochs": 2 * lab.scale.epochs}
        return lab.trained(slug(name), seed, **_ALONE[name][0], **twice)
    changes: dict[str, Any] = {**_AFTER[name][0], "base_model": str(_warm(lab, seed))}
    if name in (ANCE, ANCE_IN_BATCH):
        return lab.trained_by_ance(slug(name), seed, **changes)
    return lab.trained(slug(name), seed, **changes)


def _measured(lab: Lab, folder: Path | None) -> Mapping[str, Any]:
    """Retrieval from the corpus, and reranking of BM25's best hundred."""
    ranking = lab.ranking()
    if folder is None:
        ranks = reranked = ranking.of_bm25()
    else:
        model = lab.model(folder)
        ranks, reranked = ranking.of_model(model), ranking.reranked(model)
    again = {f"rerank_{name}": values for name, values in figures_of(reranked).items()}
    return {**figures_of(ranks), **again}


def _appendix(lab: Lab, outcomes: Outcomes) -> Extra:
    """Negatives as three models see them, and loss and gradient over the steps. Kept, for it needs the models."""
    path = lab.out / "evidence.json"
    if not path.exists():
        lab.tell("looking at the negatives")
        folder = lab.folder(slug(ANCE), 0)
        exchange = ExchangeFolder(folder / trainer.EXCHANGE)
        published = Generation.open(exchange, exchange.published()[-1])
        models = {"base": lab.data.base_model, WARM: _warm(lab, 0), ANCE: folder / "model"}
        found = evidence.look(lab, models, {ANCE: published} if published else {})
        evidence.save(found, path)
    found = evidence.load(path)
    parts = _training_curves(lab)
    for name, kinds in found.kinds.items():
        parts.append(f"<h2>Negatives as the model sees them: {html.escape(name)}</h2>{_kinds(kinds)}")
        curves = {f"question {n}": points for n, points in enumerate(found.curves[name].values(), 1)}
        chart = line_chart(curves, "rank", "", logarithmic=True)
        parts.append(f"<h3>Highest scores by rank, less the mean of the corpus</h3>{chart}")
        parts.append(f"<h3>“{html.escape(found.question)}” and its passages (t-SNE)</h3>{scatter(found.maps[name])}")
    parts.append(
        "<p class=dim>Overlap: the share of a question's negatives that is among the 100 passages the model finds; one "
        "less that is the hole rate of ANCE's refresh. Loss: of the positive and one negative. Gradient: its norm in "
        "the first, the middle and the last layer.</p>"
    )
    return Extra({"evidence": found.numbers()}, parts)


def _training_curves(lab: Lab) -> list[str]:
    """Loss and gradient norm over the steps of every arm's first run, as in ANCE's figure 4."""
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {"loss": {}, "grad_norm": {}}
    for name in (*_ALONE, *_AFTER):
        path = lab.folder(slug(name), 0) / "log.jsonl"
        if not path.exists():
            continue
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        for figure, lines in curves.items():
            lines[name] = [(float(row["step"]), row[figure]) for row in rows if figure in row]
    titles = {"loss": "Loss over the steps", "grad_norm": "Norm of the gradient over the steps"}
    return [f"<h2>{titles[figure]}</h2>{line_chart(lines, 'step')}" for figure, lines in curves.items() if lines]


def _kinds(kinds: Mapping[str, Mapping[str, float]]) -> str:
    columns = ("overlap", "loss", *(f"gradient_{group}" for group in evidence.GROUPS))
    head = "".join(f"<th>{name.replace('_', ', ')}</th>" for name in columns)
    rows = []
    for kind, figures in kinds.items():
        cells = "".join(f"<td>{figures[name]:.4g}</td>" for name in columns)
        rows.append(f"<tr><td>{kind}</td>{cells}</tr>")
    return f"<div class=wide><table><tr><th>negatives</th>{head}</tr>{''.join(rows)}</table></div>"
