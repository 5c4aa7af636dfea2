"""Exact match, F1 and confidence against definitions written out here, on anyone's predictions and on our own."""

import dataclasses
import json
import re
import string
from collections import Counter

import numpy as np
import pytest

from mundap.errors import MundapError, UsageError
from mundap.evaluation.answers import AnswersTask, measure
from mundap.evaluation.confidence import fit
from mundap.models.folder import ReaderConfig
from tests.conftest import make_reader
from tests.program import mundap

# The rules of SQuAD v1.1's own script.


def squad_normal(text):
    text = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def squad_f1(prediction, truth):
    left, right = squad_normal(prediction).split(), squad_normal(truth).split()
    same = sum((Counter(left) & Counter(right)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(left), same / len(right)
    return 2 * precision * recall / (precision + recall)


def squad_scores(asked, predictions):
    """In percent; a question without prediction counts as 0."""
    em = f1 = 0.0
    for name, answers in asked.items():
        if name in predictions:
            text = predictions[name]
            em += max(float(squad_normal(text) == squad_normal(one)) for one in answers)
            f1 += max(squad_f1(text, one) for one in answers)
    return 100 * em / len(asked), 100 * f1 / len(asked)


# KorQuAD's: brackets and quotes become spaces, F1 counts characters.


def korquad_normal(text):
    for sign in "'\"《》<>〈〉()‘’":
        text = text.replace(sign, " ")
    return " ".join("".join(letter for letter in text.lower() if letter not in set(string.punctuation)).split())


def korquad_f1(prediction, truth):
    left, right = ([c for word in korquad_normal(one).split() for c in word] for one in (prediction, truth))
    same = sum((Counter(left) & Counter(right)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(left), same / len(right)
    return 2 * precision * recall / (precision + recall)


ASKED = {
    "q1": ["The Palme d'Or", "Palme d'Or"],
    "q2": ["1969", "July 20, 1969"],
    "q3": ["John Winston Lennon"],
    "q4": ["a dog", "dogs"],
    "q5": ["Zoë"],
    "q6": ["the end of the world"],
    "q7": ["U.S."],
}
GIVEN = {
    "q1": "palme d'or!",
    "q2": "20 July 1969",
    "q3": "the John Lennon band",
    "q4": "A dog.",
    "q5": "Zoe",
    "q6": "world of the end",
    "q7": "US",
}


def texts(name):
    return f"What is {name}, who’s to say?"


def squad_file(path, asked, context="Nothing.", unanswerable=()):
    qas = [
        {"id": name, "question": texts(name), "answers": [{"text": one, "answer_start": 0} for one in answers]}
        for name, answers in asked.items()
    ]
    qas += [{"id": name, "question": texts(name), "answers": [], "is_impossible": True} for name in unanswerable]
    path.write_text(
        json.dumps({"version": "1.1", "data": [{"title": "T", "paragraphs": [{"context": context, "qas": qas}]}]})
    )
    return path


@pytest.fixture
def data(tmp_path):
    return squad_file(tmp_path / "dev.json", ASKED)


def as_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def figures(found):
    facts = found.as_dict()
    return facts["exact_match"], facts["f1"]


def test_em_and_f1_are_squads_on_the_command_line(data, tmp_path):
    (tmp_path / "preds.json").write_text(json.dumps(GIVEN))
    code, out, err = mundap("evaluate", "answers", "--data", data, "--predictions", tmp_path / "preds.json", "--json")
    assert (code, err) == (0, "")
    facts = json.loads(out)
    em, f1 = squad_scores(ASKED, GIVEN)
    assert 0 < em < f1 < 100
    assert (facts["exact_match"], facts["f1"]) == (pytest.approx(em, abs=0.005), pytest.approx(f1, abs=0.005))
    assert (facts["questions"], facts["match"], facts["notes"]) == (7, "string", [])
    code, out, _ = mundap("evaluate", "answers", "-q", data, "--predictions", tmp_path / "preds.json")
    assert code == 0
    assert f"exact match (SQuAD) {em:.2f}, F1 of words (SQuAD) {f1:.2f}" in out


def test_what_does_not_go_together_is_said(data, tmp_path):
    with pytest.raises(UsageError, match="predictions are scored as they are: no index"):
        AnswersTask(str(data), predictions="x", index="y")
    with pytest.raises(UsageError, match="instead of an index"):
        AnswersTask(str(data), run="x", index="y")


def test_korean_is_judged_by_korquads_rule(tmp_path):
    asked = {"k1": ["황금종려상"], "k2": ["서울특별시"], "k3": ["2019년 5월"], "k4": ["봉준호 감독", "봉준호"]}
    given = {"k1": "《황금종려상》", "k2": "서울시", "k3": "5월", "k4": "송강호"}
    data = squad_file(tmp_path / "korquad.json", asked)
    (tmp_path / "preds").write_text(json.dumps(given, ensure_ascii=False))
    found = measure(AnswersTask(str(data), predictions=str(tmp_path / "preds")))
    assert found.match == "cjk"
    em = [max(korquad_normal(given[name]) == korquad_normal(one) for one in answers) for name, answers in asked.items()]
    f1 = [max(korquad_f1(given[name], one) for one in answers) for name, answers in asked.items()]
    assert em == [True, False, False, False]
    assert figures(found) == pytest.approx((100 * np.mean(em), 100 * np.mean(f1)), abs=0.005)
    assert 0 < f1[3] < f1[1] < 1
    # by words, as SQuAD counts, hardly anything would be left
    string_f1 = measure(AnswersTask(str(data), predictions=str(tmp_path / "preds"), match="string")).as_dict()["f1"]
    assert string_f1 < 100 * np.mean(f1)


def test_trec_answers_are_patterns(tmp_path):
    rows = [
        ("1", "num", "When was she born?", r"(Nov(ember)?\.? )?7?,? ?1867"),
        ("2", "hum", "Who was it?", r"(Marie )?Curie"),
        ("3", "loc", "Where?", r"Warsaw|Warszawa"),
    ]
    (tmp_path / "trec.tsv").write_text("".join("\t".join(row) + "\n" for row in rows))
    given = {"1": "November 7, 1867", "2": "the physicist Curie", "3": "warszawa, Poland"}
    (tmp_path / "preds").write_text(json.dumps(given))
    found = measure(AnswersTask(str(tmp_path / "trec.tsv"), predictions=str(tmp_path / "preds")))
    assert found.match == "regex"
    # as DrQA: the pattern must match where the prediction begins
    right = [re.compile(row[3], re.I | re.U | re.M).match(given[row[0]]) is not None for row in rows]
    assert right == [True, False, True]
    assert [row.em for row in found.outcomes] == right
    assert figures(found) == pytest.approx((200 / 3, 200 / 3), abs=0.005)


# Reading, with a reader that likes some words: villain 6, king 4, lord 2, anything else -2, no answer 0.


def test_gold_passages_are_read(tiny_reader, tmp_path):
    rows = [
        {"id": "a", "question": "who?", "answers": ["villain"], "context": "in the film is a villain of the city"},
        {"id": "b", "question": "who?", "answers": ["the river"], "context": "a king in the city by a river"},
        {"id": "c", "question": "who?", "answers": ["lord"], "gold": ["no text"]},
    ]
    (tmp_path / "data.jsonl").write_text(as_lines(rows))
    task = AnswersTask(str(tmp_path / "data.jsonl"), reader=str(tiny_reader), out=str(tmp_path / "out.json"))
    found = measure(task)
    assert [(row.text, row.em) for row in found.outcomes] == [("villain", 1.0), ("king", 0.0), ("", 0.0)]
    assert found.notes == ["1 questions have no passage to read: they count as wrong"]
    # what was written is what is scored
    assert json.loads((tmp_path / "out.json").read_text()) == {"a": "villain", "b": "king", "c": ""}
    again = measure(AnswersTask(str(tmp_path / "data.jsonl"), predictions=str(tmp_path / "out.json")))
    assert figures(again) == figures(found) == pytest.approx((100 / 3, 100 / 3), abs=0.005)
    with pytest.raises(MundapError, match="no question in it has an answer"):
        (tmp_path / "none.jsonl").write_text(as_lines([{"question": "who?"}]))
        measure(AnswersTask(str(tmp_path / "none.jsonl"), reader=str(tiny_reader)))


def run_file(path, count=1):
    """Results for questions whose answer `king` is in the second passage, and whose first has a lord, the third a villain."""
    contexts = [
        {"id": str(n), "title": "", "text": text, "score": str(9 - n)}
        for n, text in enumerate(("the lord of a ring", "music for a king", "a film with a villain", "earth and sun"))
    ]
    rows = [{"id": f"r{n}", "question": f"who {n}?", "answers": ["King"], "ctxs": contexts} for n in range(count)]
    path.write_text(json.dumps(rows))
    return path


def test_passages_of_a_run_are_read_and_the_oracle_is_what_could_be_reached(tiny_reader, tmp_path):
    path = run_file(tmp_path / "run.json", 2)
    code, out, err = mundap(
        "evaluate", "answers", "-q", path, "--run", path, "--reader", tiny_reader, "-k", 1, 2, 3, "--removed", "--json"
    )
    assert code == 0, err
    facts = json.loads(out)
    assert facts["exact_match_by_passages"] == {"1": 0.0, "2": 100.0, "3": 0.0}  # lord, king, villain
    assert facts["oracle"] == {"1": 0.0, "2": 100.0, "3": 100.0}
    assert (facts["exact_match"], facts["questions"]) == (0.0, 2)
    sure = facts["confidence"]
    # Without the king's passage the villain is the answer all the same, so the two cannot be told apart.
    assert sure["auroc_against_removed"] == 0.5
    assert sure["answered_though_removed"] == 100.0
    assert sure["ece"] == pytest.approx(sure["ece_with_removed"])
    code, out, _ = mundap("evaluate", "answers", "-q", path, "--run", path, "--reader", tiny_reader, "-k", 2)
    assert code == 0
    assert "exact match (SQuAD) 100.00" in out
    assert "oracle by passages read: 2: 100.0" in out


KING = {"question": "who?", "answers": ["king"]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("q1 Q0 d1 1 9.5 bm25\n", "a TREC run names passages only"),
        ("Dear reader, this is a letter.\n", "not DPR's json"),
        (json.dumps([{"question": "where?", "answers": ["x"], "ctxs": []}]), "none of the questions is in it"),
        (json.dumps([KING]), "run#1: not a result"),
        (as_lines([KING]), "run#1: not a result"),
        ('{"question": "who?", "ctxs"\n', "run:1: not JSON"),
    ],
)
def test_what_is_no_run_to_read_is_said(tiny_reader, tmp_path, content, message):
    (tmp_path / "q.jsonl").write_text(as_lines([KING]))
    (tmp_path / "run").write_text(content)
    with pytest.raises(MundapError, match=re.escape(message)):
        measure(AnswersTask(str(tmp_path / "q.jsonl"), run=str(tmp_path / "run"), reader=str(tiny_reader)))


def test_passages_of_a_run_without_a_text_are_left_out_and_said(tiny_reader, tmp_path):
    (tmp_path / "q.jsonl").write_text(as_lines([KING, {**KING, "question": "who else?"}]))
    contexts = [{"docid": "1", "score": 2.0}, {"docid": "2", "text": "music for a king", "score": 1.0}]
    rows = {
        "0": {**KING, "contexts": contexts},
        "1": {**KING, "question": "who else?", "contexts": contexts[:1]},
        "2": {**KING, "question": "not asked", "contexts": contexts[:1]},
    }
    (tmp_path / "run.json").write_text(json.dumps(rows))
    task = AnswersTask(str(tmp_path / "q.jsonl"), run=str(tmp_path / "run.json"), reader=str(tiny_reader), cuts=(1,))
    found = measure(task)
    assert [(row.text, row.oracle) for row in found.outcomes] == [("king", {1: True}), ("", {1: False})]
    assert found.notes == [
        "2 passages of run.json have no text: they are left out",
        "1 questions have no passage to read: they count as wrong",
    ]


def test_rows_of_a_run_that_cannot_be_read_are_skipped_and_said(tiny_reader, tmp_path):
    (tmp_path / "q.jsonl").write_text(as_lines([KING]))
    good = {**KING, "ctxs": [{"id": "2", "text": "music for a king"}]}
    (tmp_path / "run.jsonl").write_text(as_lines([good, KING]) + "{broken\n")
    given = ("evaluate", "answers", "-q", tmp_path / "q.jsonl", "--run", tmp_path / "run.jsonl")
    code, out, _ = mundap(*given, "--reader", tiny_reader, "--json")
    facts = json.loads(out)
    assert (code, facts["exact_match"], facts["skipped_count"]) == (3, 100.0, 2)
    assert facts["skipped"][0]["reason"].startswith("not a result")


def test_confidence_is_fitted_and_kept_with_the_reader(tmp_path):
    """Right where a villain is to be had; without his passage a lord is the best there is, and he is wrong."""
    reader = make_reader(tmp_path / "reader")
    contexts = [{"id": "1", "title": "", "text": "a film with a villain", "score": "2"}]
    contexts += [{"id": "2", "title": "", "text": "the lord of a ring", "score": "1"}]
    rows = [{"question": f"who {n}?", "answers": ["villain"], "ctxs": contexts} for n in range(30)]
    (tmp_path / "run.json").write_text(json.dumps(rows))
    task = AnswersTask(str(tmp_path / "run.json"), run=str(tmp_path / "run.json"), reader=str(reader), cuts=(2,))
    found = fit(task)
    assert found["cases"] == 60
    kept = ReaderConfig.load(reader)
    assert (kept.confidence, kept.threshold) == (found["confidence"], found["threshold"])
    assert kept.confidence["selection"] > 0
    fit(dataclasses.replace(task, ranking="selection", retrieval_weight=0.5))
    assert (ReaderConfig.load(reader).ranking, ReaderConfig.load(reader).retrieval_weight) == ("selection", 0.5)
    assert found["ece"] < 0.1
    assert found["auroc_against_removed"] == 1.0
    with pytest.raises(UsageError, match="copy its folder"):
        fit(dataclasses.replace(task, reader="reader"))
    assert found["coverage_at_90_precision"] == 50.0
    facts = measure(
        AnswersTask(**{"questions": task.questions, "run": task.run, "reader": str(reader), "removed": True})
    ).as_dict()
    assert facts["confidence"]["auroc_against_removed"] == 1.0
    assert (facts["confidence"]["answered"], facts["confidence"]["answered_though_removed"]) == (100.0, 0.0)
    with pytest.raises(MundapError, match="too few"):
        fit(AnswersTask(str(run_file(tmp_path / "few.json")), run=str(tmp_path / "few.json"), reader=str(reader)))


def test_the_questions_are_not_written_over(tiny_reader, tmp_path):
    path = run_file(tmp_path / "run.json")
    before = path.read_bytes()
    code, _, err = mundap("evaluate", "answers", "-q", path, "--run", path, "--reader", tiny_reader, "-o", path)
    assert code == 2
    assert "one of the files to read" in err
    assert path.read_bytes() == before


def test_unanswerable_questions_are_counted_apart_and_those_without_any_answer_are_left_out(tmp_path):
    qas = [
        {"id": "a", "question": "who?", "answers": [{"text": "king", "answer_start": 4}]},
        {"id": "b", "question": "who not?", "answers": [], "is_impossible": True},
        {"id": "c", "question": "who else?", "answers": []},
        {"id": "d", "question": "who knows?"},
    ]
    data = {"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": "the king is here", "qas": qas}]}]}
    (tmp_path / "v2.json").write_text(json.dumps(data))
    (tmp_path / "preds.json").write_text('{"a": "king", "b": "", "c": ""}')
    found = measure(AnswersTask(str(tmp_path / "v2.json"), predictions=str(tmp_path / "preds.json"))).as_dict()
    assert (found["exact_match"], found["questions"]) == (100.0, 1)
    assert found["unanswerable"] == {
        "questions": 2,
        "answered_though_unanswerable": 0.0,
        "squad2_exact_match": 100.0,
        "squad2_f1": 100.0,
    }
    assert found["notes"] == ["1 questions have no answer in the file: they are left out"]


def test_with_the_answer_its_whole_document_is_taken_away(tmp_path, tiny_model):
    """The villain's document has a lord in another passage; without it only the king's is left."""
    from mundap import Index

    docs = tmp_path / "docs"
    docs.mkdir()
    filler = "the water of a mountain in the sun and the moon over it " * 9
    (docs / "one.txt").write_text(filler + "the villain. " + filler + "the lord")
    (docs / "two.txt").write_text("music for a king")
    Index.build([docs], tmp_path / "i", model=str(tiny_model))
    (tmp_path / "q.jsonl").write_text('{"question": "what is it?", "answers": ["villain"]}\n')
    task = AnswersTask(
        str(tmp_path / "q.jsonl"), index=str(tmp_path / "i"), reader=str(make_reader(tmp_path / "r")), removed=True
    )
    (row,) = measure(task).outcomes
    assert row.em == 1.0
    assert row.without.text == "king"


def test_a_script_that_the_reader_does_not_know_counts_as_wrong_as_ask_says_nothing(tmp_path):
    rows = [
        {"question": asked, "answers": ["villain"], "ctxs": [{"id": "1", "text": "a film with a villain"}]}
        for asked in ("who?", "악당은 누구?")
    ]
    (tmp_path / "run.json").write_text(json.dumps(rows))
    reader = make_reader(tmp_path / "r", scripts="latin")
    found = measure(
        AnswersTask(str(tmp_path / "run.json"), run=str(tmp_path / "run.json"), reader=str(reader))
    ).as_dict()
    assert found["exact_match"] == 50.0
    assert set(found["exact_match_by_passages"].values()) == {50.0}
    assert set(found["oracle"].values()) == {100.0}  # which is about what was found, whoever can read it
    assert found["notes"] == ["1 questions are in a script that the reader does not know: they count as wrong"]


# Calibration by its definitions.
