"""Pre-training by the inverse cloze task: ORQA as a whole, its question encoder with gold passages, DPR without it."""

from collections.abc import Mapping
from typing import Any

from mundap.experiments.examples import bm25_arm
from mundap.experiments.frame import Arm, Claim, Column, Plan
from mundap.experiments.lab import Lab
from mundap.experiments.negatives import SMALLER, TOP5_20_100
from mundap.experiments.orqa import cloze, orqa, passages_read, pretrained
from mundap.experiments.qa import paper_figures
from mundap.reader.checkpoints import open_reader

_DPR, _LONGER = "DPR without pre-training", "DPR without pre-training, twice the steps"
_ORQA = "ORQA: ICT, then question encoder and reader by the marginal likelihood"


def plan(lab: Lab) -> Plan:
    """What pre-training gains, and whether DPR needs it."""
    open_reader(lab.reader_base, fresh=True)  # a checkpoint that cannot be read is told before anything is done

    def ict_alone(lab: Lab, seed: int) -> Mapping[str, Any]:
        return lab.retrieval("ict", seed, **cloze(lab))

    def questions_from_gold(lab: Lab, seed: int) -> Mapping[str, Any]:
        frozen: dict[str, Any] = {"towers": "two", "freeze_tower": "passage", "hard_negatives": 0}
        return lab.retrieval("orqa", seed, base_model=str(pretrained(lab, seed)), **frozen)

    def dpr(lab: Lab, seed: int) -> Mapping[str, Any]:
        return lab.retrieval("dpr", seed)

    def dpr_longer(lab: Lab, seed: int) -> Mapping[str, Any]:
        return lab.retrieval("dpr-twice", seed, **lab.twice_the_steps)

    def dpr_after(lab: Lab, seed: int) -> Mapping[str, Any]:
        return lab.retrieval("ict-dpr", seed, base_model=str(pretrained(lab, seed)))

    return Plan(
        title="Does a retriever need pre-training by the inverse cloze task?",
        source="ORQA (Lee et al. 2019); DPR, section 6, shows that it is not needed",
        columns=(*TOP5_20_100, Column("exact_match", "exact match")),
        arms=[
            bm25_arm(),
            Arm("ICT alone", ict_alone),
            Arm("ICT, then questions with frozen passages", questions_from_gold),
            Arm(_ORQA, orqa, paper_figures(lab, "ORQA")),
            Arm(_DPR, dpr),
            Arm(_LONGER, dpr_longer),
            Arm("ICT, then DPR", dpr_after),
        ],
        claims=(
            Claim("DPR without pre-training beats ORQA", _DPR, _ORQA, "top20"),
            Claim("Pre-training helps DPR (the paper: not needed)", "ICT, then DPR", _DPR, "top20"),
            Claim("Pre-training helps DPR at equal steps", "ICT, then DPR", _LONGER, "top20"),
        ),
        caution=(
            f"{SMALLER} Rows with pre-training have twice the steps; ORQA has, after it, those of a reader, which are "
            f"fewer. It reads {passages_read(lab)} passages of a question, found by the pre-trained retriever before "
            "the reader's training: in the paper they are found anew at every step, and the early loss sees 5,000. "
            "With frozen passages and without a reader, the question encoder learns from gold passages with in-batch "
            "negatives. The paper's exact match is that of Natural Questions, unless the set has a name that it has "
            "too."
        ),
    )
