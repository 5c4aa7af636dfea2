"""Read questions from files. `read` detects the format; every row is a Question or the reason why not."""

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from mundap.datasets import objects, tables
from mundap.datasets.detect import detect
from mundap.documents.files import STREAM_ERRORS, SourceFile, explain, open_file
from mundap.errors import MundapError, UsageError
from mundap.records import Question, Skipped
from mundap.text.answers import Mode, looks_like_pattern
from mundap.text.scripts import has_hangul, has_unspaced

UNANSWERABLE = "marked as unanswerable"

Reader = Callable[[SourceFile], Iterator[Question | Skipped]]

FORMATS: dict[str, Reader] = {
    "json": objects.read_json,
    "jsonl": objects.read_jsonl,
    "csv": tables.read_csv,
    "trec": tables.read_trec,
    "wikimovies": tables.read_wikimovies,
    "queries": tables.read_queries,
}
"""`json`: SQuAD, KorQuAD, TyDi, TriviaQA, WebQuestions, DPR files. `csv`: question, tab, list of answers.
`trec`: id, kind, question, pattern. `queries`: id, tab, question, as in MS MARCO."""


def read(path: str | Path, form: str | None = None, unanswerable: bool = False) -> Iterator[Question | Skipped]:
    """Yield the questions of a file; for an unusable row, the reason instead.

    Args:
        path: The file; it may be compressed.
        form: A name in `FORMATS`; by default detected from the content.
        unanswerable: Keep the questions that the file says have no answer. Otherwise they are skipped.

    Raises:
        MundapError: The file is missing, cannot be read at all, or breaks off.
    """
    file = open_file(path)
    try:
        form = form or detect(path).questions
        if form not in FORMATS:
            raise UsageError(f"format {form!r}: choose one of {', '.join(FORMATS)}")
        for found in FORMATS[form](file):
            if isinstance(found, Question) and found.unanswerable and not unanswerable:
                yield Skipped(f"{file.source} ({found.id})", UNANSWERABLE)
            else:
                yield found
    except STREAM_ERRORS as error:
        raise MundapError(f"{path}: {explain(error)}. Repair or replace the file.") from error


def read_all(
    path: str | Path, form: str | None = None, distinct: bool = True, unanswerable: bool = False
) -> tuple[list[Question], list[Skipped]]:
    """All questions of a file, and what was skipped.

    Args:
        path: The file; it may be compressed.
        form: A name in `FORMATS`; by default detected from the content.
        distinct: Whether ids that come twice are told apart, see `unique`.
        unanswerable: Keep the questions that the file says have no answer.

    Raises:
        MundapError: There is no question in it.
    """
    questions: list[Question] = []
    skipped: list[Skipped] = []
    rows = read(path, form, unanswerable)
    if distinct:
        rows = unique(rows)
    for found in rows:
        if isinstance(found, Question):
            questions.append(found)
        else:
            skipped.append(found)
    if not questions:
        reason = ""
        if skipped:
            reason = f" The first row that was skipped: {skipped[0].source}: {skipped[0].reason}."
        raise MundapError(f"{path}: no question in it.{reason} The formats are listed in docs/formats.md.")
    return questions, skipped


def sample(questions: list[Question], limit: int | None, seed: int = 0) -> list[Question]:
    """A random sample of the questions, in their original order."""
    if not limit or limit >= len(questions):
        return questions
    chosen = random.Random(seed).sample(range(len(questions)), limit)  # noqa: S311
    return [questions[position] for position in sorted(chosen)]


def choose_match(path: str | Path, form: str | None = None) -> Mode:
    """Choose how to match the answers of a file, from its format and its first questions."""
    if (form or detect(path).questions) == "trec":
        return "regex"
    first = [found for found in itertools.islice(read(path, form), 500) if isinstance(found, Question)]
    answers = [answer for question in first for answer in question.answers]
    return match_for(answers)


def match_for(answers: Sequence[str]) -> Mode:
    """Choose how to match answers like these."""
    if 4 * sum(map(looks_like_pattern, answers)) > len(answers):
        return "regex"
    if _is_cjk(answers):
        return "cjk"
    return "string"


def match_of(question: Question, match: Mode) -> Mode:
    """Choose how to match the answers of one question in a file with this `match`.

    A Korean, Japanese or Chinese file may have questions in other languages too. Not the other way round: two Chinese
    names in SQuAD are judged by SQuAD's rule, or its figures would not be those of others. The question's own words
    count too, for 1988 is an answer in any language.
    """
    if match != "cjk":
        return match
    if _is_cjk(question.answers) or _is_cjk(question.text.split()):
        return "cjk"
    return "string"


def _is_cjk(texts: Sequence[str]) -> bool:
    # Numbers and Latin names are answers in any language: a quarter is plenty.
    return 4 * sum(has_hangul(text) or has_unspaced(text) for text in texts) > len(texts)


def unique(questions: Iterable[Question | Skipped]) -> Iterator[Question | Skipped]:
    """Make the ids of questions unique: a repeated id gets a number appended."""
    seen: dict[str, int] = {}
    for found in questions:
        if isinstance(found, Question):
            seen[found.id] = seen.get(found.id, 0) + 1
            if seen[found.id] > 1:
                found = replace(found, id=f"{found.id}#{seen[found.id]}")
        yield found
