"""The questions on documentation: their answers stand where they say, and what is tuned on is not what is tested on."""

import html
import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples" / "documentation"
SETS = ("test", "dev")
ANSWERABLE = {"test": 160, "dev": 60}
UNANSWERABLE = {"test": 60, "dev": 40}
LARGEST = 700_000  # bytes, of everything: the repository stays small


def rows(name, file):
    lines = (FOLDER / name / file).read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def everything():
    found = []
    for name in SETS:
        found += rows(name, "questions.jsonl")
        found += rows(name, "unanswerable.jsonl")
    return found


def documents(name):
    folder = FOLDER / name / "documents"
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


def text_of(path):
    text = path.read_text("utf-8")
    if path.suffix == ".html":
        text = html.unescape(re.sub(r"<[^>]+>", "", text))
    return text


def paragraphs(name):
    """Those long enough that two manuals do not share them by chance."""
    found = set()
    for path in documents(name).values():
        for line in text_of(path).splitlines():
            if len(line.split()) >= 12:
                found.add(" ".join(line.split()))
    return found


@pytest.mark.parametrize("name", SETS)
def test_there_are_as_many_questions_as_stated(name):
    assert len(rows(name, "questions.jsonl")) == ANSWERABLE[name]
    assert len(rows(name, "unanswerable.jsonl")) == UNANSWERABLE[name]


@pytest.mark.parametrize("name", SETS)
def test_every_answer_stands_word_for_word_in_its_document(name):
    known = documents(name)
    for row in rows(name, "questions.jsonl"):
        text = text_of(known[row["gold"]])
        assert row["answers"], row["id"]
        for answer in row["answers"]:
            assert answer in text, (row["id"], answer)


@pytest.mark.parametrize("name", SETS)
def test_half_of_the_questions_are_paraphrased(name):
    kinds = [row["kind"] for row in rows(name, "questions.jsonl")]
    assert kinds.count("paraphrased") == kinds.count("direct") == len(kinds) / 2


@pytest.mark.parametrize("name", SETS)
def test_every_document_is_asked_about_and_has_a_licence(name):
    asked = {row["gold"] for row in rows(name, "questions.jsonl")}
    notice = (FOLDER / "NOTICE.md").read_text("utf-8")
    for document in documents(name):
        assert document in asked
        assert f"| {name}/documents/{document} |" in notice


@pytest.mark.parametrize("name", SETS)
def test_questions_without_an_answer_say_so(name):
    topics = {document.split("/")[0] for document in documents(name)}
    for row in rows(name, "unanswerable.jsonl"):
        assert row["answers"] == []
        assert row["is_impossible"] is True
        assert row["topic"] in topics


def test_ids_and_questions_are_unique():
    found = everything()
    assert len({row["id"] for row in found}) == len(found)
    assert len({row["question"].lower() for row in found}) == len(found)


def test_no_text_of_dev_is_in_test():
    assert not documents("dev").keys() & documents("test").keys()
    assert not paragraphs("dev") & paragraphs("test")


def test_the_whole_is_small():
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < LARGEST
