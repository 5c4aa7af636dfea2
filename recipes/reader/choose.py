"""How much the retrieval score should count when the reader chooses among passages, on dev questions.

    python recipes/reader/choose.py INDEX QUESTIONS READER [--limit 300]

Each question is searched and read once. The table has the exact match for each weight of the retrieval score
(`retrieval_weight` of the reader's config), by the selection head and by the margin over "no answer". Above it stand
the bounds: how often the answer is in the first passage, in the ten, in the one that the reader selects, and how often
the best span of one of the ten is right.
"""

import argparse
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mundap import Index
from mundap.datasets.queries import read
from mundap.models.folder import ReaderConfig
from mundap.pipeline.ask import NUM_PASSAGES
from mundap.reader.answering import read_passages
from mundap.reader.answers import rank, selection
from mundap.reader.runtime import Reader, Scored
from mundap.records import Hit, Question
from mundap.text.answers import has_answer
from mundap.text.scores import judge

WEIGHTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
Case = tuple[Question, list[Hit], list[list[Scored]]]


def main() -> None:
    """Read once, then choose in all ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("index", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("reader", type=Path)
    parser.add_argument("--limit", type=int, default=0, help="Questions, drawn at random; 0 takes all.")
    arguments = parser.parse_args()
    index, reader = Index(arguments.index), Reader(arguments.reader)
    questions = [one for one in read(arguments.questions) if isinstance(one, Question)]
    random.Random(0).shuffle(questions)  # noqa: S311
    cases: list[Case] = []
    for question in questions[: arguments.limit or None]:
        hits = index.search(question.text, NUM_PASSAGES)
        cases.append((question, hits, read_passages(reader, question.text, hits)))
    print(f"{len(cases)} questions")
    print(f"answer in the first passage {percent(cases, lambda case: answered(case, case[1][:1]))}", end=", ")
    print(f"in the {NUM_PASSAGES} {percent(cases, lambda case: answered(case, case[1]))}", end=", ")
    print(
        f"in the selected one {percent(cases, lambda case: answered(case, [selected(case, reader.config)]))}", end=", "
    )
    print(f"best span of one of them right {percent(cases, lambda case: some_span(case, reader.config))}")
    print("weight        ", *(f"{weight:>6}" for weight in WEIGHTS))
    for kind in ("head", "null"):
        settings = [replace(reader.config, ranking="product", selection=kind, retrieval_weight=w) for w in WEIGHTS]
        print(f"selection {kind}", *(f"{percent(cases, lambda case, s=s: exact(case, s)):>6}" for s in settings))


def percent(cases: list[Case], holds: Callable[[Case], bool]) -> float:
    """The share of the cases, in per cent."""
    return round(100 * sum(map(holds, cases)) / len(cases), 1)


def answered(case: Case, hits: list[Hit]) -> bool:
    """Whether one of the passages has an answer."""
    return any(has_answer(hit.passage.text, case[0].answers, "string") for hit in hits)


def selected(case: Case, config: ReaderConfig) -> Hit:
    """The passage that the reader selects."""
    _, hits, readings = case
    scores = [selection(hit.passage.text, windows, config) for hit, windows in zip(hits, readings, strict=True)]
    return hits[scores.index(max(scores))]


def exact(case: Case, config: ReaderConfig) -> bool:
    """Whether the answer is exactly right."""
    question, hits, readings = case
    texts = [hit.passage.text for hit in hits]
    found = rank(texts, readings, [hit.score for hit in hits], config)
    if not found:
        return False
    best = found[0]
    return bool(judge(texts[best.passage][best.start : best.end], question.answers, "string")[0])


def some_span(case: Case, config: ReaderConfig) -> bool:
    """Whether the best span of one of the passages is right."""
    question, hits, readings = case
    return any(exact((question, [hit], [windows]), config) for hit, windows in zip(hits, readings, strict=True))


if __name__ == "__main__":
    main()
