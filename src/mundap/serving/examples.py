"""Questions to try an index with, made from its own titles and headings: `/v1/examples`."""

import re
import time
from collections.abc import Iterator, Sequence

from fastapi import APIRouter, Request, Response

from mundap.disk import json_bytes
from mundap.index.corpus import Filters
from mundap.index.index import Index
from mundap.pipeline.search import search
from mundap.reader.answering import answer_from
from mundap.reader.choice import LanguageReaders
from mundap.records import Passage
from mundap.serving import schema
from mundap.serving.ask import JSON, ThisEngine, WhichIndex
from mundap.serving.indexes import ServedEngine
from mundap.text.sections import SEPARATOR

COUNT = 3
_SAMPLE = 60  # passages whose titles and headings are looked at
_TRIED = 8  # questions that are asked to find some with an answer: each costs what a question costs
_READ = 3  # passages that are read for each
_SECONDS = 5.0  # then stop trying: somebody is waiting
_SURE = 0.5
_LONGEST = 70  # characters
_NUMBER = re.compile(r"(?:(?:chapter|appendix|section|part) )?\d+(?:\.\d+)*\.? ", re.IGNORECASE)
_PERSON = re.compile(r"\b(?:he|she|his|her|born)\b|태어|그는|그녀는", re.IGNORECASE)

router = APIRouter(prefix="/v1", tags=["documents"])


@router.get("/examples", response_model=schema.Examples, responses=schema.failures(404, 422))
async def examples(request: Request, engine: ThisEngine, index: WhichIndex = None) -> Response:
    """Up to three questions to try the index with, those first that the reader answers."""
    served = engine.indexes.get(index)
    snapshot = served.index()
    if isinstance(served, ServedEngine):  # from which no passage can be drawn
        return Response(json_bytes({"questions": []}), media_type=JSON)
    found = await engine.look(
        served,
        ("examples",),
        lambda: json_bytes({"questions": _example_questions(snapshot, engine.reader)}),
        request.state.client,
    )
    return Response(found, media_type=JSON)


def _example_questions(index: Index, reader: LanguageReaders | None) -> list[str]:
    """Questions about what the index is about; those with a likely answer come first."""
    sample = index.sample(_SAMPLE, "examples")
    made: dict[str, None] = {}
    for passage in sample:
        made.update(dict.fromkeys(_questions_of(passage)))
    for passage in sample:
        if len(_heading(passage)) <= _LONGEST:
            made[_question_about(passage)] = None
    questions = list(made)
    answered = []
    if reader:
        answered = _answered(index, reader, questions[:_TRIED])
    return list(dict.fromkeys([*answered, *questions]))[:COUNT]


def _answered(index: Index, reader: LanguageReaders, questions: Sequence[str]) -> list[str]:
    """The first questions that the reader answers with some confidence."""
    found: list[str] = []
    until = time.monotonic() + _SECONDS
    for question in questions:
        if len(found) == COUNT or time.monotonic() > until:
            break
        hits = search(index, [question], _READ, None, filters=Filters())[0].hits
        answers = answer_from(reader, question, hits, 1, None, _READ).answers
        if answers and answers[0].confidence >= _SURE:
            found.append(question)
    return found


def _questions_of(passage: Passage) -> Iterator[str]:
    """What can be asked about a passage: a heading that is a question, or what its text says that a thing is."""
    for heading in reversed(passage.title.split(SEPARATOR)):
        name = _NUMBER.sub("", heading.strip())
        text = passage.text.removeprefix(f"{name}\n").lstrip()  # a heading goes with what follows it
        if not 2 <= len(name) <= _LONGEST:
            continue
        if name.endswith("?"):
            yield name
        elif re.match(r"how to \w", name, re.IGNORECASE):
            yield f"{name}?"
        elif _ends_in_hangul(name):
            if text.startswith(name):
                asked = "무엇인가요?"
                if _PERSON.search(passage.text):
                    asked = "누구인가요?"
                yield f"{name}{_topic(name)} {asked}"
        elif said := re.match(re.escape(name) + r"(?: \([^)]*\))? (is|was|are|were) ", text):
            yield f"{'Who' if _PERSON.search(passage.text) else 'What'} {said.group(1)} {name}?"


def _question_about(passage: Passage) -> str:
    """What can be asked about any passage that has a title."""
    name = _heading(passage)
    if _ends_in_hangul(name):
        return f"{name}에 대해 무엇이라고 하나요?"
    return f"What is said about {name}?"


def _heading(passage: Passage) -> str:
    """The innermost heading, or the document's name."""
    return _NUMBER.sub("", passage.title.split(SEPARATOR)[-1].strip()) or passage.document


def _ends_in_hangul(name: str) -> bool:
    return "가" <= name[-1] <= "힣"


def _topic(name: str) -> str:
    """The particle of a topic: 은 after a consonant, 는 after a vowel."""
    if (ord(name[-1]) - ord("가")) % 28:
        return "은"
    return "는"
