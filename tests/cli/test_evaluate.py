"""Training data and evaluation as a user runs them: the example questions, the shipped model."""

import json

import pytest

from tests.conftest import EXAMPLES
from tests.program import mundap, program
from tests.systems import not_windows

QUESTIONS = EXAMPLES / "questions.jsonl"


def found(*arguments, code=0):
    done, out, err = mundap(*arguments, "--json")
    assert done == code, err
    return json.loads(out)


@pytest.fixture(scope="module")
def example(example_index):
    return example_index.path


def test_data_from_questions_to_checked_examples(example, tmp_path):
    train = tmp_path / "train.jsonl"
    report = found("data", "make", "-i", example, "--questions", QUESTIONS, "-o", train, "--bm25", 5, "--random", 2)
    assert report["questions"] == 329
    assert report["kept"] + sum(report["dropped"].values()) == 329
    assert report["kept"] > 320
    assert report["from_gold"] == report["kept"]
    checked = found("data", "check", train, "--match", "cjk")
    assert (checked["ok"], checked["rows"], checked["usable"]) == (True, report["kept"], report["kept"])
    assert checked["warning_counts"] == {}
    again = tmp_path / "again.jsonl"
    found("data", "make", "-i", example, "--questions", QUESTIONS, "-o", again, "--bm25", 5, "--random", 2)
    assert again.read_bytes() == train.read_bytes()
    for form, name in (("tevatron", "t.jsonl"), ("beir", "b"), ("triples", "t.tsv"), ("dpr-json", "d.json")):
        done = found("data", "convert", train, "-o", tmp_path / name, "--to", form)
        assert done["examples"] == report["kept"]
        assert found("data", "check", tmp_path / name)["usable"] == report["kept"]
    code, out, _ = mundap(
        "data", "make", "-i", example, "-q", train, "-o", tmp_path / "x.jsonl", "--dense", 3, "--bm25", 0
    )
    assert code == 0
    assert "of 3" in out


def test_distant_supervision_and_what_was_dropped(example, tmp_path):
    rows = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines() if '"language": "en"' in line][:30]
    for row in rows:
        del row["gold"]
    rows += [{"question": "Who is nowhere?", "answers": ["Zzyzx"]}, {"question": "", "answers": ["x"]}]
    asked = tmp_path / "asked.jsonl"
    asked.write_text("\n".join(map(json.dumps, rows)))
    out = tmp_path / "train.json"
    report = found("data", "make", "-i", example, "-q", asked, "-o", out, "--dropped", tmp_path / "d", code=3)
    assert report["from_search"] == report["kept"] >= 20
    assert report["skipped"][0]["source"] == f"{asked}:32"
    dropped = [json.loads(line) for line in (tmp_path / "d").read_text().splitlines()]
    assert len(dropped) == 31 - report["kept"]
    assert dropped[-1]["question"] == "Who is nowhere?"


def test_accuracy_of_each_mode_runs_comparison_and_report(example, tmp_path):
    one = found("evaluate", "retrieval", "-i", example, "--questions", QUESTIONS, "--mode", "bm25", "-k", 1, 5, 20)
    assert one["questions"] == 329
    assert list(one["accuracy"]) == ["1", "5", "20"]
    assert 50 < one["accuracy"]["1"] < one["accuracy"]["5"] < one["accuracy"]["20"] < 100
    assert one["match"] == "cjk"
    assert one["gold"]["questions"] + one["gold_not_in_pool"] == 329
    run = tmp_path / "run.json"
    three = found(
        "evaluate", "retrieval", "-i", example, "-q", QUESTIONS, "--mode", "bm25", "dense", "hybrid", "-k", "1,5,20",
        "-o", run, "--report", tmp_path / "page",
    )  # fmt: skip
    assert three["modes"]["bm25"] == {key: one[key] for key in three["modes"]["bm25"]}
    assert three["modes"]["hybrid"]["accuracy"]["1"] > three["modes"]["bm25"]["accuracy"]["1"]
    assert three["against_bm25"]["hybrid"]["top-1"]["p"] < 0.05
    assert "Only dense answers" in (tmp_path / "page" / "index.html").read_text("utf-8")
    # The runs say the same as the index did, without it.
    runs = tmp_path / "run.bm25.json", tmp_path / "run.dense.json"
    judged = found("evaluate", "retrieval", "--run", runs[0], "-k", 1, 5, 20, "--match", "cjk")
    assert judged["accuracy"] == one["accuracy"]
    assert "has_answer_disagreements" not in judged
    both = found("compare", *runs, "-k", 1, 5, 20, "--at", 5, "--match", "cjk")
    assert both["systems"] == ["run.bm25", "run.dense"]
    assert both["both"] + both["only_first"] + both["only_second"] + both["neither"] == 329
    assert len(both["changed"]) == both["only_first"] + both["only_second"]
    assert both["word_overlap"]["run.bm25"] > both["word_overlap"]["run.dense"], "BM25 finds words, dense meaning"
    code, out, _ = mundap("compare", *runs, "--at", 5, "--match", "cjk")
    assert code == 0
    assert "Only run.dense" in out
    # Candidates: what the other mode found, in this mode's order; nothing else can be found.
    reranked = found(
        "evaluate", "retrieval", "-i", example, "-q", QUESTIONS, "--candidates", runs[0], "--mode", "dense", "-k", 1, 20
    )
    assert reranked["accuracy"]["20"] <= one["accuracy"]["20"]


def test_beir_folders_and_anyones_trec_run(example, tmp_path):
    rows = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    (folder / "queries.jsonl").write_text("\n".join(json.dumps({"_id": r["id"], "text": r["question"]}) for r in rows))
    lines = ["query-id\tcorpus-id\tscore", *(f"{r['id']}\t{r['gold']}\t1" for r in rows), "stranger\tgone.md\t1"]
    (folder / "qrels" / "test.tsv").write_text("\n".join(lines))
    run = tmp_path / "run.trec"
    direct = found("evaluate", "retrieval", "-i", example, "--beir", folder, "--mode", "bm25", "-o", run)
    assert direct["questions"] == 330
    assert 0.5 < direct["mrr@10"] < direct["ndcg@10"] < direct["recall@100"] < 1
    assert 0 < direct["map"] < 1
    assert direct["notes"][:2] == [
        "1 judged questions are not among the questions: they count as 0",
        "1 of 151 relevant ids are not in the index",
    ]
    by_run = found("evaluate", "retrieval", "--run", run, "--qrels", folder / "qrels" / "test.tsv")
    for name in ("ndcg@10", "mrr@10", "recall@100", "map"):
        assert by_run[name] == direct[name]
    # and as trec_eval sees the file we wrote
    import pytrec_eval

    qrels = {r["id"]: {r["gold"]: 1} for r in rows}
    with run.open() as file:
        theirs = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10", "map"}).evaluate(pytrec_eval.parse_run(file))
    assert sum(v["ndcg_cut_10"] for v in theirs.values()) / 330 == pytest.approx(direct["ndcg@10"], abs=1e-5)
    # MS MARCO's form of the same
    (tmp_path / "queries.tsv").write_text("\n".join(f"{r['id']}\t{r['question']}" for r in rows))
    (tmp_path / "qrels.txt").write_text("\n".join(f"{r['id']} 0 {r['gold']} 1" for r in rows))
    marco = found(
        "evaluate",
        "retrieval",
        "-i",
        example,
        "-q",
        tmp_path / "queries.tsv",
        "--qrels",
        tmp_path / "qrels.txt",
        "--mode",
        "bm25",
    )
    assert marco["ndcg@10"] == pytest.approx(direct["ndcg@10"] * 330 / 329, abs=1e-5)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["evaluate", "retrieval"], "nothing to evaluate"),
        (["evaluate", "retrieval", "--beir", "b", "-q", "x"], "a BEIR folder has queries"),
        (["evaluate", "retrieval", "--run", "r", "--mode", "bm25"], "runs hold what was found before"),
        (["evaluate", "retrieval", "--run", "r", "--rerank"], "runs hold what was found before"),
        (["evaluate", "retrieval", "--run", "r", "-k"], "requires an argument"),
        (["data", "make", "-q", "x", "-o", "out"], "cannot tell the format"),
        (["data", "make", "-q", "x.json", "-o", "x.json"], "one of the files to read"),
    ],
)
def test_wrong_usage_is_explained(arguments, message, tmp_path):
    code, out, err = mundap(*arguments, cwd=tmp_path)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["data", "check", "none.json"], "no such file"),
        (["compare", "none", "none2"], "no such file"),
        (["evaluate", "retrieval", "--beir", "."], "no queries.jsonl"),
        (["evaluate", "retrieval", "--run", "run", "--qrels", "empty"], "no judgements"),
        (["compare", "run", "run"], "has no relevance judgements"),
    ],
)
def test_missing_and_empty_files(arguments, message, tmp_path):
    (tmp_path / "run").write_text("1 Q0 d 1 1.0 x\n")
    (tmp_path / "empty").write_text("")
    code, out, err = mundap(*arguments, cwd=tmp_path)
    assert code in (1, 2)
    assert message in err


def test_nothing_is_overwritten_that_is_read(example, tmp_path):
    asked = tmp_path / "q.tsv"
    asked.write_text("who?\t['me']\n")
    for arguments in (
        ["evaluate", "retrieval", "-i", example, "-q", asked, "-o", asked],
        ["data", "make", "-i", example, "-q", asked, "-o", tmp_path / "t.jsonl", "--dropped", asked],
        ["data", "convert", asked, "-o", asked, "--to", "triples"],
    ):
        code, _, err = mundap(*arguments)
        assert (code, asked.read_text()) == (2, "who?\t['me']\n"), err
    # nor is a good file replaced by an empty one, nor anybody's file with a name like a temporary one
    asked.write_text("who is nowhere?\t['Zzyzx']\n")
    good = tmp_path / "t.jsonl"
    good.write_text("old")
    (tmp_path / "t.jsonl.tmp").write_text("mine")
    code, _, err = mundap("data", "make", "-i", example, "-q", asked, "-o", good)
    assert code == 1
    assert "no example" in err
    assert (good.read_text(), (tmp_path / "t.jsonl.tmp").read_text()) == ("old", "mine")


def test_compare_matches_questions_by_their_text(tmp_path):
    rows = [{"question": f"q{n}", "answers": ["x"], "ctxs": [{"id": "1", "title": "", "text": "x"}]} for n in range(3)]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    (tmp_path / "b.json").write_text(json.dumps(rows[:0:-1]))
    both = found("compare", "-k", 1, 5, tmp_path / "a.json", tmp_path / "b.json")
    assert both["questions"] == 3
    assert both["figures"]["top-1"]["first"] == 100
    assert both["figures"]["top-1"]["second"] == pytest.approx(66.6667)


def test_a_limit_limits_what_is_judged(tmp_path):
    (tmp_path / "qrels").write_text("".join(f"q{n} 0 d 1\n" for n in range(40)))
    (tmp_path / "run").write_text("".join(f"q{n} Q0 d 1 1.0 x\n" for n in range(40)))
    few = found("evaluate", "retrieval", "--run", tmp_path / "run", "--qrels", tmp_path / "qrels", "--limit", 4)
    assert (few["questions"], few["ndcg@10"]) == (4, 1.0)


def test_what_was_dropped_is_written_when_all_are(example, tmp_path):
    out, dropped = tmp_path / "train.jsonl", tmp_path / "dropped.jsonl"
    lines = b'{"question": "Who is nowhere?", "answers": ["Zzyzx"]}'
    code, _, err = mundap("data", "make", "-i", example, "-q", "-", "-o", out, "--dropped", dropped, stdin=lines)
    assert (code, out.exists()) == (1, False)
    assert "no example could be made of 1 question: no passage with the answer" in err
    assert json.loads(dropped.read_text())["question"] == "Who is nowhere?"


@not_windows
def test_questions_from_a_pipe(example, tmp_path):
    rows = QUESTIONS.read_text("utf-8").splitlines()[:3]
    lines = "\n".join(rows).encode()
    code, out, err = program("data", "make", "-i", example, "-q", "/dev/stdin", "-o", tmp_path / "a.jsonl", stdin=lines)
    assert code == 0, err
    assert "3 examples of 3 questions" in out
    code, out, err = mundap("evaluate", "retrieval", "-i", example, "-q", "-", "--mode", "bm25", "--json", stdin=lines)
    assert (code, json.loads(out)["questions"]) == (0, 3)


def test_ms_marco_from_queries_qrels_and_triples_of_ids(example, tmp_path):
    (tmp_path / "queries.tsv").write_text("7\thow high is the top of kilimanjaro\n8\twho was sala baker\n")
    (tmp_path / "qrels.tsv").write_text("7 0 en/kilimanjaro.md 1\n8\t0\ten/sala-baker.md\t1\n")
    train = tmp_path / "train.jsonl"
    report = found(
        "data", "make", "-i", example, "-q", tmp_path / "queries.tsv", "--qrels", tmp_path / "qrels.tsv", "-o", train,
        "--bm25", 2,
    )  # fmt: skip
    assert (report["kept"], report["from_gold"], report["without_answers"]) == (2, 2, 2)
    first, second = (json.loads(line) for line in train.read_text("utf-8").splitlines())
    assert first["positive_ctxs"][0]["title"] == "Kilimanjaro"
    ids = [one["positive_ctxs"][0]["passage_id"] for one in (first, second)]
    (tmp_path / "ids.tsv").write_text(f"7\t1\t2\n7\t{ids[0]}\t{ids[1]}\n")
    arguments = ("data", "convert", tmp_path / "ids.tsv", "--from", "triple-ids", "-o", tmp_path / "converted.jsonl")
    assert "give the file of the queries" in mundap(*arguments)[2]
    done = found(*arguments, "-q", tmp_path / "queries.tsv", "-i", example, code=3)
    assert (done["examples"], done["skipped_count"]) == (1, 1)
    converted = json.loads((tmp_path / "converted.jsonl").read_text("utf-8"))
    assert converted["question"] == "how high is the top of kilimanjaro"
    assert converted["hard_negative_ctxs"][0]["title"] == "Sala Baker"


def test_unanswerable_questions_are_counted_by_themselves(example, tmp_path):
    rows = [
        {"id": "a", "question": "How high is the top of Kilimanjaro?", "answers": ["5,895 metres"]},
        {"id": "b", "question": "How high is the tower of Zzyzx?", "answers": []},
        {"id": "c", "question": "How high is Kilimanjaro on Mars?", "answers": ["none"], "is_impossible": True},
    ]
    data, predictions = tmp_path / "data.jsonl", tmp_path / "predictions.json"
    data.write_text("\n".join(map(json.dumps, rows)))
    predictions.write_text(json.dumps({"a": "5,895 metres", "b": "", "c": "12 feet"}))
    facts = found("evaluate", "answers", "-q", data, "--predictions", predictions)
    assert (facts["questions"], facts["exact_match"]) == (1, 100)
    assert facts["unanswerable"] == {
        "questions": 2,
        "answered_though_unanswerable": 50.0,
        "squad2_exact_match": 66.67,
        "squad2_f1": 66.67,
    }
    out = tmp_path / "out.json"
    code, text, err = mundap("evaluate", "answers", "-i", example, "-q", data, "--fusion", "linear", "-o", out)
    assert code == 0, err
    assert "2 questions without an answer:" in text
    assert set(json.loads(out.read_text())) == {"a", "b", "c"}


def test_a_table_with_unknown_columns_is_an_error_and_not_zero_percent(example, tmp_path):
    path = tmp_path / "asked.tsv"
    path.write_text("7\tHow high is the top of Kilimanjaro?\t5,895 metres\n")
    code, out, err = mundap("evaluate", "answers", "-i", example, "-q", path)
    assert (code, out) == (1, "")
    assert "3 columns: expected two" in err
    path.write_text("question\tgold\nHow high is the top of Kilimanjaro?\t5,895 metres\n")
    assert "none of them is called answers" in mundap("evaluate", "retrieval", "-i", example, "-q", path)[2]


def test_the_fusion_of_the_papers_for_answers(example):
    asked = ("ask", "-i", example, "--json", "How high is the top of Kilimanjaro?")
    _, plain, _ = mundap(*asked)
    code, linear, err = mundap(*asked, "--fusion", "linear", "--lambda", "2")
    assert code == 0, err
    scores = [json.loads(one)["answers"][0]["retrieval"] for one in (plain, linear)]
    assert scores[0] != scores[1], "BM25 + 2 sim is no mean of z-scores"
