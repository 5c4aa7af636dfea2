"""Anyone's predictions, in every shape in use."""

import json

import pytest

from mundap.datasets.predictions import read_predictions
from mundap.errors import MundapError
from mundap.evaluation.answers import AnswersTask, measure
from tests.evaluation.test_answers import ASKED, GIVEN, as_lines, data, figures, squad_file, squad_scores, texts
from tests.program import mundap

__all__ = ["data"]  # fixtures


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
    found = measure(AnswersTask(str(data), predictions=str(tmp_path / "preds")))
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
    found = measure(AnswersTask(data, predictions=str(tmp_path / "preds")))
    assert [(row.text, row.em) for row in found.outcomes] == [("king", 1.0), ("king", 0.0), ("villain", 1.0)]
    assert found.notes == []
    # An id that only looks like the second of two is another one.
    data = repeated_file(tmp_path / "q.json", "x", "x#2", "y")
    found = measure(AnswersTask(data, predictions=str(tmp_path / "preds")))
    assert [row.text for row in found.outcomes] == ["king", "", "villain"]


@pytest.mark.parametrize(
    ("names", "written"), [(("x", "x", "y"), ["x", "x#2", "y"]), ((None, None, None), ["0", "1", "2"])]
)
def test_what_is_written_is_scored_as_it_was_read(tiny_reader, tmp_path, names, written):
    data = repeated_file(tmp_path / "q.json", *names)
    found = measure(AnswersTask(data, reader=str(tiny_reader), out=str(tmp_path / "preds")))
    assert list(json.loads((tmp_path / "preds").read_text())) == written
    assert figures(found) == (100.0, 100.0)
    for limit in (None, 2):
        again = measure(AnswersTask(data, predictions=str(tmp_path / "preds"), limit=limit))
        assert (figures(again), again.notes) == ((100.0, 100.0), [])


def test_a_missing_prediction_counts_as_wrong_and_is_said(data, tmp_path):
    few = {name: text for name, text in GIVEN.items() if name in ("q1", "q3")} | {"other": "x"}
    (tmp_path / "preds").write_text(json.dumps(few))
    found = measure(AnswersTask(str(data), predictions=str(tmp_path / "preds")))
    assert figures(found) == pytest.approx(squad_scores(ASKED, few), abs=0.005)
    assert found.notes == ["5 questions have no prediction: they count as wrong"]


def test_an_empty_prediction_is_a_wrong_one(data, tmp_path):
    given = {**dict.fromkeys(ASKED, ""), "q1": "Palme d'Or"}
    (tmp_path / "preds").write_text(json.dumps(given))
    found = measure(AnswersTask(str(data), predictions=str(tmp_path / "preds")))
    assert figures(found) == pytest.approx((100 / 7, 100 / 7), abs=0.005)
    assert found.notes == []


def test_questions_marked_as_unanswerable_are_not_in_the_figures_of_the_others(tmp_path):
    data = squad_file(tmp_path / "v2.json", ASKED, unanswerable=("u1", "u2"))
    (tmp_path / "preds").write_text(json.dumps({**GIVEN, "u1": "x", "u2": ""}))
    found = measure(AnswersTask(str(data), predictions=str(tmp_path / "preds")))
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
