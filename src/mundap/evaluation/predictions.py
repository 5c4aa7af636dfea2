"""Files of predicted answers: SQuAD's object, rows of JSON, DPR's reader results, `mundap ask --json`."""

import itertools
import json
from pathlib import Path
from typing import Any

from mundap.documents.files import STREAM_ERRORS, explain, open_file
from mundap.documents.stream import json_items, json_lines
from mundap.errors import MundapError
from mundap.records import Skipped

_TEXT = ("prediction_text", "prediction", "answer", "text")
_KEYS = ("predictions", *_TEXT)


def plain(question: str) -> str:
    """A question as it is compared."""
    return " ".join(question.replace("\u2019", "'").split())


def read_predictions(path: str | Path) -> dict[str, str]:
    """Predicted answers by question id, or by question, out of SQuAD's object, rows of JSON or DPR's reader results.

    A prediction that is null is none.

    Raises:
        MundapError: The file is missing, broken, or of another kind.
    """
    file = open_file(path)
    found: dict[str, str] = {}
    try:
        head = file.head()
        if head.startswith(b"["):
            rows = [row for _, row in json_items(file)]
        else:
            with file.open() as stream:
                lines = sum(1 for line in itertools.islice(filter(bytes.strip, stream), 2))
            rows = [row for _, row in json_lines(file)]
            if lines == 1 and isinstance(rows[0], dict) and _key(rows[0]) is None:
                return _by_id(rows[0], path)  # SQuAD's object, all in one line
            if any(isinstance(row, Skipped) for row in rows[:1]):  # or over many
                with file.open() as stream:
                    return _by_id(json.load(stream), path)
    except (*STREAM_ERRORS, ValueError) as error:
        raise MundapError(f"{path}: {explain(error)}. Repair or replace the file.") from error
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or _key(row) is None:
            raise MundapError(f"{path}: row {number} has no predicted answer: expected one of {', '.join(_TEXT)}")
        text = _text(row)
        if text is None:
            continue
        name = next((str(row[key]) for key in ("id", "question_id", "qid") if key in row), None)
        found[name if name is not None else plain(str(row.get("question", "")))] = text
    if not found:
        raise MundapError(f"{path}: no prediction in it. Expected an object of answers by question id.")
    return found


def _by_id(rows: Any, path: str | Path) -> dict[str, str]:
    found = {str(key): text for key, value in rows.items() if (text := _text(value)) is not None}
    if not found:
        raise MundapError(f"{path}: no prediction in it. Expected an object of answers by question id.")
    return found


def _text(value: Any) -> str | None:
    """A predicted answer in any of the shapes in use, or None if there is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, list):
        return _text(value[0]) if value else ""
    if isinstance(value, dict):
        key = _key(value)
        return _text(value[key]) if key else None
    return None


def _key(row: dict[str, Any]) -> str | None:
    """Under which key a row has its prediction, or None if under none that is known."""
    answers = "answers" if _is_asked(row.get("answers")) else None
    return next((key for key in _KEYS if key in row), answers)


def _is_asked(answers: Any) -> bool:
    """Whether these are answers of `mundap ask --json`: gold answers, which rows may have too, are told otherwise."""
    return isinstance(answers, list) and all(
        isinstance(one, dict) and "text" in one and "answer_start" not in one for one in answers
    )
