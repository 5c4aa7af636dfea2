"""`mundap.evaluate` and `mundap.compare`: records in, records out, without files and without an index."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mundap.datasets.queries import match_for
from mundap.errors import UsageError
from mundap.evaluation.compare import ChangedQuestion, Differences, against_first, changed, comparison
from mundap.evaluation.outcomes import CUTS, QREL_CUTS, Lookup, System, by_answers, by_qrels
from mundap.records import Question, Result
from mundap.text.answers import Mode

Qrels = Mapping[str, Mapping[str, int]]
"""The grade of each judged document, by question id."""


def evaluate(
    truth: Sequence[Question] | Qrels,
    run: Iterable[Result],
    cuts: Sequence[int] = (),
    *,
    match: Mode | None = None,
    level: int = 1,
    lookup: Lookup | None = None,
    name: str = "run",
) -> System:
    """Evaluate a run: top-k accuracy by answers, or nDCG, MRR, recall, precision and MAP by qrels.

    Args:
        truth: Questions with answers, or relevance judgements.
        run: The results of each question, best first, in any order of the questions.
        cuts: The k of the figures; by default 1, 5, 20 and 100, or with qrels 10, 100 and 1000.
        match: How answers are matched; by default what the answers suggest.
        level: The lowest grade that counts as relevant.
        lookup: Gives the text of a passage that comes without one.
        name: What the run is called in comparisons.

    Returns:
        The outcome of each question; `accuracy(cuts)` and `means()` are the figures.

    Example:
        >>> from mundap import Question, Result, evaluate
        >>> from mundap.records import Context
        >>> question = Question("1", "Who wrote Middlemarch?", answers=("George Eliot",))
        >>> found = Result(question, (Context("a", text="A town."), Context("b", text="A novel by George Eliot.")))
        >>> evaluate([question], [found]).accuracy([1, 5])
        {'1': 0.0, '5': 100.0}
        >>> evaluate({"1": {"b": 1}}, [found], cuts=[10]).means()["mrr@10"]
        0.5
    """
    if isinstance(truth, Mapping):
        return by_qrels(name, truth, run, cuts or QREL_CUTS, level, lookup=lookup)
    if match is None:
        answers: list[str] = []
        for question in truth:
            answers += question.answers
        match = match_for(answers)
    return by_answers(name, truth, run, match, lookup)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs side by side.

    Attributes:
        first: What the second is compared with.
        second: The other.
        cuts: The k of the figures.
        k: Within which rank a question counts as answered.
        differences: By figure, the difference with its interval and p, paired by question.
        changed: The questions that one of them answers within the top k and the other does not.
    """

    first: System
    second: System
    cuts: tuple[int, ...]
    k: int
    differences: Differences
    changed: tuple[ChangedQuestion, ...]

    def as_dict(self) -> dict[str, Any]:
        """The comparison as `mundap compare --json` prints it."""
        return comparison((self.first, self.second), self.cuts, self.k, self.differences)


def compare(first: System, second: System, cuts: Sequence[int] = (), k: int = 20) -> Comparison:
    """Compare two evaluated runs: how significant the difference is, and which questions only one of them answers.

    Args:
        first: From `evaluate`.
        second: Of the same questions.
        cuts: The k of the figures; by default 1, 5, 20 and 100.
        k: Within which rank a question counts as answered.

    Raises:
        UsageError: They are of different questions, or have the same name.

    Example:
        >>> from mundap import Question, Result, compare, evaluate
        >>> from mundap.records import Context
        >>> question = Question("1", "Who wrote Middlemarch?", answers=("George Eliot",))
        >>> miss = Result(question, (Context("a", text="A town."),))
        >>> hit = Result(question, (Context("b", text="A novel by George Eliot."),))
        >>> found = compare(evaluate([question], [miss], name="a"), evaluate([question], [hit], name="b"))
        >>> found.changed[0].question.text, found.changed[0].winner
        ('Who wrote Middlemarch?', 'b')
    """
    if [one.question.id for one in first.outcomes] != [one.question.id for one in second.outcomes]:
        raise UsageError("the two runs were evaluated on different questions")
    if first.name == second.name:
        raise UsageError(f"both runs are called {first.name}: give them different names")
    wanted = tuple(sorted(set(cuts or CUTS)))
    differences = against_first((first, second), wanted)
    return Comparison(first, second, wanted, k, differences, tuple(changed(first, second, k)))
