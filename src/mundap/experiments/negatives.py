"""Which negatives, how many, with which similarity and loss (DPR's table 3 and appendix B; RocketQA)."""

from collections.abc import Mapping
from typing import Any

from mundap.experiments.frame import Arm, Claim, Column, Plan, slug
from mundap.experiments.lab import Lab

TOP5_20_100 = (Column("top5", "top-5"), Column("top20", "top-20"), Column("top100", "top-100"))
SMALLER = (
    "The paper trains BERT on 58,880 questions of Natural Questions and searches 21 million passages; here a shallow "
    "network, few steps and a small corpus stand for it, so that only the order of the rows can be compared."
)


def _retriever_arm(name: str, paper: Mapping[str, float], changes: Mapping[str, Any]) -> Arm:
    """A row that is a recipe: train with these changes, then retrieve."""

    def measure(lab: Lab, seed: int) -> Mapping[str, Any]:
        return lab.retrieval(slug(name), seed, **changes)

    return Arm(name, measure, paper)


def _paper_row(top5: float, top20: float, top100: float) -> dict[str, float]:
    """Top-5, top-20 and top-100 accuracy of a row of a paper's table."""
    return {"top5": top5, "top20": top20, "top100": top100}


def plan(lab: Lab) -> Plan:
    """DPR's table 3. Batches of three sizes stand for 8, 32 and 128 questions."""
    small, middle, large = lab.scale.batch_sizes
    fixed = {"in_batch_negatives": False, "batch_size": small}
    count = small - 1

    def listed(**kinds: int) -> dict[str, Any]:
        return {**fixed, "hard_negatives": 0, **kinds}

    def in_batch(size: int, hard: int) -> dict[str, Any]:
        return {"batch_size": size, "hard_negatives": hard}

    names = {
        "random": f"random, {count} (not in-batch)",
        "bm25": f"BM25, {count} (not in-batch)",
        "gold": f"gold, {count} (not in-batch)",
        "small": f"gold in-batch, {small - 1}",
        "middle": f"gold in-batch, {middle - 1}",
        "large": f"gold in-batch, {large - 1}",
        "middle+1": f"gold in-batch, {middle - 1} + {middle} BM25 (1 each)",
        "middle+2": f"gold in-batch, {middle - 1} + {2 * middle} BM25 (2 each)",
        "large+1": f"gold in-batch, {large - 1} + {large} BM25 (1 each)",
    }
    arms = [
        _retriever_arm(names["random"], _paper_row(47.0, 64.3, 77.8), listed(random_negatives=count)),
        _retriever_arm(names["bm25"], _paper_row(50.0, 63.3, 74.8), listed(hard_negatives=count)),
        _retriever_arm(names["gold"], _paper_row(42.6, 63.1, 78.3), listed(gold_negatives=count)),
        _retriever_arm(names["small"], _paper_row(51.1, 69.1, 80.8), in_batch(small, 0)),
        _retriever_arm(names["middle"], _paper_row(52.1, 70.8, 82.1), in_batch(middle, 0)),
        _retriever_arm(names["large"], _paper_row(55.8, 73.0, 83.1), in_batch(large, 0)),
        _retriever_arm(names["middle+1"], _paper_row(65.0, 77.3, 84.4), in_batch(middle, 1)),
        _retriever_arm(names["middle+2"], _paper_row(64.5, 76.4, 84.0), in_batch(middle, 2)),
        _retriever_arm(names["large+1"], _paper_row(65.8, 78.0, 84.9), in_batch(large, 1)),
    ]
    return Plan(
        title="Which negatives, and how many?",
        source="DPR, table 3 (development set of Natural Questions)",
        columns=TOP5_20_100,
        arms=arms,
        claims=(
            Claim("In-batch negatives beat as many fixed gold ones", names["small"], names["gold"], "top20"),
            Claim("A larger batch helps", names["large"], names["small"], "top20"),
            Claim("One BM25 negative per question helps", names["middle+1"], names["middle"], "top20"),
            Claim("A second BM25 negative helps (the paper: no)", names["middle+2"], names["middle+1"], "top20"),
        ),
        caution=f"{SMALLER} Batches of {small}, {middle} and {large} stand for 8, 32 and 128.",
    )


def similarity_and_loss(lab: Lab) -> Plan:
    """DPR's comparison of similarities and losses, with in-batch negatives and one BM25 negative."""
    arms = []
    for similarity, temperature in (("dot", 1.0), ("l2", 1.0), ("cosine", 0.05)):
        for loss in ("nll", "triplet"):
            changes = {"similarity": similarity, "temperature": temperature, "loss": loss, "margin": 1.0}
            if loss == "triplet":  # it compares scores with a margin: a temperature would only rescale that
                changes["temperature"] = 1.0
            if similarity == "cosine":
                changes["margin"] = 0.2
            arms.append(_retriever_arm(f"{similarity}, {loss}", {}, changes))
    scaled, unscaled = "dot / root of the width, nll", "cosine without temperature, nll"
    root = round(lab.width**0.5, 3)
    arms.append(_retriever_arm(scaled, {}, {"similarity": "dot", "temperature": root}))
    arms.append(_retriever_arm(unscaled, {}, {"similarity": "cosine", "temperature": 1.0}))
    return Plan(
        title="Which similarity, which loss?",
        source="DPR, section 5.2 (the paper: dot above L2, both well above cosine; NLL above triplet)",
        columns=TOP5_20_100,
        arms=arms,
        claims=(
            Claim("The dot product beats L2", "dot, nll", "l2, nll", "top20"),
            Claim("The dot product beats cosine", "dot, nll", "cosine, nll", "top20"),
            Claim("NLL beats the triplet loss", "dot, nll", "dot, triplet", "top20"),
            Claim("The scale of the scores is what the dot product loses by", scaled, "dot, nll", "top20"),
            Claim(
                "The dot product beats cosine as the paper had it, without a temperature", "dot, nll", unscaled, "top20"
            ),
        ),
        caution=(
            f"{SMALLER} The base is a checkpoint that was trained for cosine, which favours it; cosine is divided by a "
            "temperature of .05, which the paper did not do, but for the last row."
        ),
    )


def cross_batch(lab: Lab) -> Plan:
    """RocketQA: passages of all workers serve each other as negatives.

    With W processes the trainer does exactly that, and its gradient is that of one process with the whole batch
    (tests/training/test_retriever.py). So one process with the larger batch stands for W with a part each.
    """
    small, _, large = lab.scale.batch_sizes
    workers = large // small
    alone = f"{workers} workers of {small}, negatives of their own batch"
    together = f"{workers} workers of {small}, negatives of all (cross-batch)"
    # Without sharing, W workers average the gradients of W small batches: that is gradient accumulation.
    apart = {"batch_size": small, "gradient_accumulation_steps": workers, "hard_negatives": 0}
    return Plan(
        title="What do cross-batch negatives bring?",
        source="RocketQA, section 3.2",
        columns=(*TOP5_20_100, Column("mrr10", "MRR@10", 1.0, 3)),
        arms=[
            _retriever_arm(alone, {}, apart),
            _retriever_arm(together, {}, {"batch_size": large, "hard_negatives": 0}),
        ],
        claims=(Claim("Cross-batch negatives beat in-batch ones", together, alone, "top20"),),
        caution=(
            f"{SMALLER} Both rows see the same questions per step. The workers are simulated in one process: the "
            "gradients are the same."
        ),
    )
