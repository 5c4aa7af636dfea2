"""Questions in JSON: one reader for the many names that the field has for the same few things."""

import itertools
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
    """One JSON object a line."""
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
        rows = paragraph.get("qas") if isinstance(paragraph, dict) else None
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
    """The question in one object, after a word about each part of it that cannot be used."""
    text = next((row[key] for key in _QUESTION if isinstance(row.get(key), str)), None)
    if text is None:
        yield Skipped(where, f"no question: expected one of the fields {', '.join(_QUESTION)}")
        return
    if not text.strip():
        yield Skipped(where, "empty question")
        return
    raw = next((row[key] for key in _ANSWERS if row.get(key) is not None), ())
    answers, starts = _answers(raw)
    unanswerable = _is_unanswerable(row, raw)
    if unanswerable:
        answers = []
    good = tuple(dict.fromkeys(clean(answer) for answer in answers if answer.strip()))
    if not all(map(str.strip, answers)):
        yield Skipped(where, "an empty answer was left out")
    gold = tuple(_gold(row))
    start = None
    if starts and gold and good:
        start = starts[0]
    yield Question(clean(_name(row, position)), clean(text.strip()), good, gold, start, unanswerable)


def _is_unanswerable(row: Mapping[str, Any], raw: Any) -> bool:
    """SQuAD 2.0 says so, other files give an empty list. Where a row has passages, that means nothing."""
    if row.get("is_impossible") is True:
        return True
    if isinstance(raw, dict):
        raw = raw.get("text")
    return raw == [] and not any(key in row for key in _PASSAGES)


def _name(row: Mapping[str, Any], position: str) -> str:
    return next((str(row[key]) for key in _ID if isinstance(row.get(key), str | int) and row[key] != ""), position)


def _answers(value: Any) -> tuple[list[str], list[int]]:
    """Answers, and where they begin if that is told, out of any of the shapes in use."""
    if isinstance(value, str):
        found = [quoted or plain for quoted, plain in _DESCRIPTION.findall(value)] if "(description" in value else []
        return found or [value], []
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [str(value)], []
    if isinstance(value, dict):
        return _answers_of_object(value)
    answers: list[str] = []
    starts: list[int] = []
    for part in value if isinstance(value, list | tuple) else ():
        if isinstance(part, dict) and isinstance(part.get("answer_start"), int):
            starts.append(part["answer_start"])
        answers += _answers(part)[0]
    return answers, starts


def _answers_of_object(value: Mapping[str, Any]) -> tuple[list[str], list[int]]:
    """SQuAD's {text, answer_start}, each one or a list, or TriviaQA's {value, aliases}."""
    named = {key.lower(): part for key, part in value.items()}
    if "text" in named:
        starts = named.get("answer_start")
        listed = starts if isinstance(starts, list) else [starts]
        return _answers(named["text"])[0], [start for start in listed if isinstance(start, int)]
    return _answers(named.get("value"))[0] + _answers(named.get("aliases"))[0], []


def _gold(row: Mapping[str, Any]) -> Iterator[Context]:
    for key in _POSITIVES:
        if isinstance(row.get(key), list):
            yield from (context for part in row[key] if (context := as_context(part)) is not None)
            return
    context = row.get("context", row.get("passage"))
    title = row.get("title")
    if isinstance(context, str) and context.strip():
        yield Context(title=clean(title) if isinstance(title, str) else "", text=clean(context))
    named = row.get("gold", ())
    for name in named if isinstance(named, list | tuple) else (named,):
        if isinstance(name, str | int) and name != "":
            yield Context(id=clean(str(name)))


def as_context(value: Any) -> Context | None:
    """A passage of a DPR, Tevatron or Pyserini file; None if it has neither text nor id."""
    if not isinstance(value, dict):
        return None
    name = next((str(value[key]) for key in _CONTEXT_ID if isinstance(value.get(key), str | int)), "")
    text, title = value.get("text"), value.get("title")
    if not isinstance(text, str):
        text = ""
    if not name and not text.strip():
        return None
    told = value.get("has_answer")
    return Context(
        id=clean(name),
        title=clean(title) if isinstance(title, str) else "",
        text=clean(text),
        score=as_score(value.get("score")),
        has_answer=told if isinstance(told, bool) else None,
    )


def clean(text: str) -> str:
    """JSON may hold lone surrogates, which no file can: they become the replacement character."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()


def as_score(value: Any) -> float:
    """A score that may be a number or, as DPR writes it, a string; what is neither counts as 0."""
    try:
        score = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return score if abs(score) < float("inf") else 0.0  # NaN fails the comparison as well
