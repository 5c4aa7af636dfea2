"""ORQA as a whole: pre-training by the inverse cloze task, then the question encoder alone; and DPR without it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mundap.experiments.examples import bm25_arm
from mundap.experiments.frame import Arm, Claim, Plan
from mundap.experiments.lab import Lab
from mundap.experiments.negatives import SMALLER, TOP5_20_100
from mundap.training.ict import write_examples
from mundap.training.recipe import DataSet


def plan(lab: Lab) -> Plan:
    """What the pre-training brings, and whether DPR needs it."""

    def pretrained(lab: Lab, seed: int) -> Path:
        """Both towers, trained on sentences and the passages they were taken from."""
        train, _ = write_examples(str(lab.data.index), lab.out / "data" / "ict", keep=0.1)
        changes: dict[str, Any] = {"hard_negatives": 0, "mask_false_negatives": False}
        return lab.trained("ict", seed, sets=[DataSet(str(train))], **changes)

    def ict_alone(lab: Lab, seed: int) -> Mapping[str, Any]:
        return lab.retrieval(pretrained(lab, seed))

    def orqa(lab: Lab, seed: int) -> Mapping[str, Any]:
        start = str(pretrained(lab, seed))
        frozen: dict[str, Any] = {"towers": "two", "freeze_tower": "passage", "hard_negatives": 0}
        return lab.retrieval(lab.trained("orqa", seed, base_model=start, **frozen))

    def dpr(lab: Lab, seed: int) -> Mapping[str, Any]:
        return lab.retrieval(lab.trained("dpr", seed))

    def dpr_after(lab: Lab, seed: int) -> Mapping[str, Any]:
        return lab.retrieval(lab.trained("ict-dpr", seed, base_model=str(pretrained(lab, seed))))

    return Plan(
        title="Does a retriever need pre-training by the inverse cloze task?",
        source="ORQA (Lee et al. 2019); DPR, section 6, shows that it is not needed",
        columns=TOP5_20_100,
        arms=[
            bm25_arm(),
            Arm("ICT alone", ict_alone),
            Arm("ICT, then questions with frozen passages (ORQA)", orqa),
            Arm("DPR without pre-training", dpr),
            Arm("ICT, then DPR", dpr_after),
        ],
        claims=(
            Claim(
                "DPR without pre-training beats ORQA",
                "DPR without pre-training",
                "ICT, then questions with frozen passages (ORQA)",
                "top20",
            ),
            Claim(
                "Pre-training helps DPR (the paper: not needed)", "ICT, then DPR", "DPR without pre-training", "top20"
            ),
        ),
        caution=(
            f"{SMALLER} ORQA's question encoder learns here from gold passages with in-batch negatives, not from a "
            "reader's marginal likelihood. Rows with pre-training have twice the steps."
        ),
    )
