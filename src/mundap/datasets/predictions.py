"""Files of predicted answers: SQuAD's object, rows of JSON, DPR's reader results, `mundap ask --json`."""

import json
from pathlib import Path
from typing import Any

from mundap.datasets.detect import detect
from mundap.documents.files import STREAM_ERRORS, explain, open_file
from mundap.documents.stream import json_items, json_lines
from mundap.errors import MundapError
from mundap.records import Skipped
from mundap.text.questions import plain

_TEXT = ("prediction_text", "prediction", "answer", "text")
_KEYS = ("predictions", *_TEXT)


def read_predictions(path: str | Path) -> dict[str, str]:
    """Read predicted answers, by question id or by question.

    Reads SQuAD's object, rows of JSON and DPR's reader results. A null prediction counts as missing.

    Raises:
        MundapError: The file is missing, broken, or of another kind.
    """
    try:
        rows = _rows(path)
    except (*STREAM_ERRORS, ValueError) as error:
        raise MundapError(f"{path}: {explain(error)}. Repair or replace the file.") from error
    if isinstance(rows, dict):
        pairs = list(rows.items())
    else:
        pairs = [_named(row, f"{path}: row {number}") for number, row in enumerate(rows, 1)]
    found = {}
    for name, value in pairs:
        text = _text(value)
        if text is not None:
            found[str(name)] = text
    if not found:
        raise MundapError(f"{path}: no prediction in it. Expected an object of answers by question id.")
    return found


def _rows(path: str | Path) -> dict[str, Any] | list[Any]:
    """SQuAD's object of answers by question id, or rows."""
    file = open_file(path)
    if detect(path).layout == "array":
        return [row for _, row in json_items(file)]
    rows = [row for _, row in json_lines(file)]
    if len(rows) == 1 and isinstance(rows[0], dict) and _key(rows[0]) is None:
        return rows[0]  # the object, all in one line
    if rows and isinstance(rows[0], Skipped):  # or over many
        with file.open() as stream:
            whole = json.load(stream)
        if isinstance(whole, dict):
            return whole
        return [whole]
    return rows


def _named(row: Any, where: str) -> tuple[str, Any]:
    """The question's id, or the question itself, with the row."""
    if not isinstance(row, dict) or _key(row) is None:
        raise MundapError(f"{where} has no predicted answer: expected one of {', '.join(_TEXT)}")
    for key in ("id", "question_id", "qid"):
        if key in row:
            return str(row[key]), row
    return plain(str(row.get("question", ""))), row


def _text(value: Any) -> str | None:
    """A predicted answer in any of the shapes in use, or None if there is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, list):
        if value:
            return _text(value[0])
        return ""
    if isinstance(value, dict):
        key = _key(value)
        if key:
            return _text(value[key])
        return None
    return None


def _key(row: dict[str, Any]) -> str | None:
    """Under which key a row has its prediction, or None if under none that is known."""
    answers = None
    if _is_asked(row.get("answers")):
        answers = "answers"
    return next((key for key in _KEYS if key in row), answers)


def _is_asked(answers: Any) -> bool:
    """Whether these are answers of `mundap ask --json`. Gold answers, which rows may have too, look different."""
    return isinstance(answers, list) and all(
        isinstance(one, dict) and "text" in one and "answer_start" not in one for one in answers
    )
