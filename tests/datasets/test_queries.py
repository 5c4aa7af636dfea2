import gzip
import json
import time

import pytest

from mundap.datasets.beir import read_qrels
from mundap.datasets.detect import _has_rows
from mundap.datasets.queries import choose_match, read, read_all
from mundap.errors import MundapError
from mundap.records import Context, Question, Skipped


def put(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def plain(path, form=None):
    questions, skipped = read_all(path, form)
    assert not skipped
    return [(question.text, question.answers) for question in questions]


SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "Super_Bowl",
            "paragraphs": [
                {
                    "context": "The Broncos won in 2016.",
                    "qas": [
                        {
                            "id": "a",
                            "question": "Who won?",
                            "answers": [
                                {"text": "Broncos", "answer_start": 4},
                                {"text": "The Broncos", "answer_start": 0},
                            ],
                        },
                        {"id": "b", "question": "Who lost?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ],
}


def test_dpr_csv_with_quotes_inside(tmp_path):
    text = (
        'who sings\t[\'Linda Davis\']\nwhat gap\t"[\'Jamie""s ""gap""\', ""it\'s""]"\n'
        "one plain\tParis\nbracket\t[sic] that\ntuple\t('a', 'b')\nnumber\t[1963]\n"
    )
    assert plain(put(tmp_path, "nq.csv", text)) == [
        ("who sings", ("Linda Davis",)),
        ("what gap", ('Jamie"s "gap"', "it's")),
        ("one plain", ("Paris",)),
        ("bracket", ("[sic] that",)),
        ("tuple", ("a", "b")),
        ("number", ("1963",)),
    ]


def test_answers_are_literals_and_never_run(tmp_path):
    path = put(tmp_path, "evil.csv", "q\t[__import__('os').system('touch /tmp/evil')]\nr\t['a'\n")
    (question, bad) = list(read(path))
    assert question.answers == ("[__import__('os').system('touch /tmp/evil')]",)
    assert bad == Skipped(f"{path}:2", "a broken list of answers")


def test_json_lines_under_all_their_names(tmp_path):
    rows = [
        {"question": "nq open", "answer": ["a", "b"]},
        {"question": "one", "answers": "x", "id": 7},
        {"question": "hf squad", "answers": {"text": ["x"], "answer_start": [2]}, "context": "a x", "title": "T"},
        {"question": "hf trivia", "question_id": "t1", "answer": {"value": "V", "aliases": ["W", "V"]}},
        {"qText": "wq", "answers": ["Padmé"], "qId": "wqr1"},
        {"query": "tevatron", "query_id": "q", "positive_passages": [{"docid": "d", "title": "", "text": "t"}]},
        {"question": "ours", "answers": ["x"], "gold": "doc.md"},
    ]
    path = put(tmp_path, "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    questions, skipped = read_all(path)
    assert not skipped
    assert [q.answers for q in questions] == [("a", "b"), ("x",), ("x",), ("V", "W"), ("Padmé",), (), ("x",)]
    assert [q.id for q in questions] == ["0", "7", "2", "t1", "wqr1", "q", "6"]
    assert (questions[2].gold, questions[2].start) == ((Context(title="T", text="a x"),), 2)
    assert questions[5].gold[0].id == "d"
    assert questions[6].gold == (Context(id="doc.md"),)


def test_squad_korquad_and_tydi(tmp_path):
    for name, data in (("a.json", json.dumps(SQUAD)), ("b.json", json.dumps(SQUAD, indent=1))):
        questions, skipped = read_all(put(tmp_path, name, data))
        gold = (Context(title="Super Bowl", text="The Broncos won in 2016."),)
        assert questions == [Question("a", "Who won?", ("Broncos", "The Broncos"), gold, 4)]
        assert [one.reason for one in skipped] == ["marked as unanswerable"]


@pytest.mark.parametrize(
    "first",
    [
        {"creator": 'AI Hub, "MRC"', "version": 1},
        {"version": None, "a": True, "b": -1.5e3, "data": "of 2018", "note": "{[,:]}\\n"},
        {"version": "x" * 100},
    ],
)
@pytest.mark.parametrize("blank", [(",", ":"), (", ", ": ")])
def test_squad_on_one_line_with_other_members_first(tmp_path, first, blank):
    for end in ("", "\n"):
        text = json.dumps(first, separators=blank)[:-1] + blank[0] + json.dumps({"data": SQUAD["data"]})[1:]
        questions, _ = read_all(put(tmp_path, "ai.json", text + end))
        assert [question.id for question in questions] == ["a"]


@pytest.mark.parametrize("part", [b'"a":1,', b'"', b"\\", b'"a":"\\"', b'"data" : ', b" ", b'"a":', b"1", b'"",'])
def test_a_long_line_of_anything_is_told_at_once(part):
    started = time.process_time()
    assert _has_rows(b"{" + part * (10_000_000 // len(part)))
    assert time.process_time() - started < 5


def test_questions_of_squad_without_ids_have_their_positions(tmp_path):
    def article(*names):
        qas = [{"question": f"who {name}?", "answers": ["a"], **({"id": name} if name else {})} for name in names]
        return {"title": "T", "paragraphs": [{"context": "c", "qas": [one]} for one in qas]}

    data = {"data": [article("", None, "x"), {"title": "none", "paragraphs": []}, article("", "")]}
    questions, skipped = read_all(put(tmp_path, "a.json", json.dumps(data)))
    assert [question.id for question in questions] == ["0", "1", "x", "3", "4"]
    assert skipped == []


def test_triviaqa_and_webquestions(tmp_path):
    trivia = {"Data": [{"Question": "Star sign?", "QuestionId": "t", "Answer": {"Value": "S", "Aliases": ["Z"]}}]}
    assert plain(put(tmp_path, "t.json", json.dumps(trivia))) == [("Star sign?", ("S", "Z"))]
    web = [{"utterance": "brother?", "targetValue": '(list (description "Jazmyn \\"J\\" B") (description Jaxon))'}]
    assert plain(put(tmp_path, "w.json", json.dumps(web))) == [("brother?", ('Jazmyn \\"J\\" B', "Jaxon"))]


def test_wikimovies_and_curated_trec(tmp_path):
    movies = put(tmp_path, "wiki.txt", "1 what is about rosa?\tGinger & Rosa, Two\n1 who?\tSally Potter\n")
    assert plain(movies) == [
        ("what is about rosa?", ("Ginger & Rosa", "Two", "Ginger & Rosa, Two")),
        ("who?", ("Sally Potter",)),
    ]
    trec = put(tmp_path, "trec.tsv", "1756\tfactoid\tWhen is it?\tSept?(ember)?|Feb\n")
    assert plain(trec) == [("When is it?", ("Sept?(ember)?|Feb",))]
    assert (choose_match(trec), choose_match(movies)) == ("regex", "string")


def test_dpr_training_file_has_its_positives_as_gold(tmp_path):
    row = {"question": "q", "answers": ["a"], "positive_ctxs": [{"title": "T", "text": "a b", "passage_id": "12"}]}
    for name, text in (("x.json", json.dumps([row], indent=2)), ("x.jsonl", json.dumps(row))):
        questions, _ = read_all(put(tmp_path, name, text))
        assert questions[0].gold == (Context("12", "T", "a b"),)


def test_bad_rows_are_named_and_the_rest_is_kept(tmp_path):
    rows = [
        b'{"question": "good", "answers": ["a", " "]}',
        b"{broken",
        b'{"answers": ["no question"]}',
        b'{"question": "  ", "answers": ["a"]}',
        b"\xff\xfe",
        b"[1]",
        b'{"question": "\\ud800", "answers": ["a"]}',
    ]
    path = put(tmp_path, "a.jsonl", b"\n".join(rows))
    found = list(read(path, "jsonl"))
    assert [one.source.rsplit(":")[-1] for one in found if isinstance(one, Skipped)] == ["1", "2", "3", "4", "5", "6"]
    assert [one.text for one in found if isinstance(one, Question)] == ["good", "?"]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("half.json", json.dumps(SQUAD)[:-2].encode(), "broken JSON after 1 records"),
        ("half.json.gz", gzip.compress(json.dumps(SQUAD).encode() * 99)[:-20], "corrupt or truncated"),
        ("empty.jsonl", b"", "no question in it"),
        ("text.txt", b"just some words\n", "no question in it"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, name, content, message):
    with pytest.raises(MundapError, match=message):
        read_all(put(tmp_path, name, content))


def test_no_such_file(tmp_path):
    with pytest.raises(MundapError, match="no such file"):
        read_all(tmp_path / "none")
    with pytest.raises(MundapError, match="folder"):
        read_all(tmp_path)


def test_korean_answers_are_matched_without_spaces(tmp_path):
    path = put(tmp_path, "ko.csv", "수도는?\t['서울']\n언제?\t['1945']\n")
    assert choose_match(path) == "cjk"


def test_qrels_of_three_kinds(tmp_path):
    wanted = {"q1": {"d1": 2, "d2": 0}, "q2": {"d 3": 1}}
    beir = put(tmp_path, "b.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\nq2\td 3\t1\n")
    marco = put(tmp_path, "m.tsv", "q1\t0\td1\t2\nq1\t0\td2\t0\nq2\t0\td 3\t1\n")
    assert read_qrels(beir)[0] == read_qrels(marco)[0] == wanted
    headless = put(tmp_path, "h.tsv", "covid-1\td1\t2\ncovid-1\td2\t0\n")
    assert read_qrels(headless)[0] == {"covid-1": {"d1": 2, "d2": 0}}
    trec, skipped = read_qrels(put(tmp_path, "t.txt", "q1 0 d1 2\nq1 0 d1 1\nq2 0 d3 -1\nq2 0 d4\nq2 0 d5 --1\n"))
    assert trec == {"q1": {"d1": 2}, "q2": {"d3": -1}}
    assert [one.source.rsplit(":")[-1] for one in skipped] == ["2", "4", "5"]
    with pytest.raises(MundapError, match="no judgements"):
        read_qrels(put(tmp_path, "e.txt", "nothing here at all\n"))


def test_a_large_json_is_streamed(tmp_path):
    """Memory is that of a few records, not of the file."""
    import tracemalloc

    path = tmp_path / "big.json"
    row = json.dumps({"question": "q", "answers": ["a"], "positive_ctxs": [{"title": "t", "text": "a " * 5000}]})
    with path.open("w") as file:
        file.write("[" + ",".join([row] * 3000) + "]")
    assert path.stat().st_size > 30e6
    tracemalloc.start()
    assert sum(1 for _ in read(path)) == 3000
    assert tracemalloc.get_traced_memory()[1] < 3e6
    tracemalloc.stop()


def test_ids_are_made_different(tmp_path):
    rows = [{"id": "a", "question": f"q{n}", "answers": ["x"]} for n in range(3)]
    questions, _ = read_all(put(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows))))
    assert [question.id for question in questions] == ["a", "a#2", "a#3"]


def test_a_broken_first_line_and_a_header_cost_no_more_than_themselves(tmp_path):
    lines = put(tmp_path, "a.jsonl", '{"question": brok\n{"question": "good", "answers": ["x"]}\n')
    questions, skipped = read_all(lines)
    assert ([question.text for question in questions], len(skipped)) == (["good"], 1)
    assert plain(put(tmp_path, "a.tsv", "question\tanswers\nwho?\t['me']\n")) == [("who?", ("me",))]


def test_patterns_choose_their_own_mode(tmp_path):
    rows = [{"question": "q", "answer": [r"20\s?,?320\s*feet"]}, {"question": "r", "answer": ["China"]}]
    assert choose_match(put(tmp_path, "t.jsonl", "\n".join(map(json.dumps, rows)))) == "regex"


def test_a_truncated_file_is_said_when_its_format_is_looked_for(tmp_path):
    path = put(tmp_path, "a.json.gz", gzip.compress(json.dumps(SQUAD).encode())[:40])
    for look in (choose_match, read_all):
        with pytest.raises(MundapError, match="truncated"):
            look(path)


def test_unanswerable_questions_are_kept_only_where_they_are_wanted(tmp_path):
    rows = [
        {"question": "a?", "answers": ["x"]},
        {"question": "b?", "answers": []},
        {"question": "c?", "answers": {"text": [], "answer_start": []}},
        {"question": "d?", "answers": ["like one"], "is_impossible": True},
        {"question": "e?"},
        {"question": "f?", "answers": [], "positive_ctxs": [{"text": "t"}]},
    ]
    path = put(tmp_path, "q.jsonl", "\n".join(map(json.dumps, rows)))
    questions, skipped = read_all(path)
    assert [question.text for question in questions] == ["a?", "e?", "f?"]
    assert [one.reason for one in skipped] == ["marked as unanswerable"] * 3
    questions, skipped = read_all(path, unanswerable=True)
    assert [question.unanswerable for question in questions] == [False, True, True, True, False, False]
    assert questions[3].answers == () and not skipped


def test_a_header_names_the_columns(tmp_path):
    path = put(tmp_path, "a.tsv", "id\tquestion\tcategory\tanswers\nx\twho?\tpeople\t['A', 'B']\n")
    questions, _ = read_all(path)
    assert questions == [Question("x", "who?", ("A", "B"))]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("question\tgold\nwho?\tA\n", "none of them is called answers or answer"),
        ("7\twho wrote it?\tGeorge Eliot\n", "3 columns: expected two"),
    ],
)
def test_columns_that_are_not_known_are_an_error(tmp_path, content, reason):
    with pytest.raises(MundapError, match=reason):
        read_all(put(tmp_path, "a.tsv", content))


def test_queries_of_ms_marco_are_told_from_pairs(tmp_path):
    questions, _ = read_all(put(tmp_path, "q.tsv", "1048585\twhat is paula deen's brother\n"))
    assert questions == [Question("1048585", "what is paula deen's brother")]
