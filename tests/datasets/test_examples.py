import json

import pytest

from mundap.datasets.detect import detect
from mundap.datasets.examples import Texts, format_for, read_examples, writing
from mundap.errors import MundapError, UsageError
from mundap.mining.check import check
from mundap.records import Context, Example, Question, Skipped

EXAMPLES = [
    Example(
        Question("q1", "Who\tis it?", ("me", "나")),
        (Context("p1", "T", "it is me", 0.0),),
        (Context("h1", "", "it is not 🚁", 3.5), Context("h2", "H", "nor this", 3.25)),
        (Context("r1", "R", "a random one"),),
    ),
    Example(Question("q2", "What?", ("x",)), (Context("p2", "", "x"), Context("p1", "T", "it is me")), (Context("h1", "", "it is not 🚁", 1.0),)),
]  # fmt: skip


def written(tmp_path, form, name):
    path = tmp_path / name
    with writing(path, form) as write:
        for one in EXAMPLES:
            write(one)
    return path


@pytest.mark.parametrize("form, name", [("dpr-json", "a.json"), ("dpr-jsonl", "a.jsonl"), ("dpr-jsonl", "a.jsonl.gz")])
def test_dpr_files_keep_everything(tmp_path, form, name):
    path = written(tmp_path, form, name)
    assert detect(path).examples == form == format_for(path)
    assert list(read_examples(path)) == EXAMPLES


def test_the_fields_of_dpr(tmp_path):
    row = json.loads(written(tmp_path, "dpr-json", "a.json").read_text())[0]
    assert list(row) == ["id", "question", "answers", "positive_ctxs", "negative_ctxs", "hard_negative_ctxs"]
    assert row["hard_negative_ctxs"][0] == {
        "title": "", "text": "it is not 🚁", "score": 3.5, "title_score": 0, "passage_id": "h1",
    }  # fmt: skip


def shape(examples, scores=False):
    return [
        (
            one.question.text,
            one.question.answers,
            [(c.id, c.title, c.text) for c in one.positives],
            {(c.id, c.title, c.text) for c in one.hard + one.negatives},
        )
        for one in examples
    ]


@pytest.mark.parametrize("form, name", [("tevatron", "t.jsonl"), ("beir", "folder")])
def test_tevatron_and_beir_keep_all_but_scores(tmp_path, form, name):
    path = written(tmp_path, form, name)
    assert detect(path).examples == form
    assert shape(read_examples(path)) == shape(EXAMPLES)


def test_triples(tmp_path):
    path = written(tmp_path, "triples", "t.tsv")
    assert detect(path).examples == "triples"
    assert path.read_text().splitlines()[0] == "Who is it?\tT it is me\tit is not 🚁"
    first, second = read_examples(path)
    assert [one.text for one in first.hard] == ["it is not 🚁", "H nor this", "R a random one"]
    assert second.positives[0].text == "x"


def test_two_texts_under_one_id_are_kept_apart_in_beir(tmp_path):
    path = tmp_path / "b"
    with writing(path, "beir") as write:
        write(Example(Question("1", "a"), (Context("p", "", "one"),), (Context("p", "", "two"),)))
    (found,) = read_examples(path)
    assert (found.positives[0].text, found.hard[0].text) == ("one", "two")
    with pytest.raises(MundapError, match="already exists"), writing(path, "beir"):
        pass


def test_names_that_say_nothing():
    with pytest.raises(UsageError, match="Say which of"):
        format_for("out")


BAD = [
    '{"question": "no positive", "answers": ["a"], "positive_ctxs": []}',
    '{"question": "", "answers": ["a"], "positive_ctxs": [{"text": "a"}]}',
    "{broken",
    '{"question": "fine", "answers": ["a"], "positive_ctxs": [{"text": "a"}], "hard_negative_ctxs": [{"text": "b"}]}',
    '{"question": "fine", "answers": ["", "a"], "positive_ctxs": [{"text": "b"}], "negative_ctxs": [{"text": "b"}, {"title": "no text"}]}',
    '{"question": "other", "answers": ["Sept?(ember)?"], "positive_ctxs": [{"text": "b"}], "hard_negative_ctxs": 5}',
]


def test_a_check_names_every_row_and_what_is_wrong_with_it(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text("\n".join(BAD))
    found = check(path)
    assert (found.rows, found.usable) == (6, 3)
    assert [(one.source.rsplit(":")[-1], one.reason.split(" (")[0]) for one in found.errors] == [
        ("1", "no positive passage with a text"),
        ("2", "empty question"),
        ("3", "not JSON"),
    ]
    warned = {(one.source.rsplit(":")[-1], one.reason.split(" (")[0]) for one in found.warnings}
    assert warned == {
        ("5", "an empty answer"),
        ("5", "`negative_ctxs`: a passage without a text"),
        ("5", "the same question as in an earlier row"),
        ("5", "a positive is among the negatives"),
        ("5", "the first positive does not contain an answer"),
        ("6", "`hard_negative_ctxs` is not a list"),
        ("6", "an answer looks like a regular expression: match answers as such"),
        ("6", "no negatives"),
        ("6", "the first positive does not contain an answer"),
    }
    broken = tmp_path / "broken.jsonl"
    broken.write_text(json.dumps({"question": "q", "answers": ["(a"], "positive_ctxs": [{"text": "a"}]}))
    assert "not a regular expression" in check(broken, match="regex").warnings[0].reason


def test_a_truncated_array_is_an_error_and_its_beginning_is_counted(tmp_path):
    path = written(tmp_path, "dpr-json", "a.json")
    path.write_bytes(path.read_bytes()[:-40])
    found = check(path)
    assert (found.rows, found.usable) == (1, 1)
    assert "broken JSON after 1 records" in found.errors[0].reason
    with pytest.raises(MundapError, match="broken JSON"):
        list(read_examples(path))


def test_bad_triples_and_beir(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("q\tp\n1\t2\t3\nq\tp\tn\n")
    found = list(read_examples(path, "triples"))
    assert [type(one) for one in found] == [Skipped, Skipped, Example]
    folder = written(tmp_path, "beir", "b")
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tgone\t1\nq9\tp1\t1\n")
    reasons = [one.reason for one in read_examples(folder)]
    assert reasons == [
        "question q1 has no positive passage in the corpus",
        "question q9 is judged, but missing from the queries",
    ]
    with pytest.raises(MundapError, match="corpus.jsonl"):
        (folder / "corpus.jsonl").unlink()
        list(read_examples(folder))


def test_triples_of_ids_are_looked_up(tmp_path):
    path = tmp_path / "qidpidtriples.tsv"
    path.write_text("1\t10\t20\n1\t10\t30\n2\t10\t20\n9\t10\t20\n1\t99\t20\n")
    passages = {name: Context(name, text=f"text {name}") for name in ("10", "20")}
    texts = Texts({"1": Question("1", "who?"), "2": Question("2", "what?")}, passages.get)
    found = list(read_examples(path, texts=texts))
    assert found[0] == Example(Question("1", "who?"), (passages["10"],), (passages["20"],))
    assert found[1].question.text == "what?"
    assert [one.reason for one in found[2:]] == [
        "question 9 is not among the queries",
        "passage 99 is not in the index",
    ]
    assert found[3].source.endswith(":5")
    with pytest.raises(UsageError, match="give the file of the queries"):
        list(read_examples(path))
