"""Check a file of training examples, row by row: what is wrong is reported with its place."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mundap.datasets import examples
from mundap.datasets.detect import detect
from mundap.documents.files import STREAM_ERRORS, explain, open_file
from mundap.mining.rule import Candidate, NegativeRule
from mundap.records import Example, Skipped
from mundap.text.answers import Mode, broken_patterns, looks_like_pattern

_LISTED = 1000


@dataclass(slots=True)
class _Findings:
    """What a check found.

    Attributes:
        form: The format of the file.
        rows: How many there are.
        usable: How many can be trained on.
        errors: What makes a row unusable, the first thousand.
        warnings: What is likely to harm training, the first thousand.
        error_counts: How often each kind of error occurs.
        warning_counts: How often each kind of warning does.
        positives: Passages in all; likewise `hard` and `negatives`.
    """

    form: str = ""
    rows: int = 0
    usable: int = 0
    errors: list[Skipped] = field(default_factory=list)
    warnings: list[Skipped] = field(default_factory=list)
    error_counts: Counter[str] = field(default_factory=Counter)
    warning_counts: Counter[str] = field(default_factory=Counter)
    positives: int = 0
    hard: int = 0
    negatives: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The findings as `--json` prints them."""
        return {
            "format": self.form,
            "rows": self.rows,
            "usable": self.usable,
            "positives": self.positives,
            "hard_negatives": self.hard,
            "negatives": self.negatives,
            "error_counts": dict(self.error_counts.most_common()),
            "warning_counts": dict(self.warning_counts.most_common()),
            "errors": [one.as_dict() for one in self.errors],
            "warnings": [one.as_dict() for one in self.warnings],
        }

    def error(self, where: str, what: str) -> None:
        """Note what makes a row unusable."""
        self.error_counts[_kind(what)] += 1
        if len(self.errors) < _LISTED:
            self.errors.append(Skipped(where, what))

    def warn(self, where: str, what: str) -> None:
        """Note what is likely to harm."""
        self.warning_counts[_kind(what)] += 1
        if len(self.warnings) < _LISTED:
            self.warnings.append(Skipped(where, what))


def check(path: str | Path, form: str | None = None, match: Mode = "string") -> _Findings:
    """Look at every row of a file of training examples.

    Raises:
        MundapError: The file is not there.
    """
    findings = _Findings(form or detect(path).examples)
    seen: set[bytes] = set()
    try:
        for where, found in _examples(path, findings):
            findings.rows += 1
            if isinstance(found, Skipped):
                findings.error(found.source, found.reason)
                continue
            findings.usable += 1
            findings.positives += len(found.positives)
            findings.hard += len(found.hard)
            findings.negatives += len(found.negatives)
            key = hashlib.blake2b(found.question.text.lower().encode("utf-8", "replace"), digest_size=12).digest()
            if key in seen:
                findings.warn(where, "the same question as in an earlier row")
            seen.add(key)
            for what in _doubts(found, match):
                findings.warn(where, what)
    except STREAM_ERRORS as error:
        findings.error(str(path), explain(error))
    if not findings.rows and not findings.error_counts:
        findings.error(str(path), "no rows in it")
    return findings


def _examples(path: str | Path, findings: _Findings) -> Iterator[tuple[str, Example | Skipped]]:
    if findings.form in ("beir", "triples", "triple-ids"):
        for position, found in enumerate(examples.read_examples(path, findings.form), 1):
            yield f"{path}#{position}", found
        return
    for where, position, row in examples.rows(open_file(path), findings.form):
        if isinstance(row, Skipped):
            yield where, row
            continue
        found = examples.example(row, position, where)
        if isinstance(row, dict) and isinstance(found, Example):
            for what in _misshapen(row):
                findings.warn(where, what)
        yield where, found


def _misshapen(row: dict[str, Any]) -> Iterator[str]:
    """Faults that training passes over silently, because a run should not stop for them."""
    answers = row.get("answers", row.get("answer"))
    if answers is None or answers == []:
        yield "no answers"
    elif isinstance(answers, list) and any(isinstance(one, str) and not one.strip() for one in answers):
        yield "an empty answer"
    for keys in examples.LISTS.values():
        for key in keys:
            if key in row:
                yield from _misshapen_passages(key, row[key])


def _misshapen_passages(key: str, contexts: Any) -> Iterator[str]:
    if not isinstance(contexts, list):
        yield f"`{key}` is not a list"
        return
    for number, context in enumerate(contexts, 1):
        if not isinstance(context, dict) or not isinstance(context.get("text"), str):
            yield f"`{key}`: a passage without a text (number {number})"
        elif not context["text"].strip():
            yield f"`{key}`: a passage with an empty text (number {number})"


def _doubts(one: Example, match: Mode) -> Iterator[str]:
    if match == "regex":
        for pattern in broken_patterns(one.question.answers):
            yield f"an answer is not a regular expression: {pattern[:80]!r}"
    elif any(map(looks_like_pattern, one.question.answers)):
        yield "an answer looks like a regular expression: match answers as such"
    yield from _doubtful_passages(one, match)


def _doubtful_passages(one: Example, match: Mode) -> Iterator[str]:
    negatives = one.hard + one.negatives
    if not negatives:
        yield "no negatives"
    # Near-duplicates are not looked for: that takes minutes in a large file. Ids are not compared: files made of
    # several corpora use one id for different passages.
    rule = NegativeRule(one.question, one.positives, match, duplicate=None)
    candidates = [Candidate(context.text) for context in negatives]
    if any(map(rule.is_positive, candidates)):
        yield "a positive is among the negatives"
    if not one.question.answers:
        return
    if not rule.has_answer(Candidate(one.positives[0].text)):
        yield "the first positive does not contain an answer"
    holding = sum(map(rule.has_answer, candidates))
    if holding:
        yield f"negatives contain an answer ({holding} of them)"


def _kind(what: str) -> str:
    """The message without what differs from row to row."""
    return what.split(" (", 1)[0].split(": '", 1)[0]
