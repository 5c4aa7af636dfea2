import gzip
import json

import pytest

from mundap.datasets.runs import Faults, read_run, writing
from mundap.errors import MundapError
from mundap.records import Context, Question, Result

RESULT = Result(
    Question("7", "Who?", ("me", "나")),
    (Context("p1", "T", "it is me", 2.5, True), Context("p2", "", "not", 2.5, False)),
)


@pytest.mark.parametrize("name", ["run.json", "run.jsonl", "run.json.gz"])
def test_dpr_results_come_back_as_they_went(tmp_path, name):
    with writing(tmp_path / name) as write:
        write(RESULT)
        write(Result(Question("8", "None?"), ()))
    assert list(read_run(tmp_path / name)) == [RESULT, Result(Question("8", "None?"), ())]


def test_scores_are_strings_as_in_the_original(tmp_path):
    with writing(tmp_path / "run.json") as write:
        write(RESULT)
    row = json.loads((tmp_path / "run.json").read_text())[0]
    assert row["ctxs"][0] == {"id": "p1", "title": "T", "text": "it is me", "score": "2.5", "has_answer": True}


@pytest.mark.parametrize("indent", [None, 4])
def test_pyserinis_dialect(tmp_path, indent):
    data = {
        "0": {"question": "Who?", "answers": ["me"], "contexts": [{"docid": "12", "score": 1.5, "has_answer": True}]},
        "1": {"question": "And?", "answers": ["x"], "contexts": []},
    }
    path = tmp_path / "run.json"
    path.write_text(json.dumps(data, indent=indent))
    first, second = read_run(path)
    assert first == Result(Question("0", "Who?", ("me",)), (Context("12", score=1.5, has_answer=True),))
    assert (second.question.id, second.contexts) == ("1", ())


def test_trec_runs_come_back_in_our_order_even_with_ties(tmp_path):
    with writing(tmp_path / "run.trec", "tag") as write:
        write(RESULT)
    assert (tmp_path / "run.trec").read_text() == "7 Q0 p1 1 2.5 tag\n7 Q0 p2 2 2.49999976 tag\n"
    faults = Faults()
    (found,) = read_run(tmp_path / "run.trec", faults)
    assert [context.id for context in found.contexts] == ["p1", "p2"]
    assert faults.ties == 0


def test_ties_duplicates_disorder_and_bad_lines(tmp_path):
    path = tmp_path / "run.gz"
    lines = ["1 Q0 a 1 5.0 x", "2 Q0 a 1 1 x", "1 Q0 b 2 5.0 x", "1 Q0 a 3 7.0 x", "broken", "1 Q0 c 4 nan x", ""]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    faults = Faults()
    first, second = read_run(path, faults)
    assert [(context.id, context.score) for context in first.contexts] == [("a", 7.0), ("b", 5.0)]
    assert [context.id for context in second.contexts] == ["a"]
    assert (faults.duplicates, faults.ties) == (1, 0)
    assert [one.source.rsplit(":")[-1] for one in faults.skipped] == ["5", "6"]
    path.write_bytes(b"1 Q0 a 1 5.0 x\n1 Q0 b 2 5.0 x\n")
    faults = Faults()
    (found,) = read_run(path, faults)
    assert ([context.id for context in found.contexts], faults.ties) == (["b", "a"], 1)


def test_ms_marco_runs_have_three_columns(tmp_path):
    path = tmp_path / "run.tsv"
    path.write_text("1\td9\t1\n1\td3\t2\n")
    (found,) = read_run(path)
    assert [context.id for context in found.contexts] == ["d9", "d3"]


@pytest.mark.parametrize(
    "content, message",
    [(b"", "empty"), (b'[{"question": "q", "ctxs": [', "broken JSON after 0"), (b"no run\n", "no run in it")],
)
def test_files_that_are_no_runs(tmp_path, content, message):
    path = tmp_path / "run"
    path.write_bytes(content)
    with pytest.raises(MundapError, match=message):
        list(read_run(path))


def test_nothing_is_left_of_a_run_that_failed(tmp_path):
    with pytest.raises(ZeroDivisionError), writing(tmp_path / "run.json") as write:
        write(RESULT)
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(MundapError, match="no such folder"), writing(tmp_path / "none" / "run.json"):
        pass


def test_our_order_is_what_trec_eval_sees(tmp_path):
    """It keeps scores in 32 bits: equal ones must differ there too."""
    import pytrec_eval

    scores = [40.1, 40.1, 17.3, 17.3, 17.3, 0.0]
    contexts = tuple(Context(name, score=score) for name, score in zip("abcdef", scores, strict=True))
    with writing(tmp_path / "run.trec") as write:
        write(Result(Question("q", ""), contexts))
    with (tmp_path / "run.trec").open() as file:
        run = pytrec_eval.parse_run(file)
    for rank, context in enumerate(contexts, 1):
        found = pytrec_eval.RelevanceEvaluator({"q": {context.id: 1}}, {"recip_rank"}).evaluate(run)
        assert found["q"]["recip_rank"] == pytest.approx(1 / rank)


def test_ids_with_blanks_survive(tmp_path):
    result = Result(Question("my question", ""), (Context("my file 1.md", score=1.0), Context("50%25", score=0.5)))
    with writing(tmp_path / "run.trec") as write:
        write(result)
    (found,) = read_run(tmp_path / "run.trec")
    assert (found.question.id, [context.id for context in found.contexts]) == ("my question", ["my file 1.md", "50%25"])


def test_a_brace_in_the_first_question_is_no_dialect(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps({"question": "what is {x}?", "answers": [], "ctxs": []}) + "\n")
    (found,) = read_run(path)
    assert found.question.text == "what is {x}?"


def test_candidates_of_ms_marco_are_a_run(tmp_path):
    path = tmp_path / "top1000.dev"
    path.write_text("1\t10\twho?\tSome text.\n2\t30\twhat?\tOther.\n1\t20\twho?\tMore.\n1\t10\twho?\tSome text.\nbad\n")
    faults = Faults()
    found = {result.question.id: [one.id for one in result.contexts] for result in read_run(path, faults)}
    assert found == {"1": ["10", "20"], "2": ["30"]}
    assert faults.duplicates == 1
    assert "four columns" in faults.skipped[0].reason
