"""Evaluate answers by exact match and F1: a file of predictions, or answers read here from gold passages or an index.

Unanswerable questions, as in SQuAD 2.0, are counted separately.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from mundap.datasets import queries
from mundap.datasets.predictions import read_predictions
from mundap.disk import disk_errors, json_bytes, replacing
from mundap.errors import MundapError
from mundap.evaluation.answer_figures import AnswerFigures, AnswerOutcome, AnswersTask, Counted, Rule
from mundap.evaluation.reading import PassageReading
from mundap.records import Question
from mundap.text.questions import plain
from mundap.text.scores import judge

__all__ = ["AnswerFigures", "AnswerOutcome", "AnswersTask", "Counted", "measure"]


def measure(task: AnswersTask, counted: Counted = lambda items, what, total: iter(items)) -> AnswerFigures:
    """Score a file of predictions, or read passages and score the answers.

    Args:
        task: What to measure.
        counted: Shows progress.
    """
    found = AnswerFigures([], right=task.right)
    asked, names = _asked(task, found)
    rule = _rule(task)
    if task.predictions:
        outcomes = _scored(asked, names, task.predictions, found, rule)
    else:
        outcomes = PassageReading(task, found, rule).all(asked, counted)
    for row in outcomes:
        if row.question.unanswerable:
            found.unanswerable.append(row)
        else:
            found.outcomes.append(row)
    if task.out:
        _write_predictions(Path(task.out), found)
    return found


def _asked(task: AnswersTask, found: AnswerFigures) -> tuple[list[Question], dict[str, str]]:
    """The questions to ask; and by the id of each, which is unique, the one that the file has."""
    told, found.skipped = queries.read_all(task.questions, task.form, distinct=False, unanswerable=True)
    everything = [question for question in queries.unique(told) if isinstance(question, Question)]
    asked = [question for question in everything if question.answers or question.unanswerable]
    if not asked:
        raise MundapError(f"{task.questions}: no question in it has an answer")
    found.add_note(len(everything) - len(asked), "questions have no answer in the file: they are left out")
    names = {question.id: before.id for question, before in zip(everything, told, strict=True)}
    return queries.sample(asked, task.limit, task.seed), names


def _write_predictions(path: Path, found: AnswerFigures) -> None:
    """Answers by question id. Where the file has unanswerable questions, one that was refused is empty."""
    texts = {}
    for row in found.outcomes + found.unanswerable:
        texts[row.question.id] = row.text
        if found.unanswerable and not found.answered(row):
            texts[row.question.id] = ""
    with disk_errors(path), replacing(path) as file:
        file.write(json_bytes(texts))


def _rule(task: AnswersTask) -> Rule:
    """How the answers of a question are matched: as the task says, or as the question suggests."""
    if task.match:
        told = task.match
        return lambda question: told
    match = queries.choose_match(task.questions, task.form)
    return lambda question: queries.match_of(question, match)


def _scored(
    asked: Sequence[Question], names: Mapping[str, str], path: str, found: AnswerFigures, rule: Rule
) -> list[AnswerOutcome]:
    """Score a file of predictions; `names` has the ids as the questions' file has them."""
    known = read_predictions(path)
    outcomes = []
    missing = 0
    for question in asked:
        # An id that comes twice has been told apart, as in what we write; others have one prediction for both.
        possible = (question.id, names[question.id], plain(question.text))
        text = next((known[name] for name in possible if name in known), None)
        missing += text is None
        match = rule(question)
        em, f1 = 0.0, 0.0
        if text is not None:
            em, f1 = judge(text, question.answers, match)
        outcomes.append(AnswerOutcome(question, text or "", em, f1, match))
    if missing == len(asked):
        raise MundapError(f"{path}: no prediction in it is for any of the questions. Are the ids the same?")
    found.add_note(missing, "questions have no prediction: they count as wrong")
    return outcomes
