"""ORQA as a whole: pre-training by the inverse cloze task, then the question encoder alone; and DPR without it."""

from collections.abc import Mapping
from typing import Any

from mundap.experiments.examples import bm25_arm
from mundap.experiments.frame import Arm, Claim, Plan
from mundap.experiments.lab import Lab
from mundap.experiments.negatives import SMALLER, TOP5_20_100
from mundap.training.ict import write_examples
from mundap.training.recipe import DataSet


def plan(lab: Lab) -> Plan:
    """What pre-training gains, and whether DPR needs it."""

    def cloze(lab: Lab) -> dict[str, Any]:
        """Sentences and the passages they were taken from, to train both towers on."""
        train, _ = write_examples(str(lab.data.index), lab.data_folder / "ict", keep=0.1)
        return {"sets": [DataSet(str(train))], "hard_negatives": 0, "mask_false_negatives": False}

    def pretrained(lab: Lab, seed: int) -> str:
        return str(lab.trained("ict", seed, **cloze(lab)))

    def ict_alone(lab: Lab, seed: int) -> Mapping[str, Any]:
        return lab.retrieval("ict", seed, **cloze(lab))

    def orqa(lab: Lab, seed: int) -> Mapping[str, Any]:
        frozen: dict[str, Any] = {"towers": "two", "freeze_tower": "passage", "hard_negatives": 0}
        return lab.retrieval("orqa", seed, base_model=pretrained(lab, seed), **frozen)

    def dpr(lab: Lab, seed: int) -> Mapping[str, Any]:
        return lab.retrieval("dpr", seed)

    def dpr_after(lab: Lab, seed: int) -> Mapping[str, Any]:
        return lab.retrieval("ict-dpr", seed, base_model=pretrained(lab, seed))

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
