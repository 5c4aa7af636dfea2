"""How many training questions, and how good their positives (DPR's figure 1 and appendix A)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mundap.datasets import queries
from mundap.datasets.examples import read_examples
from mundap.experiments.data import UnsuitableData, write_mined
from mundap.experiments.frame import Arm, Claim, Column, Plan, slug
from mundap.experiments.lab import Lab
from mundap.experiments.negatives import SMALLER
from mundap.experiments.ranking import figures_of
from mundap.index.index import Index
from mundap.mining.make import MiningReport, Rules, make
from mundap.mining.negatives import Counts
from mundap.records import Example, Question
from mundap.training.recipe import DataSet

TOP = (Column("top20", "top-20"), Column("top1", "top-1"), Column("top5", "top-5"), Column("top100", "top-100"))
_SHARES = (1 / 32, 1 / 8, 1 / 4, 1.0)


def bm25_arm(paper: Mapping[str, float] | None = None, name: str = "") -> Arm:
    """BM25, which needs no training."""
    return Arm("BM25", lambda lab, seed: lab.bm25(name), paper or {}, seeded=False)


def sample_efficiency(lab: Lab) -> Plan:
    """DPR's figure 1: top-k accuracy by the number of training questions."""
    whole = lab.data.questions[lab.data.first]
    counts = sorted({max(lab.scale.batch_size, round(whole * share)) for share in _SHARES})
    arms = [bm25_arm({"top20": 59.1, "top100": 73.7}), Arm("the base, untrained", _untrained, seeded=False)]
    names = {}
    for count in counts:
        names[count] = f"{count:,} questions"
        arms.append(Arm(names[count], _limited(names[count], count)))
    few, many = names[counts[0]], names[counts[-1]]
    return Plan(
        title="How many training questions does a retriever need?",
        source="DPR, figure 1 (1,000 questions already beat BM25 on Natural Questions)",
        columns=TOP,
        arms=arms,
        claims=(
            Claim("The fewest questions already beat BM25", few, "BM25", "top20"),
            Claim("All questions beat the fewest", many, few, "top20"),
        ),
        curve={names[count]: ("DPR", float(count)) for count in counts},
        across="training questions",
        caution=(
            f"{SMALLER} The numbers of questions stand for 1k, 10k, 20k and all 59k. Every arm has the same number of "
            "steps, so that few questions are seen more often; each seed draws its own."
        ),
    )


def _untrained(lab: Lab, seed: int) -> Mapping[str, Any]:
    return figures_of(lab.ranking().of_model(lab.model(lab.data.base_model)))


def _limited(name: str, count: int) -> Any:
    def measure(lab: Lab, seed: int) -> Mapping[str, Any]:
        limit = {}
        if count < lab.data.questions[lab.data.first]:
            limit = {"max_examples": count, "sample_seed": seed}
        chosen = lab.data_set(lab.data.first, **limit)
        return lab.retrieval(slug(name), seed, sets=[chosen])

    return measure


def gold_vs_distant(lab: Lab) -> Plan:
    """DPR's appendix A: the gold passage, or the highest BM25 passage with the answer.

    Raises:
        UnsuitableData: The training file names no gold passages.
    """
    _with_gold(lab)

    def gold(lab: Lab, seed: int) -> Mapping[str, Any]:
        return lab.retrieval("gold", seed, sets=[_alike(lab)[0]])

    def distant(lab: Lab, seed: int) -> Mapping[str, Any]:
        return lab.retrieval("distant", seed, sets=[_alike(lab)[1]])

    return Plan(
        title="Does a distant positive cost accuracy?",
        source="DPR, appendix A (about one point at every k)",
        columns=TOP,
        arms=[Arm("gold passages", gold), Arm("distant supervision", distant)],
        claims=(Claim("Gold passages beat distant ones", "gold passages", "distant supervision", "top20"),),
        caution=f"{SMALLER} Both arms have the same questions: those for which both kinds of positives were found.",
    )


def _with_gold(lab: Lab) -> set[str]:
    """The ids of the training questions whose file names their gold passage."""
    path = lab.inputs.files.sets[lab.data.first][0]
    asked, _ = queries.read_all(path)
    names = {one.id for one in asked if one.gold}
    if not names:
        message = "{path} names no gold passages, so that there is nothing to compare: gold-vs-distant needs them"
        raise UnsuitableData(message, path=path)
    return names


def _alike(lab: Lab) -> tuple[DataSet, DataSet]:
    """The same questions with their gold passages, and with passages that BM25 finds."""
    folder = lab.data_folder
    paths = (folder / "gold.jsonl", folder / "distant.jsonl")
    if not all(path.exists() for path in paths):
        _write_alike(lab, *paths)
    match = lab.data.test[lab.data.first].match
    return DataSet(str(paths[0]), match=match), DataSet(str(paths[1]), match=match)


def _write_alike(lab: Lab, gold_path: Path, distant_path: Path) -> None:
    """Write both files, with the questions that have a positive of either kind."""
    index = Index(lab.data.index)
    gold = _gold(lab)
    distant = _distant(lab, index, [one.question for one in gold.values()])
    both = [name for name in gold if name in distant]
    if len(both) < lab.scale.batch_size:
        raise UnsuitableData("only {count} questions have a gold and a distant positive: too few", count=len(both))
    write_mined([gold[name] for name in both], index, gold_path)
    write_mined([distant[name] for name in both], index, distant_path)


def _gold(lab: Lab) -> dict[str, Example]:
    """Examples by question id, of the questions whose gold passage is known."""
    names = _with_gold(lab)
    examples = read_examples(lab.data.train[lab.data.first])
    answered = [one for one in examples if isinstance(one, Example) and one.question.answers]
    return {one.question.id: one for one in answered if one.question.id in names}


def _distant(lab: Lab, index: Index, questions: Sequence[Question]) -> dict[str, Example]:
    """Examples by question id. Without gold passages, positives are searched for with the question and its answers."""
    asked = [Question(one.id, one.text, one.answers) for one in questions]
    rules = Rules(match=lab.data.test[lab.data.first].match, counts=Counts(bm25=1))
    return {found.question.id: found for found in make(index, asked, rules, MiningReport())}
