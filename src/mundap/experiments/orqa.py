"""ORQA as a whole (Lee et al. 2019), and BM25+BERT, with which it is compared there.

Both readers learn by the marginal likelihood of the answer over all spans of the passages that their retriever finds:
no gold passage is known to them. ORQA's question encoder learns from it too; its passage encoder stays as the inverse
cloze task has left it.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mundap.datasets.examples import read_examples, writing
from mundap.experiments.frame import slug
from mundap.experiments.lab import Lab
from mundap.experiments.ranking import DEPTH, Model, figures_of
from mundap.index.index import Index
from mundap.records import Context, Example, Question
from mundap.text.answers import Mode, has_answer
from mundap.training.ict import write_examples
from mundap.training.recipe import DataSet

_FOUND = 20  # passages of a training question
_READ = 5  # passages that ORQA reads, in training as for an answer


def cloze(lab: Lab) -> dict[str, Any]:
    """Sentences and the passages they were taken from, to train both towers on."""
    train, _ = write_examples(str(lab.data.index), lab.data_folder / "ict", keep=0.1)
    return {"sets": [DataSet(str(train))], "hard_negatives": 0, "mask_false_negatives": False}


def pretrained(lab: Lab, seed: int) -> Path:
    """A retriever that has learnt the inverse cloze task alone."""
    return lab.trained("ict", seed, **cloze(lab))


def passages_read(lab: Lab) -> int:
    """Passages that both read of a question."""
    return min(_READ, lab.scale.read)


def orqa(lab: Lab, seed: int) -> Mapping[str, Any]:
    """Retrieval and answers of a pre-trained retriever whose question encoder has learnt with the reader."""
    start = pretrained(lab, seed)
    model = lab.model(start)
    asked = _questions(lab)
    numbers, _ = model.top([question.text for question in asked], DEPTH)
    examples = _examples(lab, f"ict-{seed}", asked, _contexts(model, numbers))
    run = _trained(lab, "orqa-reader", seed, examples, retriever=str(start))
    model = lab.model(run / "retriever", vectors=model.vectors)  # the passage tower is the same
    numbers, scores = model.top(lab.ranking().texts)
    orders = []
    for row in _contexts(model, numbers):
        orders.append([one.id for one in row])
    return _judged(lab, run, orders, scores / model.dual.temperature)


def bm25_bert(lab: Lab, seed: int) -> Mapping[str, Any]:
    """Answers of a reader that learns from what BM25 finds and reads what BM25 finds. BM25's scores do not count."""
    asked = _questions(lab)
    run = _trained(lab, "bm25-bert", seed, _examples(lab, "bm25", asked, _found_by_bm25(lab, asked)))
    orders = []
    for row in lab.ranking().bm25:
        orders.append([name for name, _ in row])
    return _judged(lab, run, orders, np.zeros((len(orders), DEPTH)))


def _trained(lab: Lab, arm: str, seed: int, examples: Path, **changes: Any) -> Path:
    return lab.trained_reader(
        arm, seed, examples, span_loss="global_marginal", num_passages=passages_read(lab), **changes
    )


def _questions(lab: Lab) -> list[Question]:
    known = read_examples(lab.data.train[lab.data.first])
    return [one.question for one in known if isinstance(one, Example)]


def _contexts(model: Model, numbers: np.ndarray) -> Iterable[list[Context]]:
    for row in numbers.tolist():
        yield [model.corpus.context(number) for number in row]


def _found_by_bm25(lab: Lab, asked: Sequence[Question]) -> Iterable[list[Context]]:
    index = Index(lab.data.index)
    for hits in index.search_batch([question.text for question in asked], DEPTH, "bm25"):
        yield [Context.of(hit.passage) for hit in hits]


def _examples(lab: Lab, label: str, asked: Sequence[Question], found: Iterable[list[Context]]) -> Path:
    """The questions of the largest set with what a retriever finds, without those whose answer it does not find."""
    name = lab.data.first
    path = lab.data_folder / f"found-with-answers-{label}-{slug(name)}.jsonl"
    if path.exists():
        return path
    match, count = lab.data.test[name].match, 0
    with writing(path, "dpr-jsonl") as write:
        for question, row in zip(asked, found, strict=True):
            example = _example(question, row, match)
            if example.positives:
                write(example)
                count += 1
    lab.tell(f"{label}: the answer is found for {count} of {len(asked)} training questions")
    return path


def _example(question: Question, found: Sequence[Context], match: Mode) -> Example:
    """The best passages, with the answer and without. If none of them has it, the next one that does is added."""
    right: list[Context] = []
    wrong: list[Context] = []
    for rank, one in enumerate(found, 1):
        if rank > _FOUND and right:
            break
        if has_answer(one.text, question.answers, match):
            right.append(one)
        elif rank <= _FOUND:
            wrong.append(one)
    return Example(question, tuple(right), tuple(wrong))


def _judged(lab: Lab, run: Path, orders: Sequence[Sequence[str]], scores: np.ndarray) -> Mapping[str, Any]:
    """Where the answers are found, and the likeliest span of the passages that are read."""
    ranking, count = lab.ranking(), passages_read(lab)
    read = ranking.contexts([row[:count] for row in orders])
    judged = lab.reading(run / "model").likeliest(lab.data.test[lab.data.first].questions, read, scores[:, :count])
    return {**figures_of(ranking.of_ids(orders)), "exact_match": judged[:, 0], "f1": judged[:, 1]}
