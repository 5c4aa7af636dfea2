"""Does it matter where negatives come from? ANCE's table 1 and its figures, with controls for the warm-up.

From one shallow base, each for twice as many steps: random negatives, those of the batch (NCE), BM25's, and DPR's
mixture. And from one warm-up with BM25's negatives, each for as many steps again: random, NCE, BM25's with random ones,
and ANCE; also BM25's and ANCE's together with those of the batch, which tells what a negative is worth from how many
there are. And ANCE with several vectors of a text, as for documents (MaxP).
"""

import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mundap.charts import line_chart, scatter
from mundap.experiments import evidence
from mundap.experiments.frame import Arm, Claim, Column, Extra, Outcomes, Plan, Quoted, slug
from mundap.experiments.lab import Lab
from mundap.experiments.negatives import SMALLER
from mundap.training.ance import trainer
from mundap.training.ance.exchange import ExchangeFolder
from mundap.training.ance.negatives import Generation
from mundap.training.gradients import LAYER_GROUPS

WARM = "warm-up (BM25)"
ANCE = "warm-up -> ANCE (FirstP)"
ANCE_IN_BATCH = "warm-up -> ANCE + in-batch"
MAXP = "warm-up -> ANCE (MaxP)"
_RANDOM: dict[str, Any] = {"in_batch_negatives": False, "hard_negatives": 0, "random_negatives": 1}
_NCE: dict[str, Any] = {"in_batch_negatives": True, "hard_negatives": 0}
_BM25: dict[str, Any] = {"in_batch_negatives": False, "hard_negatives": 1}
_DPR: dict[str, Any] = {"in_batch_negatives": True, "hard_negatives": 1}
_DEPTH = 1000
_COLUMNS = (
    Column("mrr10", "MRR@10", 1.0, 3),
    Column("recall", "recall@1000", 1.0, 3),
    Column("rerank_ndcg10", "passages, rerank nDCG@10", 1.0, 3),
    Column("ndcg10", "passages, retrieval nDCG@10", 1.0, 3),
    Column("documents_rerank_ndcg10", "documents, rerank nDCG@10", 1.0, 3),
    Column("documents_ndcg10", "documents, retrieval nDCG@10", 1.0, 3),
    Column("top1", "top-1"),
    Column("top20", "top-20"),
)


_HOLES = Column("hole10", "Hole@10", 1.0, 3)


def _paper(*figures: float | None) -> dict[str, float]:
    """A row of the paper's table: MS MARCO's MRR@10 and recall@1000, TREC DL's nDCG@10."""
    known = zip(_COLUMNS[: len(figures)], figures, strict=True)
    return {column.name: figure for column, figure in known if figure is not None}


_ALONE: Mapping[str, tuple[dict[str, Any], dict[str, float]]] = {
    "random": (_RANDOM, _paper(0.261, 0.949, 0.605, 0.552, 0.615, 0.543)),
    "NCE (in-batch)": (_NCE, _paper(0.256, 0.943, 0.602, 0.539, 0.618, 0.542)),
    "BM25 negatives": (_BM25, _paper(0.299, 0.928, 0.664, 0.591, 0.626, 0.529)),
    "DPR (BM25 + in-batch)": (_DPR, _paper(0.311, 0.952, 0.653, 0.600, 0.629, 0.557)),
}
_AFTER: Mapping[str, tuple[dict[str, Any], dict[str, float]]] = {
    "warm-up -> random": (_RANDOM, _paper(0.280, 0.948, 0.609, 0.576, 0.637, 0.566)),
    "warm-up -> NCE": (_NCE, _paper(0.279, 0.942, 0.608, 0.571, 0.638, 0.564)),
    "warm-up -> BM25 + random": ({**_BM25, "random_negatives": 1}, _paper(0.306, 0.939, 0.648, 0.591, 0.626, 0.540)),
    "warm-up -> BM25 + in-batch": (_DPR, {}),
    ANCE: (_BM25, _paper(0.330, 0.959, 0.677, 0.648, 0.641, 0.615)),
    ANCE_IN_BATCH: (_DPR, {}),
    MAXP: (_BM25, _paper(None, None, None, None, 0.671, 0.628)),
}
_QUOTED = (
    Quoted("DeepCT", _paper(0.243, None, None, None, None, 0.554), "Dai and Callan 2019, in ANCE, table 1"),
    Quoted(
        "best traditional TREC run", _paper(0.240, None, None, 0.554, None, 0.549), "TREC DL 2019, in ANCE, table 1"
    ),
    Quoted("BERT reranker", _paper(None, None, 0.742, None, 0.646), "TREC DL 2019, in ANCE, table 1"),
)


_BY_ANSWER = (
    "The first passage with the answer is taken for the only relevant one. Where the test file names no gold passage, "
    "only questions that BM25 answers within its top 100 are asked, which favours BM25. The paper's hole rate, the "
    "share of the first ten passages that nobody has judged, is left out: questions with answers have no judgements."
)
_BY_JUDGEMENT = (
    "Relevant is what the judgements give a grade of 1 or more. Every judged passage is in the corpus. Hole@10 is the "
    "share of the first ten passages that nobody has judged."
)


def plan(lab: Lab) -> Plan:
    """All kinds of negatives, and why they differ."""
    arms = [
        Arm("BM25", lambda lab, seed: _bm25(lab), _paper(0.240, 0.814, None, 0.506, None, 0.519), seeded=False),
        Arm("base", lambda lab, seed: _measured(lab, lab.data.base_model), seeded=False),
        Arm(WARM, lambda lab, seed: _measured(lab, _warm(lab, seed))),
    ]
    for name, (_, paper) in {**_ALONE, **_AFTER}.items():
        if name != MAXP or lab.documents:
            arms.append(Arm(name, _measure(name), paper))
    claims = [
        Claim("ANCE beats BM25 + random negatives", ANCE, "warm-up -> BM25 + random", "mrr10"),
        Claim("ANCE beats DPR", ANCE, "DPR (BM25 + in-batch)", "mrr10"),
        Claim("ANCE beats random negatives after the same warm-up", ANCE, "warm-up -> random", "mrr10"),
        Claim("ANCE's negatives beat BM25's at equal numbers", ANCE_IN_BATCH, "warm-up -> BM25 + in-batch", "mrr10"),
        Claim("DPR beats BM25 negatives alone", "DPR (BM25 + in-batch)", "BM25 negatives", "mrr10"),
    ]
    if lab.documents:
        claims.append(Claim("For documents, MaxP beats FirstP", MAXP, ANCE, "documents_ndcg10"))
    columns, relevance = list(_COLUMNS), _BY_ANSWER
    if lab.ranking().judged:
        columns.append(_HOLES)
        relevance = _BY_JUDGEMENT
    return Plan(
        title="Where should negatives come from?",
        source="ANCE, table 1 (MRR@10 and recall on MS MARCO passages, nDCG@10 on TREC DL 2019), figures 3 to 5",
        columns=columns,
        arms=arms,
        claims=claims,
        quoted=_QUOTED,
        caution=(
            f"{SMALLER} {relevance} BM25's best hundred are reranked. A passage also stands for a document: FirstP "
            f"sees its first {lab.scale.passage_length} tokens, MaxP up to four chunks of "
            f"{lab.chunked['chunk_words']} words. A warm-up and what follows it have a schedule of the learning rate "
            "each, the other runs one over all steps. Kinds differ in number too: a question has one negative of its "
            "own with random, BM25 and ANCE, and with in-batch ones as many as the batch has passages."
        ),
        appendix=_appendix,
    )


def _warm(lab: Lab, seed: int) -> Path:
    return lab.trained(slug(WARM), seed, **_BM25)


def _measure(name: str) -> Any:
    def measure(lab: Lab, seed: int) -> Mapping[str, Any]:
        model = _model(lab, name, seed)
        if name == MAXP:
            return _as_documents(_measured(lab, model, **_by_document(lab)))
        values = _measured(lab, model)
        if name == ANCE:
            values |= _as_documents(values)
        return values

    return measure


def _model(lab: Lab, name: str, seed: int) -> Path:
    if name in _ALONE:
        twice: dict[str, Any] = {"max_steps": 2 * lab.scale.steps, "epochs": 2 * lab.scale.epochs}
        return lab.trained(slug(name), seed, **_ALONE[name][0], **twice)
    changes: dict[str, Any] = {**_AFTER[name][0], "base_model": str(_warm(lab, seed))}
    if name == MAXP:
        return lab.trained_by_ance(slug(name), seed, **changes, **_by_document(lab))
    if name in (ANCE, ANCE_IN_BATCH):
        return lab.trained_by_ance(slug(name), seed, **changes)
    return lab.trained(slug(name), seed, **changes)


def _by_document(lab: Lab) -> dict[str, Any]:
    return {"index": str(lab.documents), **lab.chunked}


def _bm25(lab: Lab) -> Mapping[str, Any]:
    ranking = lab.ranking()
    return ranking.figures(ranking.by_bm25(_DEPTH))


def _measured(lab: Lab, folder: Path, **changes: Any) -> dict[str, Any]:
    """Retrieval from the corpus, and reranking of BM25's best hundred."""
    ranking, model = lab.ranking(), lab.model(folder, **changes)
    again = ranking.figures(ranking.reranked(model))
    renamed = {f"rerank_{name}": values for name, values in again.items()}
    return {**ranking.figures(ranking.by_model(model, _DEPTH)), **renamed}


def _as_documents(values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"documents_{name}": values[name] for name in ("rerank_ndcg10", "ndcg10")}


def _appendix(lab: Lab, outcomes: Outcomes) -> Extra:
    """Negatives as three models see them, and loss and gradient over the steps. Kept, for it needs the models."""
    path = lab.out / "evidence.json"
    if not path.exists():
        lab.tell("looking at the negatives")
        folder = lab.folder(slug(ANCE), 0)
        exchange = ExchangeFolder(folder / trainer.EXCHANGE)
        newest = Generation.open(exchange, exchange.published()[-1])
        published = {}
        if newest is not None:
            published[ANCE] = newest
        models = {"base": lab.data.base_model, WARM: _warm(lab, 0), ANCE: folder / "model"}
        found = evidence.compare_negatives(lab, models, published)
        found.save(path)
    found = evidence.NegativesEvidence.load(path)
    parts = _training_curves(lab)
    for name, kinds in found.kinds.items():
        parts.append(f"<h2>Negatives as the model sees them: {html.escape(name)}</h2>{_kinds(kinds)}")
        curves = {f"question {n}": points for n, points in enumerate(found.curves[name].values(), 1)}
        chart = line_chart(curves, "rank", "", logarithmic=True)
        parts.append(f"<h3>Highest scores by rank, less the mean of the corpus</h3>{chart}")
        parts.append(f"<h3>“{html.escape(found.question)}” and its passages (t-SNE)</h3>{scatter(found.maps[name])}")
    parts.append(
        "<p class=dim>Overlap: the share of a question's negatives that is among the 100 passages the model finds. "
        "Loss: of the positive and one negative. Gradient: its norm in the first, the middle and the last layer.</p>"
    )
    return Extra({"evidence": found.numbers()}, parts)


_SMOOTHED = 10  # steps: one alone has too few questions
_CURVES = {
    "loss": "Loss over the steps",
    "grad_norm": "Norm of the gradient over the steps",
    "grad_norm_bottom": "Norm of the gradient over the steps, bottom third of the layers",
    "grad_norm_middle": "Norm of the gradient over the steps, middle third of the layers",
    "grad_norm_top": "Norm of the gradient over the steps, top third of the layers",
}


def _training_curves(lab: Lab) -> list[str]:
    """Loss and gradient norms over the steps of every arm's first run, as in ANCE's figure 4."""
    logs = {}
    for name in (*_ALONE, *_AFTER):
        path = lab.folder(slug(name), 0) / "log.jsonl"
        if path.exists():
            logs[name] = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    parts = []
    for figure, title in _CURVES.items():
        lines = {name: _points(rows, figure) for name, rows in logs.items()}
        lines = {name: points for name, points in lines.items() if points}  # there is no middle third of two layers
        if lines:
            parts.append(f"<h2>{title}</h2>{line_chart(lines, 'step')}")
    if parts:
        parts.append(f"<p class=dim>Each point of these curves is the mean of {_SMOOTHED} steps.</p>")
    return parts


def _points(rows: Sequence[Mapping[str, float]], figure: str) -> list[tuple[float, float]]:
    """A figure over the steps of a log, where it stands; each point is the mean of some steps."""
    steps = [(float(row["step"]), row[figure]) for row in rows if figure in row]
    points = []
    for at in range(0, len(steps), _SMOOTHED):
        some = steps[at : at + _SMOOTHED]
        points.append((some[-1][0], sum(value for _, value in some) / len(some)))
    return points


def _kinds(kinds: Mapping[str, Mapping[str, float]]) -> str:
    columns = ("overlap", "loss", *(f"gradient_{group}" for group in LAYER_GROUPS))
    head = "".join(f"<th>{name.replace('_', ', ')}</th>" for name in columns)
    rows = []
    for kind, figures in kinds.items():
        cells = "".join(f"<td>{figures[name]:.4g}</td>" for name in columns)
        rows.append(f"<tr><td>{kind}</td>{cells}</tr>")
    return f"<div class=wide><table><tr><th>negatives</th>{head}</tr>{''.join(rows)}</table></div>"
