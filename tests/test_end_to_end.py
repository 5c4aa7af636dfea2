"""The shipped model on the example encyclopaedia, as a newcomer meets it."""

import json
from collections import defaultdict

import pytest

from mundap import Filters
from mundap.models import folder
from tests.conftest import EXAMPLES

QUESTIONS = [json.loads(line) for line in (EXAMPLES / "questions.jsonl").read_text("utf-8").splitlines()]


def measured(index):
    """Share of questions whose article is first, by mode, language and phrasing."""
    asked = [row["question"] for row in QUESTIONS]
    result = {}
    for mode in ("bm25", "dense", "hybrid"):
        groups = defaultdict(list)
        for row, hits in zip(QUESTIONS, index.search_batch(asked, 1, mode), strict=True):
            right = bool(hits) and hits[0].passage.document == row["gold"]
            for group in ("all", row["language"], (row["language"], row["paraphrase"])):
                groups[group].append(right)
        result[mode] = {group: sum(values) / len(values) for group, values in groups.items()}
    return result


@pytest.fixture(scope="module")
def accuracy(english_example_index):
    """With the retriever that comes with the package, also where the multilingual one is installed."""
    return measured(english_example_index)


def test_hybrid_beats_both_of_its_parts(accuracy):
    assert accuracy["hybrid"]["all"] > max(accuracy["bm25"]["all"], accuracy["dense"]["all"])
    assert accuracy["hybrid"]["all"] > 0.8


def test_dense_finds_paraphrases_that_bm25_misses(accuracy):
    assert accuracy["dense"]["en", True] > accuracy["bm25"]["en", True]


def test_korean_questions_are_found_too(accuracy):
    assert accuracy["hybrid"]["ko"] >= accuracy["bm25"]["ko"] - 0.02


def test_the_villain(example_index):
    titles = [hit.passage.text for hit in example_index.search("Who is the bad guy in Lord of the Rings?", 3)]
    assert any("Sauron" in text for text in titles)


def test_the_prize(example_index):
    assert "황금종려상" in example_index.search("기생충이 칸 영화제에서 받은 상 이름은?", 1)[0].passage.text


def test_the_corpus_is_as_promised(example_index):
    info = example_index.info()
    korean = [row for row in QUESTIONS if row["language"] == "ko"]
    assert info["documents"] >= 120
    assert len(QUESTIONS) >= 200
    assert len(korean) >= 40
    assert sum(row["paraphrase"] for row in QUESTIONS) >= len(QUESTIONS) / 2
    for row in QUESTIONS:
        text = example_index.document(row["gold"]).text
        assert all(answer in text for answer in row["answers"]), row["id"]


def test_answers_from_the_example_corpus(example_index):
    """The shipped reader: what it says for sure is right, and it keeps silent about what is not there."""
    from mundap import Reader, ask

    reader = Reader.from_pretrained()
    found = ask(example_index, "How high is the top of Kilimanjaro?", reader)
    answer = found.answers[0]
    assert answer.text == "5,895 metres"
    assert example_index.document(answer.hit.passage.document).text[answer.start : answer.end] == answer.text
    assert ask(example_index, "Who won the football world cup on the moon?", reader).no_answer
    assert "English only" in ask(example_index, "기생충이 칸 영화제에서 받은 상 이름은?", reader).note


@pytest.mark.skipif(
    not {folder.MULTILINGUAL, folder.MULTILINGUAL_READER} <= set(folder.installed()),
    reason="needs the multilingual models: pip install ./packages/mundap-models-multilingual",
)
def test_the_multilingual_models_are_taken_for_korean(example_index):
    from mundap import ask

    assert example_index.info()["model"] == folder.MULTILINGUAL
    found = ask(example_index, "기생충이 칸 영화제에서 받은 상 이름은?", threshold=0.0)
    assert "황금종려상" in found.answers[0].text
    assert not found.note


def test_korean_questions_find_english_articles(example_index):
    pytest.importorskip("mundap_models_multilingual")
    rows = [json.loads(line) for line in (EXAMPLES / "cross-language.jsonl").read_text("utf-8").splitlines()]
    english = Filters(metadata={"language": "en"})
    found = 0
    for row in rows:
        hits = example_index.search(row["question"], 10, filters=english)
        found += row["gold"] in [hit.passage.document for hit in hits]
        text = example_index.document(row["gold"]).text
        assert all(answer in text for answer in row["answers"]), row["id"]
    assert found > 0.9 * len(rows)
