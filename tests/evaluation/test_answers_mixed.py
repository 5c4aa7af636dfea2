"""Files with questions of several kinds: each is judged by its own rule, and what was not read has no confidence."""

import json

import numpy as np
import pytest

from mundap.datasets.queries import match_of
from mundap.errors import UsageError
from mundap.evaluation import calibration
from mundap.evaluation.answers import AnswersTask, measure
from mundap.evaluation.confidence import fit
from mundap.models.folder import ReaderConfig
from mundap.records import Question
from tests.conftest import make_reader
from tests.program import mundap

VILLAIN = {"id": "1", "title": "", "text": "a film with a villain", "score": "2"}
LORD = {"id": "2", "title": "", "text": "the lord of a ring", "score": "1"}


def run_file(path, asked, contexts=(VILLAIN, LORD)):
    rows = [{"question": text, "answers": ["villain"], "ctxs": list(contexts)} for text in asked]
    path.write_text(json.dumps(rows))
    return str(path)


@pytest.mark.parametrize("others", [["악당은 누구?", "왕은 누구?", "누구?"], []])
def test_questions_that_were_not_read_say_nothing_of_confidence(tmp_path, others):
    """They are wrong, but nobody was sure of anything: the figures are those of the questions that were read."""
    reader = str(make_reader(tmp_path / "r", scripts="latin"))
    path = run_file(tmp_path / "run.json", [f"who {n}?" for n in range(4)] + others)
    found = measure(AnswersTask(path, run=path, reader=reader, removed=True)).as_dict()
    assert found["exact_match"] == pytest.approx(400 / (4 + len(others)), abs=0.005)
    sure = found["confidence"]
    assert (sure["questions_read"], sure["questions_asked_again"]) == (4, 4)
    assert sure["auroc_against_removed"] == 1.0
    assert (sure["answered"], sure["coverage_at_90_precision"]) == (100.0, 100.0)
    assert sure["coverage_at_90_precision_with_removed"] == 50.0


def test_both_sides_of_removed_are_the_same_questions(tmp_path):
    """A question without any other document is read, but cannot be asked again."""
    rows = [{"question": "who?", "answers": ["villain"], "ctxs": [VILLAIN, LORD]}]
    rows += [{"question": f"who {n}?", "answers": ["lord"], "ctxs": [LORD]} for n in range(3)]
    rows += [{"question": "where?", "answers": ["villain"], "ctxs": []}]
    (tmp_path / "run.json").write_text(json.dumps(rows))
    path = str(tmp_path / "run.json")
    found = measure(AnswersTask(path, run=path, reader=str(make_reader(tmp_path / "r")), removed=True))
    sure = found.as_dict()["confidence"]
    assert (sure["questions_read"], sure["questions_asked_again"]) == (4, 1)
    # The lords are as sure as the one that is left of the villain: beside him they would make it .625.
    assert sure["auroc_against_removed"] == 1.0
    first = found.outcomes[0]
    pair = np.array([first.confidence, first.without.confidence])
    assert sure["ece_with_removed"] == round(calibration.expected_error(pair, np.array([1.0, 0.0])), 4)
    assert found.notes == ["1 questions have no passage to read: they count as wrong"]


def test_a_confidence_is_fitted_on_what_was_read(tmp_path):
    kept = []
    for name, others in (("one", []), ("two", [f"누구 {n}?" for n in range(40)])):
        reader = make_reader(tmp_path / name, scripts="latin")
        path = run_file(tmp_path / f"{name}.json", [f"who {n}?" for n in range(30)] + others)
        assert fit(AnswersTask(path, run=path, reader=str(reader)))["cases"] == 60
        kept.append(ReaderConfig.load(reader))
    assert (kept[0].confidence, kept[0].threshold) == (kept[1].confidence, kept[1].threshold)


def test_each_question_is_judged_by_its_own_rule(tmp_path):
    rows = [
        {"id": "en", "question": "Which river is it?", "answers": ["Nile"]},
        {"id": "ko", "question": "어느 도시?", "answers": ["서울특별시"]},
        {"id": "ja", "question": "何年ですか", "answers": ["1988"]},
    ]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "preds.json").write_text(json.dumps({"en": "the Nile", "ko": "서울시", "ja": "1988年"}))
    given = ("evaluate", "answers", "-q", tmp_path / "q.jsonl", "--predictions", tmp_path / "preds.json")
    found = measure(AnswersTask(str(tmp_path / "q.jsonl"), predictions=str(tmp_path / "preds.json")))
    assert [(row.em, round(row.f1, 2)) for row in found.outcomes] == [(1.0, 1.0), (0.0, 0.75), (0.0, 0.89)]
    facts = found.as_dict()
    assert (facts["match"], facts["questions_by_match"]) == ("auto", {"cjk": 2, "string": 1})
    code, out, err = mundap(*given)
    assert code == 0, err
    assert out.startswith("3 questions, match: cjk 2, string 1\n")
    code, out, _ = mundap(*given, "--match", "cjk")
    assert out.startswith("3 questions, match: cjk\n")


def test_patterns_are_for_the_whole_file_to_say():
    asked = Question("1", "Which play?", (r"Who's Afraid of (Virginia|Woolf)\?",))
    assert match_of(asked, "string") == "string"
    assert match_of(asked, "regex") == "regex"
    assert match_of(Question("2", "What does 서울 mean?", ("capital",)), "cjk") == "string"


def test_gold_goes_with_no_other_source(tmp_path, tiny_reader):
    path = run_file(tmp_path / "run.json", ["who?"])
    for other in (["-i", tmp_path], ["--run", path], ["--predictions", path]):
        code, _, err = mundap("evaluate", "answers", "-q", path, "--gold", *other)
        assert code == 2
        assert "leave out -i, --run and --predictions" in err
    code, _, err = mundap("evaluate", "answers", "-q", path, "--gold", "--removed", "--reader", tiny_reader)
    assert code == 2
    assert "gold passages stand alone" in err
    with pytest.raises(UsageError, match="gold passages stand alone"):
        AnswersTask(path, removed=True)


def test_what_was_skipped_is_in_the_json(tmp_path):
    rows = ['{"question": "who?", "answers": ["king"]}'] + ['{"question": "", "answers": ["x"]}'] * 25
    (tmp_path / "q.jsonl").write_text("\n".join(rows))
    (tmp_path / "preds.json").write_text('{"0": "king"}')
    given = ("evaluate", "answers", "-q", tmp_path / "q.jsonl", "--predictions", tmp_path / "preds.json")
    code, _, err = mundap(*given)
    assert code == 3
    assert "5 more. Use --json to see them" in err
    code, out, _ = mundap(*given, "--json")
    facts = json.loads(out)
    assert (code, facts["skipped_count"], len(facts["skipped"])) == (3, 25, 25)
    assert facts["skipped"][0]["source"].endswith("q.jsonl:2")
