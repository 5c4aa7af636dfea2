"""Confidence by groups of languages: fitted from one file, kept with the reader, used by each question's language."""

import json

import numpy as np
import pytest

from mundap.evaluation import calibration
from mundap.evaluation.answers import AnswersTask, measure
from mundap.evaluation.confidence import _answer_threshold, fit
from mundap.models.folder import FittedConfidence, ReaderConfig
from mundap.reader.answering import answer_from
from mundap.reader.confidence import confidence
from mundap.reader.runtime import Reader
from mundap.records import Hit, Passage
from tests.conftest import make_reader
from tests.program import mundap

CURVE = {"bias": 0.0, "selection": 0.5}


def row(question, answer, *texts):
    contexts = [{"id": str(n), "title": "", "text": text, "score": "1"} for n, text in enumerate(texts)]
    return {"question": question, "answers": [answer], "ctxs": contexts}


def villains(size):
    """In English a villain is right, and the king that is left without him is not."""
    return [row(f"who {n}?", "villain", "a film with a villain", "music for a king") for n in range(size)]


def kings(size):
    """In Korean a king is right, as sure as he is wrong in English, and the lord that is left is not."""
    return [row(f"누구 {n}?", "king", "music for a king", "the lord of a ring") for n in range(size)]


def fitted(tmp_path, rows, **settings):
    (tmp_path / "run.json").write_text(json.dumps(rows))
    reader = make_reader(tmp_path / "reader", **settings)
    path = str(tmp_path / "run.json")
    return fit(AnswersTask(path, run=path, reader=str(reader), cuts=(2,))), ReaderConfig.load(reader)


def test_one_file_fits_every_group_that_has_enough_questions(tmp_path):
    found, kept = fitted(tmp_path, villains(60) + kings(60))
    assert set(kept.groups) == set(found["groups"]) == {"ko"}
    assert (found["cases"], found["groups"]["ko"]["cases"]) == (120, 120)
    assert kept.confidence == found["confidence"]
    assert kept.groups["ko"].confidence == found["groups"]["ko"]["confidence"]
    facts = measure(
        AnswersTask(
            str(tmp_path / "run.json"), run=str(tmp_path / "run.json"), reader=str(tmp_path / "reader"), removed=True
        )
    )
    by_language = {outcome.question.text[0]: outcome for outcome in facts.outcomes}
    # The English king is no answer, the Korean one is: with one curve for both that could not be.
    assert by_language["누"].confidence > by_language["누"].threshold == kept.groups["ko"].threshold
    assert by_language["w"].without.confidence < by_language["w"].threshold == kept.threshold
    assert by_language["w"].without.features[0] == by_language["누"].features[0]
    sure = facts.as_dict()["confidence"]
    assert (sure["answered"], sure["answered_though_removed"]) == (100.0, 0.0)


def test_answers_are_counted_by_the_threshold_of_their_language(tmp_path):
    of_korean = FittedConfidence(CURVE, 0.5)
    reader = make_reader(tmp_path / "r", confidence=CURVE, threshold=0.95, groups={"ko": of_korean})
    path = tmp_path / "run.json"
    path.write_text(json.dumps([*kings(3), row("who?", "king", "music for a king", "the lord of a ring")]))
    task = AnswersTask(str(path), run=str(path), reader=str(reader), cuts=(2,), removed=True)
    sure = measure(task).as_dict()["confidence"]  # a king is sure by .88, a lord by .73
    assert sure["threshold"] == [0.5, 0.95]
    assert (sure["answered"], sure["answered_though_removed"]) == (75.0, 75.0)


def test_a_group_with_few_questions_is_fitted_with_the_others(tmp_path):
    found, kept = fitted(tmp_path, villains(60) + kings(49))
    assert (found["cases"], kept.groups) == (218, {})
    assert "groups" not in found


def test_a_file_of_one_group_fits_the_general_confidence_too(tmp_path):
    old = {"ja-zh": FittedConfidence(CURVE, 0.5)}
    found, kept = fitted(tmp_path, villains(20) + kings(60), groups=old)
    assert (found["cases"], found["groups"]["ko"]["cases"]) == (160, 120)
    assert set(kept.groups) == {"ko"}  # nothing of an older fit stays


def test_what_is_right_may_be_close(tmp_path):
    rows = [row(f"who {n}?", "the film villain", "a film villain", "the lord of a ring") for n in range(60)]
    (tmp_path / "run.json").write_text(json.dumps(rows))
    given = {"questions": str(tmp_path / "run.json"), "run": str(tmp_path / "run.json"), "cuts": (2,)}
    found = measure(AnswersTask(reader=str(make_reader(tmp_path / "r")), right="close", **given)).as_dict()
    assert (found["exact_match"], found["confidence"]["right"]) == (0.0, 100.0)
    assert (found["confidence"]["exact_match_of_answered"], found["confidence"]["right_of_answered"]) == (0.0, 100.0)


def test_an_answer_that_another_document_has_was_not_removed(tmp_path):
    """The second document says it without the word by which the first was found and taken away."""
    rows = [row(f"who {n}?", "film villain", "a film villain", "the villain of a ring") for n in range(30)]
    (tmp_path / "run.json").write_text(json.dumps(rows + villains(30)))
    task = {"questions": str(tmp_path / "run.json"), "run": str(tmp_path / "run.json"), "cuts": (2,), "removed": True}
    reader = str(make_reader(tmp_path / "r"))
    again = {}
    for rule in ("exact", "close"):
        found = measure(AnswersTask(reader=reader, right=rule, **task)).as_dict()["confidence"]
        again[rule] = found.get("questions_asked_again", 0)
    assert again == {"exact": 60, "close": 30}
    assert fit(AnswersTask(reader=reader, right="close", **task))["cases"] == 90


def test_the_threshold_leaves_one_in_ten_questions_without_an_answer_answered():
    chance = np.random.default_rng(0)
    sure = np.concatenate([chance.random(500), 0.9 * chance.random(500)])
    right = np.concatenate([np.ones(500), np.zeros(500)])
    without = np.arange(1000) >= 500
    free = calibration.best_threshold(sure, right)
    assert (sure[without] >= free).mean() > 0.5
    bound = calibration.best_threshold(sure, right, without, 0.1)
    assert 0.09 < (sure[without] >= bound).mean() <= 0.1
    assert calibration.best_threshold(sure, right, without, 1.0) == free
    assert calibration.best_threshold(np.array([0.5, 0.5]), np.array([1, 0]), np.array([False, True]), 0.1) == 1.0


def test_the_threshold_is_lower_than_the_best_f1_where_refusals_allow_it():
    removed = np.arange(200) >= 100
    right = np.array([1.0] * 60 + [0.0] * 140)
    sure = np.concatenate([np.full(60, 0.9), np.full(40, 0.4), np.full(100, 0.1)])
    assert calibration.best_threshold(sure, right, removed, 0.1) == 0.9
    assert _answer_threshold(sure, right, removed) == 0.25  # no removed question is above it, but no lower
    sure[100:150] = 0.5  # half of the removed ones would be answered
    assert _answer_threshold(sure, right, removed) == pytest.approx(0.5, abs=1e-6)
    assert _answer_threshold(sure[:100], right[:100], removed[:100]) == 0.9  # nothing says how well it refuses
    assert _answer_threshold(sure, right, removed, 0.6) == 0.25  # half of them may be answered


def hits(*texts):
    return [Hit(n, 1.0, Passage(str(n), str(n), "", text, "", 0, len(text))) for n, text in enumerate(texts, 1)]


def test_each_question_has_the_curve_and_the_threshold_of_its_language(tmp_path):
    of_korean = FittedConfidence({"bias": 1.0, "selection": 0.5}, 0.3)
    folder = make_reader(tmp_path / "r", confidence=CURVE, threshold=0.95, groups={"ko": of_korean})
    reader = Reader(folder)
    english, korean = (answer_from(reader, text, hits("the king")) for text in ("who?", "누구?"))
    assert (english.no_answer, english.threshold) == (True, 0.95)
    assert english.guess.confidence == confidence(english.guess.features, CURVE)
    assert (korean.no_answer, korean.threshold) == (False, 0.3)
    assert korean.answers[0].confidence == confidence(korean.answers[0].features, of_korean.confidence)
    assert answer_from(reader, "누구?", hits("the king"), threshold=0.99).threshold == 0.99


@pytest.mark.parametrize(("question", "best"), [("who?", "villain"), ("누구?", "king")])
def test_reading_ends_early_by_language(tmp_path, question, best):
    of_korean = FittedConfidence(CURVE, 0.0, 0.85)
    reader = Reader(make_reader(tmp_path / "r", confidence=CURVE, groups={"ko": of_korean}))
    found = answer_from(reader, question, hits("the king", *["a film"] * 4, "the villain"))
    assert found.answers[0].text == best


def test_the_groups_are_told(tmp_path, tiny_model):
    (tmp_path / "docs").mkdir()
    for name, text in (("a", "a film with a villain"), ("b", "music for a king"), ("c", "the lord of a ring")):
        (tmp_path / "docs" / f"{name}.txt").write_text(text)
    assert mundap("index", tmp_path / "docs", "-o", tmp_path / "i", "--model", tiny_model)[0] == 0
    rows = [{"question": f"누구 {n}?", "answers": ["villain"]} for n in range(60)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    reader = make_reader(tmp_path / "r")
    given = ("train", "confidence", "-i", tmp_path / "i", "-q", tmp_path / "q.jsonl", "--reader", reader)
    code, out, err = mundap(*given, "--right", "close")
    assert code == 0, err
    assert out.startswith(f"reader: {reader}\n")
    assert "\nko:\n  confidence: {" in out
    assert "\n  answered though removed: 0.0\n" in out
