"""Questions in JSON: one reader for the many field names in use."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mundap.documents.files import SourceFile
from mundap.documents.stream import json_items, json_lines
from mundap.records import Context, Question, Skipped

_QUESTION = ("question", "query", "qText", "utterance", "Question", "text")
_ANSWERS = ("answers", "answer", "Answer", "targetValue", "short_answers")
_ID = ("id", "_id", "qid", "question_id", "query_id", "qId", "QuestionId")
_CONTEXT_ID = ("passage_id", "psg_id", "docid", "id", "_id")
_POSITIVES = ("positive_ctxs", "positive_passages")
_PASSAGES = (*_POSITIVES, "gold", "ctxs", "contexts")
# WebQuestions writes its answers as (list (description "Jazmyn Bieber") (description Jaxon)).
_DESCRIPTION = re.compile(r'\(description\s+(?:"((?:[^"\\]|\\.)*)"|([^()"]*))\)')


def read_json(file: SourceFile) -> Iterator[Question | Skipped]:
    """SQuAD's shape (also KorQuAD, TyDi, XQuAD), TriviaQA's, or an array of objects."""
    positions = itertools.count()
    for number, (_, value) in enumerate(json_items(file), 1):
        yield from _from_value(value, positions, f"{file.source}#{number}")


def read_jsonl(file: SourceFile) -> Iterator[Question | Skipped]:
    """One JSON object per line."""
    positions = itertools.count()
    for number, value in json_lines(file):
        if isinstance(value, Skipped):
            next(positions)
            yield value
        else:
            yield from _from_value(value, positions, f"{file.source}:{number}")


def _from_value(value: Any, positions: Iterator[int], where: str) -> Iterator[Question | Skipped]:
    if isinstance(value, dict) and isinstance(value.get("paragraphs"), list):
        yield from _from_article(value, positions, where)
        return
    position = str(next(positions))
    if isinstance(value, dict):
        yield from from_row(value, position, where)
    else:
        yield Skipped(where, "not a JSON object")


def _from_article(article: Mapping[str, Any], positions: Iterator[int], where: str) -> Iterator[Question | Skipped]:
    title = str(article.get("title", "")).replace("_", " ")
    for paragraph in article["paragraphs"]:
        rows = None
        if isinstance(paragraph, dict):
            rows = paragraph.get("qas")
        if not isinstance(rows, list):
            yield Skipped(where, "a paragraph without questions (`qas`)")
            continue
        context = paragraph.get("context")
        for row in rows:
            position = str(next(positions))  # of the question, not of the article
            if not isinstance(row, dict):
                yield Skipped(where, "a question that is not a JSON object")
            else:
                part = f"{where} ({_name(row, position)})"
                yield from from_row({**row, "context": context, "title": title}, position, part)


def from_row(row: Mapping[str, Any], position: str, where: str) -> Iterator[Question | Skipped]:
    """Yield the question in one object, preceded by a report of each part that cannot be used."""
    text = _question_text(row)
    if text is None:
        yield Skipped(where, f"no question: expected one of the fields {', '.join(_QUESTION)}")
        return
    if not text.strip():
        yield Skipped(where, "empty question")
        return
    raw = next((row[key] for key in _ANSWERS if row.get(key) is not None), ())
    unanswerable = _is_unanswerable(row, raw)
    answers, starts = ([], []) if unanswerable else _answers(raw)
    good = list(filter(str.strip, answers))
    if len(good) < len(answers):
        yield Skipped(where, "an empty answer was left out")
    gold = tuple(_gold(row))
    start = None
    if starts and gold and good:
        start = starts[0]
    unique = tuple(dict.fromkeys(map(_clean, good)))
    yield Question(_clean(_name(row, position)), _clean(text.strip()), unique, gold, start, unanswerable)


def _question_text(row: Mapping[str, Any]) -> str | None:
    for key in _QUESTION:
        if isinstance(row.get(key), str):
            return str(row[key])
    return None


def _is_unanswerable(row: Mapping[str, Any], raw: Any) -> bool:
    """Whether a row is unanswerable: SQuAD 2.0 has a flag, other files an empty list (unless the row has passages)."""
    if row.get("is_impossible") is True:
        return True
    if isinstance(raw, dict):
        raw = raw.get("text")
    return raw == [] and not any(key in row for key in _PASSAGES)


def _name(row: Mapping[str, Any], position: str) -> str:
    return next((str(row[key]) for key in _ID if isinstance(row.get(key), str | int) and row[key] != ""), position)


def _answers(value: Any) -> tuple[list[str], list[int]]:
    """The answers in any of the usual shapes, with their start offsets where those are given."""
    if isinstance(value, str):
        described = [quoted or plain for quoted, plain in _DESCRIPTION.findall(value)]
        return described or [value], []
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [str(value)], []
    if isinstance(value, dict):
        return _answers_of_object(value)
    answers: list[str] = []
    starts: list[int] = []
    if isinstance(value, list | tuple):
        for part in value:
            texts, places = _answers(part)
            answers += texts
            starts += places[:1]
    return answers, starts


def _answers_of_object(value: Mapping[str, Any]) -> tuple[list[str], list[int]]:
    """SQuAD's {text, answer_start}, each one or a list, or TriviaQA's {value, aliases}."""
    named = {key.lower(): part for key, part in value.items()}
    if "text" in named:
        starts = named.get("answer_start")
        if not isinstance(starts, list):
            starts = [starts]
        return _answers(named["text"])[0], [start for start in starts if isinstance(start, int)]
    return _answers(named.get("value"))[0] + _answers(named.get("aliases"))[0], []


def _gold(row: Mapping[str, Any]) -> Iterator[Context]:
    for key in _POSITIVES:
        if isinstance(row.get(key), list):
            yield from filter(None, map(as_context, row[key]))
            return
    text = _text(row.get("context", row.get("passage")))
    if text.strip():
        yield Context(title=_text(row.get("title")), text=text)
    named = row.get("gold", ())
    if not isinstance(named, list | tuple):
        named = (named,)
    for name in named:
        if isinstance(name, str | int) and name != "":
            yield Context(id=_clean(str(name)))


def as_context(value: Any) -> Context | None:
    """A passage of a DPR, Tevatron or Pyserini file; None if it has neither text nor id."""
    if not isinstance(value, dict):
        return None
    name = next((str(value[key]) for key in _CONTEXT_ID if isinstance(value.get(key), str | int)), "")
    text = _text(value.get("text"))
    if not name and not text.strip():
        return None
    told = value.get("has_answer")
    if not isinstance(told, bool):
        told = None
    return Context(_clean(name), _text(value.get("title")), text, _score(value.get("score")), told)


def _text(value: Any) -> str:
    """A text that can be stored; anything else becomes empty."""
    if isinstance(value, str):
        return _clean(value)
    return ""


def _clean(text: str) -> str:
    """JSON may hold lone surrogates, which no file can: they become the replacement character."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()


def _score(value: Any) -> float:
    """A score that may be a number or, as DPR writes it, a string; what is neither counts as 0."""
    try:
        score = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    if math.isfinite(score):
        return score
    return 0.0
