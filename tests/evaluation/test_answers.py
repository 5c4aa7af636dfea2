"""Exact match, F1 and confidence against definitions written out here, on anyone's predictions and on our own."""

import dataclasses
import json
import re
import string
from collections import Counter

import numpy as np
import pytest

from mundap.errors import MundapError, UsageError
from mundap.evaluation import calibration
from mundap.evaluation.answers import Task, measure
from mundap.evaluation.confidence import fit
from mundap.evaluation.predictions import read_predictions
from mundap.models.folder import ReaderConfig
from tests.cli.test_cli import mundap
from tests.conftest import make_reader

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
    assert f"exact match {em:.2f}, F1 {f1:.2f}" in out


def as_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


SHAPES = {
    "an object": json.dumps(GIVEN),
    "an object and a line break": json.dumps(GIVEN) + "\n",
    "an object over many lines": json.dumps(GIVEN, indent=1) + "\n",
    "nbest": json.dumps({name: [{"text": text, "probability": 0.9}, {"text": "x"}] for name, text in GIVEN.items()}),
    "rows": json.dumps([{"id": name, "prediction_text": text} for name, text in GIVEN.items()]),
    "lines": as_lines({"id": name, "prediction": text} for name, text in GIVEN.items()),
    "lines with qid": as_lines({"qid": name, "answer": text} for name, text in GIVEN.items()),
    "lines by question": as_lines({"question": texts(name), "answer": text} for name, text in GIVEN.items()),
    "lines with gold answers": as_lines(
        {"id": name, "answers": ASKED[name], "prediction": text} for name, text in GIVEN.items()
    ),
    "mundap ask --json": as_lines(
        {"question": texts(name), "answers": [{"text": text, "confidence": 0.5}], "no_answer": False, "guess": None}
        for name, text in GIVEN.items()
    ),
    "dpr's reader": json.dumps(
        [
            {
                "question": texts(name),
                "gold_answers": ASKED[name],
                "predictions": [
                    {
                        "top_k": 50,
                        "prediction": {
                            "text": text,
                            "score": 12.5,
                            "relevance_score": 3.1,
                            "passage_idx": 2,
                            "passage": "p",
                        },
                    }
                ],
            }
            for name, text in GIVEN.items()
        ],
        indent=4,
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_predictions_in_every_shape(data, tmp_path, shape):
    (tmp_path / "preds").write_text(SHAPES[shape])
    found = measure(Task(str(data), predictions=str(tmp_path / "preds")))
    assert {row.question.id: row.text for row in found.outcomes} == GIVEN
    assert figures(found) == pytest.approx(squad_scores(ASKED, GIVEN), abs=0.005)


def test_a_single_row_of_json_lines(tmp_path):
    for end in ("", "\n"):
        (tmp_path / "preds").write_text(json.dumps({"id": "q4", "prediction_text": "a dog"}) + end)
        assert read_predictions(tmp_path / "preds") == {"q4": "a dog"}


@pytest.mark.parametrize(
    "gold", [["Jan Kowalski"], [{"text": "Jan Kowalski", "answer_start": 0}], {"text": ["Jan Kowalski"]}]
)
def test_gold_answers_in_a_row_are_never_its_prediction(tmp_path, gold):
    (tmp_path / "preds").write_text(json.dumps([{"id": "a", "prediction": "WRONG", "answers": gold}]))
    assert read_predictions(tmp_path / "preds") == {"a": "WRONG"}
    (tmp_path / "preds").write_text(json.dumps([{"id": "a", "answers": gold}]))
    with pytest.raises(MundapError, match="row 1 has no predicted answer"):
        read_predictions(tmp_path / "preds")


def test_ask_without_an_answer_predicts_nothing(tmp_path):
    (tmp_path / "preds").write_text(json.dumps({"question": "who?", "answers": [], "no_answer": True, "guess": None}))
    assert read_predictions(tmp_path / "preds") == {"who?": ""}


@pytest.mark.parametrize(
    "content",
    [
        '[{"id": "a", "answer": 5}, {"id": "b", "prediction_text": null}, {"id": "c", "text": 2.5}]',
        '{"id": "a", "answer": 5}\n{"id": "b", "prediction": null, "answer": "gold"}\n{"id": "c", "text": 2.5}\n',
        '{"a": 5, "b": null, "c": [{"text": 2.5}]}',
        '{"a": 5,\n "b": null,\n "c": 2.5}',
    ],
)
def test_a_number_is_its_text_and_null_is_no_prediction(tmp_path, content):
    (tmp_path / "preds").write_text(content)
    assert read_predictions(tmp_path / "preds") == {"a": "5", "c": "2.5"}


def test_predictions_that_are_all_null_are_none(tmp_path):
    (tmp_path / "preds").write_text('{"id": "a", "prediction_text": null}\n')
    with pytest.raises(MundapError, match="no prediction in it"):
        read_predictions(tmp_path / "preds")


def repeated_file(path, *names):
    """Questions about a king, a lord and so on, whose ids may come twice, or not at all."""
    kinds = ("king", "lord", "villain")
    rows = [
        {
            "question": f"who, the {kind}?",
            "answers": [{"text": kind, "answer_start": 2}],
            **({"id": name} if name else {}),
        }
        for name, kind in zip(names, kinds, strict=False)
    ]
    paragraphs = [{"context": f"a {kind} is here", "qas": [row]} for kind, row in zip(kinds, rows, strict=False)]
    path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": paragraphs}]}))
    return str(path)


def test_an_id_that_comes_twice_has_one_prediction_for_both(tmp_path):
    data = repeated_file(tmp_path / "q.json", "x", "x", "y")
    (tmp_path / "preds").write_text('{"x": "king", "y": "villain"}')
    found = measure(Task(data, predictions=str(tmp_path / "preds")))
    assert [(row.text, row.em) for row in found.outcomes] == [("king", 1.0), ("king", 0.0), ("villain", 1.0)]
    assert found.notes == []
    # An id that only looks like the second of two is another one.
    data = repeated_file(tmp_path / "q.json", "x", "x#2", "y")
    found = measure(Task(data, predictions=str(tmp_path / "preds")))
    assert [row.text for row in found.outcomes] == ["king", "", "villain"]


@pytest.mark.parametrize(
    ("names", "written"), [(("x", "x", "y"), ["x", "x#2", "y"]), ((None, None, None), ["0", "1", "2"])]
)
def test_what_is_written_is_scored_as_it_was_read(tiny_reader, tmp_path, names, written):
    data = repeated_file(tmp_path / "q.json", *names)
    found = measure(Task(data, reader=str(tiny_reader), out=str(tmp_path / "preds")))
    assert list(json.loads((tmp_path / "preds").read_text())) == written
    assert figures(found) == (100.0, 100.0)
    for limit in (None, 2):
        again = measure(Task(data, predictions=str(tmp_path / "preds"), limit=limit))
        assert (figures(again), again.notes) == ((100.0, 100.0), [])


def test_a_missing_prediction_counts_as_wrong_and_is_said(data, tmp_path):
    few = {name: text for name, text in GIVEN.items() if name in ("q1", "q3")} | {"other": "x"}
    (tmp_path / "preds").write_text(json.dumps(few))
    found = measure(Task(str(data), predictions=str(tmp_path / "preds")))
    assert figures(found) == pytest.approx(squad_scores(ASKED, few), abs=0.005)
    assert found.notes == ["5 questions have no prediction: they count as wrong"]


def test_an_empty_prediction_is_a_wrong_one(data, tmp_path):
    given = {**dict.fromkeys(ASKED, ""), "q1": "Palme d'Or"}
    (tmp_path / "preds").write_text(json.dumps(given))
    found = measure(Task(str(data), predictions=str(tmp_path / "preds")))
    assert figures(found) == pytest.approx((100 / 7, 100 / 7), abs=0.005)
    assert found.notes == []


def test_questions_marked_as_unanswerable_are_left_out(tmp_path):
    data = squad_file(tmp_path / "v2.json", ASKED, unanswerable=("u1", "u2"))
    (tmp_path / "preds").write_text(json.dumps({**GIVEN, "u1": "x", "u2": ""}))
    found = measure(Task(str(data), predictions=str(tmp_path / "preds")))
    assert len(found.outcomes) == 7
    assert found.skipped == []
    assert figures(found) == pytest.approx(squad_scores(ASKED, GIVEN), abs=0.005)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"nope": "x", "nor this": "y"}', "Are the ids the same"),
        ("[]", "no prediction in it"),
        ('{"q1": "x", ', "preds: not valid JSON (Expecting"),
        (b'{"q1":\n "\xff"}', "preds: not UTF-8"),
        ("[1, 2]", "row 1 has no predicted answer"),
        ('[{"id": "q1", "output": "palme d\'or"}]', "row 1"),  # an unknown field: not the same as an empty answer
        (None, "preds"),
    ],
)
def test_predictions_that_cannot_be_scored(data, tmp_path, content, message):
    if content is not None:
        (tmp_path / "preds").write_bytes(content if isinstance(content, bytes) else content.encode())
    code, out, err = mundap("evaluate", "answers", "--data", data, "--predictions", tmp_path / "preds", "--json")
    assert (code, out) == (1, "")
    assert message in err


def test_what_does_not_go_together_is_said(data, tmp_path):
    with pytest.raises(UsageError, match="leave out"):
        Task(str(data), predictions="x", index="y")
    with pytest.raises(UsageError, match="leave out -i"):
        Task(str(data), run="x", index="y")


def test_korean_is_judged_by_korquads_rule(tmp_path):
    asked = {"k1": ["황금종려상"], "k2": ["서울특별시"], "k3": ["2019년 5월"], "k4": ["봉준호 감독", "봉준호"]}
    given = {"k1": "《황금종려상》", "k2": "서울시", "k3": "5월", "k4": "송강호"}
    data = squad_file(tmp_path / "korquad.json", asked)
    (tmp_path / "preds").write_text(json.dumps(given, ensure_ascii=False))
    found = measure(Task(str(data), predictions=str(tmp_path / "preds")))
    assert found.match == "cjk"
    em = [max(korquad_normal(given[name]) == korquad_normal(one) for one in answers) for name, answers in asked.items()]
    f1 = [max(korquad_f1(given[name], one) for one in answers) for name, answers in asked.items()]
    assert em == [True, False, False, False]
    assert figures(found) == pytest.approx((100 * np.mean(em), 100 * np.mean(f1)), abs=0.005)
    assert 0 < f1[3] < f1[1] < 1
    # by words, as SQuAD counts, hardly anything would be left
    string_f1 = measure(Task(str(data), predictions=str(tmp_path / "preds"), match="string")).as_dict()["f1"]
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
    found = measure(Task(str(tmp_path / "trec.tsv"), predictions=str(tmp_path / "preds")))
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
    task = Task(str(tmp_path / "data.jsonl"), reader=str(tiny_reader), out=str(tmp_path / "out.json"))
    found = measure(task)
    assert [(row.text, row.em) for row in found.outcomes] == [("villain", 1.0), ("king", 0.0), ("", 0.0)]
    assert found.notes == ["1 questions have no passage to read: they count as wrong"]
    # what was written is what is scored
    assert json.loads((tmp_path / "out.json").read_text()) == {"a": "villain", "b": "king", "c": ""}
    again = measure(Task(str(tmp_path / "data.jsonl"), predictions=str(tmp_path / "out.json")))
    assert figures(again) == figures(found) == pytest.approx((100 / 3, 100 / 3), abs=0.005)
    with pytest.raises(MundapError, match="no question in it has an answer"):
        (tmp_path / "none.jsonl").write_text(as_lines([{"question": "who?", "answers": []}]))
        measure(Task(str(tmp_path / "none.jsonl"), reader=str(tiny_reader)))


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
    assert "exact match 100.00" in out
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
        measure(Task(str(tmp_path / "q.jsonl"), run=str(tmp_path / "run"), reader=str(tiny_reader)))


def test_passages_of_a_run_without_a_text_are_left_out_and_said(tiny_reader, tmp_path):
    (tmp_path / "q.jsonl").write_text(as_lines([KING, {**KING, "question": "who else?"}]))
    contexts = [{"docid": "1", "score": 2.0}, {"docid": "2", "text": "music for a king", "score": 1.0}]
    rows = {
        "0": {**KING, "contexts": contexts},
        "1": {**KING, "question": "who else?", "contexts": contexts[:1]},
        "2": {**KING, "question": "not asked", "contexts": contexts[:1]},
    }
    (tmp_path / "run.json").write_text(json.dumps(rows))
    task = Task(str(tmp_path / "q.jsonl"), run=str(tmp_path / "run.json"), reader=str(tiny_reader), cuts=(1,))
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
    task = Task(str(tmp_path / "run.json"), run=str(tmp_path / "run.json"), reader=str(reader), cuts=(2,))
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
        Task(**{"questions": task.questions, "run": task.run, "reader": str(reader), "removed": True})
    ).as_dict()
    assert facts["confidence"]["auroc_against_removed"] == 1.0
    assert (facts["confidence"]["answered"], facts["confidence"]["answered_though_removed"]) == (100.0, 0.0)
    with pytest.raises(MundapError, match="too few"):
        fit(Task(str(run_file(tmp_path / "few.json")), run=str(tmp_path / "few.json"), reader=str(reader)))


def test_the_questions_are_not_written_over(tiny_reader, tmp_path):
    path = run_file(tmp_path / "run.json")
    before = path.read_bytes()
    code, _, err = mundap("evaluate", "answers", "-q", path, "--run", path, "--reader", tiny_reader, "-o", path)
    assert code == 2
    assert "one of the files to read" in err
    assert path.read_bytes() == before


def test_what_is_left_out_is_said(tmp_path):
    qas = [
        {"id": "a", "question": "who?", "answers": [{"text": "king", "answer_start": 4}]},
        {"id": "b", "question": "who not?", "answers": [], "is_impossible": True},
        {"id": "c", "question": "who else?", "answers": []},
    ]
    data = {"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": "the king is here", "qas": qas}]}]}
    (tmp_path / "v2.json").write_text(json.dumps(data))
    (tmp_path / "preds.json").write_text('{"a": "king", "b": "", "c": ""}')
    found = measure(Task(str(tmp_path / "v2.json"), predictions=str(tmp_path / "preds.json"))).as_dict()
    assert (found["exact_match"], found["questions"]) == (100.0, 1)
    assert found["notes"] == [
        "1 questions are marked as unanswerable: they are left out",
        "1 questions have no answer: they are left out",
    ]


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
    task = Task(
        str(tmp_path / "q.jsonl"), index=str(tmp_path / "i"), reader=str(make_reader(tmp_path / "r")), removed=True
    )
    (row,) = measure(task).outcomes
    assert row.em == 1.0
    assert row.without.text == "king"


def test_a_writing_that_the_reader_does_not_know_counts_as_wrong_as_ask_says_nothing(tmp_path):
    rows = [
        {"question": asked, "answers": ["villain"], "ctxs": [{"id": "1", "text": "a film with a villain"}]}
        for asked in ("who?", "악당은 누구?")
    ]
    (tmp_path / "run.json").write_text(json.dumps(rows))
    reader = make_reader(tmp_path / "r", scripts="latin")
    found = measure(Task(str(tmp_path / "run.json"), run=str(tmp_path / "run.json"), reader=str(reader))).as_dict()
    assert found["exact_match"] == 50.0
    assert set(found["exact_match_by_passages"].values()) == {50.0}
    assert set(found["oracle"].values()) == {100.0}  # which is about what was found, whoever can read it
    assert found["notes"] == ["1 questions are in a writing that the reader does not know: they count as wrong"]


# Calibration by its definitions.


def test_auroc_is_mann_whitneys_u():
    from scipy.stats import mannwhitneyu

    chance = np.random.default_rng(0)
    for size in (1, 5, 80):
        left = np.round(chance.normal(0.5, 1, size), 1)  # rounded, so that there are ties
        right = np.round(chance.normal(0, 1, size + 3), 1)
        expected = mannwhitneyu(left, right).statistic / (len(left) * len(right))
        assert calibration.auroc(left, right) == pytest.approx(expected)
    assert calibration.auroc(np.array([1.0]), np.array([0.0])) == 1.0
    assert np.isnan(calibration.auroc(np.array([]), np.array([0.0])))


def test_expected_error_by_hand():
    sure = np.array([0.95, 0.91, 0.15, 0.12, 0.18, 1.0])
    right = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 1.0])
    # .9 to 1: mean .9533, right 2/3, three of six; .1 to .2: mean .15, right 1/3, three of six
    expected = 0.5 * abs((0.95 + 0.91 + 1.0) / 3 - 2 / 3) + 0.5 * abs(0.15 - 1 / 3)
    assert calibration.expected_error(sure, right) == pytest.approx(expected)
    assert calibration.expected_error(np.array([1.0, 0.0]), np.array([1.0, 0.0])) == 0.0
    assert calibration.expected_error(np.array([]), np.array([])) == 0.0


def test_coverage_by_trying_every_threshold():
    chance = np.random.default_rng(1)
    for _ in range(50):
        sure = np.round(chance.random(30), 1)
        right = (chance.random(30) < 0.3 + 0.7 * sure).astype(float)
        possible = [(0.0, None)]
        for cut in sorted(set(sure)):
            given = sure >= cut
            if right[given].mean() >= 0.9:
                possible.append((given.mean(), cut))
        share, cut = calibration.coverage(sure, right)
        assert share == pytest.approx(max(possible)[0])
        if share:
            assert right[sure >= cut].mean() >= 0.9
            assert (sure >= cut).mean() == pytest.approx(share)
    assert calibration.coverage(np.array([0.9]), np.array([0.0])) == (0.0, 1.0)


def test_the_best_threshold_by_trying_all():
    chance = np.random.default_rng(2)
    sure = chance.random(200)
    right = (chance.random(200) < sure).astype(float)

    def gain(cut):
        given = [r for s, r in zip(sure, right, strict=True) if s >= cut]
        precision, recall = sum(given) / len(given), sum(given) / right.sum()
        return 2 * precision * recall / (precision + recall)

    cut = calibration.best_threshold(sure, right)
    assert gain(cut) == pytest.approx(max(gain(one) for one in sure))
    assert 0.1 < cut < 0.6


def test_a_fit_finds_the_weights_that_made_the_data():
    chance = np.random.default_rng(3)
    features = chance.normal((1.0, 5.0, 0.0), (2.0, 3.0, 1.0), (20_000, 3))
    weights = np.array([0.8, 0.3, 0.0])
    right = (chance.random(20_000) < 1 / (1 + np.exp(-(0.5 + features @ weights)))).astype(float)
    found = calibration.fit(features, right, ("selection", "margin", "retrieval"))
    assert list(found) == ["bias", "selection", "margin", "retrieval", "typical"]
    assert list(found.values()) == pytest.approx([0.5, *weights, 0.0], abs=0.06)


def test_a_better_score_never_makes_an_answer_less_sure():
    """Two features that say the same: left to itself one gets a negative weight."""
    chance = np.random.default_rng(3)
    first = chance.normal(size=2_000)
    features = np.column_stack([first, 0.9 * first + 0.05 * chance.normal(size=2_000), np.full(2_000, np.nan)])
    right = (chance.random(2_000) < 1 / (1 + np.exp(-(3 * features[:, 0] - 2 * features[:, 1])))).astype(float)
    found = calibration.fit(features, right, ("selection", "margin", "retrieval"))
    assert min(found[name] for name in ("selection", "margin", "retrieval")) >= 0
    assert found["selection"] > 0.5


def test_a_fit_stays_finite_where_a_feature_tells_all_or_nothing():
    features = np.column_stack([np.repeat([1.0, -1.0], 50), np.zeros(100), np.zeros(100)])
    found = calibration.fit(features, np.repeat([1.0, 0.0], 50), ("selection", "margin", "retrieval"))
    assert 0.5 < found["selection"] < 20
    assert found["margin"] == found["retrieval"] == 0.0
