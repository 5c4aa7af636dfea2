"""Which k1 and b of BM25 find most answers, and whether the product ranks with them as an exact matrix does.

    mundap index squad-train/*.gz english_tydiqa_*.gz new_wiki_v1.0.json.gz … --model none -o pool
    python benchmarks/bm25.py pool english_tydiqa_dev.json.gz new_wiki_v1.0.json.gz

Accuracies are by answer string, of the exact matrix (`SparseLexical`) over all passages. The product scores tantivy's
best 1,000 candidates again; counted is how often its first k are those of the matrix, equal scores in any order.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from common import report
from mundap import Index
from mundap.datasets import queries
from mundap.evaluation.significance import compare
from mundap.index.modes import TANTIVY
from mundap.index.sparse import SparseLexical
from mundap.records import Passage, Question
from mundap.text.answers import has_answer

GRID = ((1.2, 0.75), (0.9, 0.4), (0.82, 0.68), (1.5, 0.75), (0.6, 0.4))
CUTS = (1, 5, 20)


class Judge:
    """Tells at which rank the first passage with an answer stands; what was judged once is remembered."""

    def __init__(self, passages: list[Passage]) -> None:
        self._passages = passages
        self._known: dict[tuple[str, int], bool] = {}

    def rank(self, question: Question, rows: list[int]) -> int:
        """The rank, or one beyond the last cut."""
        for rank, row in enumerate(rows, 1):
            key = (question.text, row)
            if key not in self._known:
                self._known[key] = has_answer(self._passages[row].text, question.answers)
            if self._known[key]:
                return rank
        return CUTS[-1] + 1


def agreement(index: Index, matrix: SparseLexical, questions: list[Question], k1: float, b: float) -> dict[str, float]:
    """The share of questions, in percent, for which the product's first k are the matrix's."""
    same = dict.fromkeys(CUTS, 0)
    for question in questions:
        ours = np.array([hit.score for hit in index.search(question.text, CUTS[-1], "bm25", k1=k1, b=b)])
        terms = " ".join(index.analyzer.question_terms(question.text))
        exact = matrix.search(terms, CUTS[-1])[1] * (k1 + 1)
        for cut in CUTS:
            mine, its = ours[:cut], exact[:cut]
            same[cut] += len(mine) == len(its) and bool(np.allclose(mine, its, rtol=2e-4))
    return {str(cut): round(100 * same[cut] / len(questions), 2) for cut in CUTS}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("index", type=Path, help="made with --model none")
    parser.add_argument("questions", nargs="+", type=Path)
    parser.add_argument("--limit", type=int, default=2000, help="questions of each file")
    parser.add_argument("--compared", type=int, default=300, help="of these, to compare product and matrix")
    arguments = parser.parse_args()
    index = Index(arguments.index)
    passages = list(index.passages())
    texts = [(f"{one.title}\n{one.text}", one.metadata.get("language", "")) for one in passages]
    analysed = [" ".join(terms) for terms in index.analyzer.terms_of(texts)]
    sets = {path.name: queries.sample(queries.read_all(path)[0], arguments.limit) for path in arguments.questions}
    judges = {name: Judge(passages) for name in sets}
    right: dict[tuple[str, int], np.ndarray] = {}
    figures: dict[str, Any] = {"passages": len(passages), "questions": {name: len(sets[name]) for name in sets}}
    for k1, b in GRID:
        matrix = SparseLexical.build(analysed, str.split, "bm25", k1, b)
        found: dict[str, Any] = {}
        for name, questions in sets.items():
            ranks = []
            for question in questions:
                rows = matrix.search(" ".join(index.analyzer.question_terms(question.text)), CUTS[-1])[0]
                ranks.append(judges[name].rank(question, rows.tolist()))
            accuracy, p = {}, {}
            for cut in CUTS:
                answered = np.array(ranks) <= cut
                right.setdefault((name, cut), answered)  # those of the first pair, which the others are compared with
                accuracy[str(cut)] = round(100 * float(answered.mean()), 1)
                p[str(cut)] = float(f"{compare(right[name, cut], answered).p:.2g}")
            found[name] = {"accuracy": accuracy, "p": p}
            if (k1, b) != TANTIVY:  # whose scores are tantivy's own, with lengths in one byte
                found[name]["as_the_matrix"] = agreement(index, matrix, questions[: arguments.compared], k1, b)
        figures[f"k1 {k1}, b {b}"] = found
    report("bm25", figures)


if __name__ == "__main__":
    main()
