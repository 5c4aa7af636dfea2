"""`mundap ask` and `search --rerank` as a user runs them, with a reader that likes some words more than others.

villain has 6, king 4, lord 2, no answer 0, any other word -2; a passage is as good as its best word.
"""

import json
import os
import shutil
import subprocess
import sys

import pytest

from mundap import Index
from mundap.errors import UsageError
from mundap.pipeline.ask import ask as ask_index
from mundap.pipeline.search import search as search_index
from mundap.pipeline.source import place_of
from mundap.reader.runtime import Reader
from mundap.records import Answer
from tests.program import mundap

FILLER = "the water of a mountain in the sun and the moon over it\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_model):
    """A folder with docs/ and its index i/; the villain is in line 25 of a text of several passages."""
    folder = tmp_path_factory.mktemp("asked")
    docs = folder / "docs"
    docs.mkdir()
    (docs / "one.txt").write_text(FILLER * 24 + "here is THE VILLAIN, of music\n" + FILLER * 3)
    (docs / "two.md").write_text(
        "# City\n\nMusic of *the* earth.\n\n- first\n- the **king** of `science`\n\nAnd water.\n"
    )
    (docs / "three.txt").write_text("a ring was of the lord in it\nthe king is not")
    (docs / "four.txt").write_text("... --- ...\n!!!\n")
    (docs / "five.txt").write_text("science and earth")
    code, _, err = mundap("index", "docs", "-o", "i", "--model", tiny_model, cwd=folder)
    assert code == 0, err
    return folder


@pytest.fixture
def ask(place, tiny_reader):
    def run(*words, stdin=None, code=0, index="i"):
        done, out, err = mundap("ask", "-i", index, "--reader", tiny_reader, *words, stdin=stdin, cwd=place)
        assert done == code, err
        return out if code in (0, 3) else err

    return run


def test_the_promised_shape_and_the_place_in_the_document(ask, place):
    found = json.loads(ask("--json", "what", "is", "it?"))
    assert found["question"] == "what is it?"
    assert found["no_answer"] is False
    (answer,) = found["answers"]
    assert {"text", "confidence", "passage", "start", "end", "source"} <= set(answer)
    assert answer["text"] == "VILLAIN"
    assert 0.5 < answer["confidence"] <= 1
    assert answer["source"] == answer["passage"]["source"] == "docs/one.txt"
    document = Index(place / "i").document(answer["passage"]["document"])
    assert answer["passage"]["start"] > 0  # not the first passage of its document
    assert document.text[answer["start"] : answer["end"]] == answer["text"]
    assert {"id", "title", "text", "document"} <= set(answer["passage"])


def test_the_library_says_the_same(ask, place, tiny_reader):
    told = json.loads(ask("--json", "-n", 2, "what is it?"))
    found = ask_index(Index(place / "i"), "what is it?", Reader.from_pretrained(tiny_reader), answers=2)
    assert json.loads(json.dumps(found.as_dict())) == told


def test_the_answer_for_people(ask):
    out = ask("what is it?")
    first = out.splitlines()[0]
    assert first.startswith("VILLAIN  (")
    assert first.endswith("% sure)")
    assert "here is THE [VILLAIN], of music" in " ".join(out.split())
    assert "docs/one.txt:25" in out


def test_below_the_threshold_there_is_no_answer_but_a_guess(ask):
    found = json.loads(ask("--json", "--threshold", 1, "-n", 3, "what is it?"))
    assert (found["answers"], found["no_answer"]) == ([], True)
    assert found["guess"]["text"] == "VILLAIN"
    assert found["guess"]["confidence"] < 1
    out = ask("--threshold", 1, "what is it?")
    assert out.startswith("No answer found. The best guess is 'VILLAIN' (")
    assert json.loads(ask("--json", "--threshold", 0, "what is it?"))["guess"] is None


def test_a_threshold_of_the_readers_own_is_obeyed(place, tiny_reader, tmp_path):
    shutil.copytree(tiny_reader, tmp_path / "strict")
    config = json.loads((tmp_path / "strict" / "config.json").read_text())
    (tmp_path / "strict" / "config.json").write_text(json.dumps({**config, "threshold": 0.999, "sha256": {}}))
    for options, silent in (((), True), (("--threshold", 0.1), False)):
        _, out, _ = mundap("ask", "-i", place / "i", "--reader", tmp_path / "strict", "--json", *options, "what is it?")
        assert json.loads(out)["no_answer"] is silent


def test_several_answers_are_different_and_in_order(ask):
    found = json.loads(ask("--json", "-n", 3, "what is it?"))["answers"]
    assert [answer["text"] for answer in found] == ["VILLAIN", "king", "lord"]
    scores = [answer["score"] for answer in found]
    assert scores == sorted(scores, reverse=True)
    assert [answer["support"] for answer in found] == [1, 2, 1]
    out = ask("-n", 3, "what is it?")
    assert [line[:2] for line in out.splitlines() if line[:2] in ("1.", "2.", "3.")] == ["1.", "2.", "3."]
    assert "sure, in 2 passages" in out


def test_questions_from_standard_input_get_a_line_each(ask):
    lines = "what is it?\n\nund wer?\n누구?\n".encode() + b"caf\xe9?\n"
    out = ask("--json", stdin=lines)
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["question"] for row in rows] == ["what is it?", "und wer?", "누구?", "caf\ufffd?"]
    assert all(row["answers"][0]["text"] == "VILLAIN" for row in rows)
    out = ask(stdin=b"what is it?\nand now?\n")
    assert [line for line in out.splitlines() if line.startswith("?")] == ["? what is it?", "? and now?"]


def test_one_line_that_is_too_long_does_not_stop_the_rest(place, tiny_reader):
    """As for `search`: what cannot be asked is said, what can be is answered."""
    lines = b"what is it?\n" + b"x" * 100_001 + b"\nwho?\n"
    code, out, _ = mundap("ask", "-i", place / "i", "--reader", tiny_reader, "--json", stdin=lines)
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 3
    assert [row["question"] for row in rows if row.get("answers")] == ["what is it?", "who?"]


@pytest.mark.parametrize("words", [("-k", 1000), ("-k", 1000, "--mode", "dense"), ("-k", 1000, "--mode", "bm25")])
def test_more_passages_than_there_are(ask, words):
    assert json.loads(ask("--json", *words, "what of the villain?"))["answers"][0]["text"] == "VILLAIN"


def test_only_what_the_filters_let_through_is_read(ask):
    found = json.loads(ask("--json", "--source", "docs/t*", "what is it?"))
    assert found["answers"][0]["text"] == "king"
    assert json.loads(ask("--json", "--source", "nowhere/*", "what is it?"))["no_answer"] is True


def test_passages_without_words_are_no_answer(ask):
    found = json.loads(ask("--json", "--source", "docs/four.txt", "what is it?"))
    assert (found["answers"], found["no_answer"], found["guess"]) == ([], True, None)
    assert ask("--source", "docs/four.txt", "what is it?").strip() == "No answer found."


def test_an_empty_index_has_no_answer(place, ask, tmp_path):
    shutil.copytree(place / "i", tmp_path / "e")
    assert mundap("delete", "-i", tmp_path / "e", "--source", "*")[0] == 0
    found = json.loads(ask("--json", "what is it?", index=tmp_path / "e"))
    assert (found["answers"], found["no_answer"], found["guess"]) == ([], True, None)
    assert "the index is empty" in ask("--explain", "what is it?", index=tmp_path / "e")


def test_a_question_of_five_thousand_words(ask):
    found = json.loads(ask("--json", " ".join(["why"] * 5000)))
    assert found["answers"][0]["text"] == "VILLAIN"
    assert ask("--explain", " ".join(["why"] * 5000)).startswith("VILLAIN")


def test_an_empty_question_is_wrong_usage(ask):
    assert "the question is empty" in ask("", code=2)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "reader.fp32.onnx"])
@pytest.mark.parametrize("fault", ["missing", "broken"])
def test_a_readers_folder_that_is_not_whole(place, tiny_reader, tmp_path, name, fault):
    shutil.copytree(tiny_reader, tmp_path / "reader")
    if fault == "missing":
        (tmp_path / "reader" / name).unlink()
    else:
        (tmp_path / "reader" / name).write_bytes(b"{ no")
    code, out, err = mundap("ask", "-i", place / "i", "--reader", tmp_path / "reader", "what is it?")
    assert (code, out) == (1, "")
    assert str(tmp_path / "reader") in err
    assert "xport" in err  # what to do


def test_an_encoder_is_no_reader(place, tiny_model, tiny_reader, tmp_path):
    for command in (("ask",), ("search", "--rerank")):
        code, _, err = mundap(*command, "-i", place / "i", "--reader", tiny_model, "what is it?")
        assert code == 1
        assert "is an encoder: give the folder of a reader" in err
    code, _, err = mundap("index", place / "docs", "-o", tmp_path / "x", "--model", tiny_reader)
    assert code == 1
    assert "is a reader: give the folder of an encoder" in err


def search(place, *words):
    code, out, err = mundap("search", "-i", "i", "--json", *words, cwd=place)
    assert code == 0, err
    return json.loads(out)["hits"]


def test_rerank_puts_hits_in_the_readers_order(place, tiny_reader):
    plain = search(place, "--mode", "dense", "-k", 5, "science")
    ranked = search(place, "--mode", "dense", "-k", 3, "--rerank", "--reader", tiny_reader, "science")
    assert [hit["score"] for hit in ranked] == [6.0, 4.0, 4.0]
    assert [hit["rank"] for hit in ranked] == [1, 2, 3]
    assert "VILLAIN" in ranked[0]["passage"]["text"]
    assert {hit["passage"]["document"] for hit in ranked[1:]} == {"two.md", "three.txt"}
    assert plain[0]["passage"]["id"] != ranked[0]["passage"]["id"]
    # the two kings are equal: they stay in the order they were found in
    order = [hit["passage"]["id"] for hit in search(place, "--mode", "dense", "-k", 50, "science")]
    kings = [order.index(hit["passage"]["id"]) for hit in ranked[1:]]
    assert kings == sorted(kings)


def test_a_reader_that_would_read_nothing_is_refused(place, tiny_reader):
    code, _, err = mundap("search", "-i", "i", "--reader", tiny_reader, "science", cwd=place)
    assert code == 2
    assert "Add --rerank" in err


@pytest.fixture
def latin_reader(tiny_reader, tmp_path):
    """The same reader, which says of itself that it knows no other writing."""
    shutil.copytree(tiny_reader, tmp_path / "latin")
    config = json.loads((tmp_path / "latin" / "config.json").read_text())
    (tmp_path / "latin" / "config.json").write_text(json.dumps({**config, "scripts": "latin", "sha256": {}}))
    return tmp_path / "latin"


def test_rerank_keeps_the_order_where_the_reader_does_not_know_the_script(place, latin_reader):
    question, rerank = "누구인가 왕은 sun", ("--rerank", "--reader", latin_reader)
    plain = search(place, "--mode", "dense", "-k", 3, question)
    code, out, _ = mundap("search", "-i", "i", "--json", "--mode", "dense", "-k", 3, *rerank, question, cwd=place)
    found = json.loads(out)
    assert (code, found["hits"]) == (0, plain)
    assert "knows English only" in found["note"]
    _, _, err = mundap("search", "-i", "i", *rerank, "누구인가 왕은", cwd=place)
    assert "the order is that of the search" in err
    _, out, _ = mundap("search", "-i", "i", "--json", "--mode", "all", *rerank, "누구인가 왕은", cwd=place)
    assert "note" in json.loads(out)
    assert search(place, *rerank, "science")[0]["score"] == 6.0
    questions = place / "foreign.jsonl"
    questions.write_text(json.dumps({"question": "누구인가 왕은", "answers": ["king"]}) + "\n")
    _, out, _ = mundap("evaluate", "retrieval", "-i", "i", "-q", questions, *rerank, "--json", cwd=place)
    assert any("script that the reader does not know" in note for note in json.loads(out)["notes"])


@pytest.mark.parametrize("k", [0, -1])
def test_rerank_of_no_hits_is_wrong_usage_as_it_is_without(place, tiny_reader, k):
    for words in ((), ("--rerank", "--reader", tiny_reader)):
        assert mundap("search", "-i", "i", "-k", k, *words, "science", cwd=place)[0] == 2
    with pytest.raises(UsageError):
        search_index(Index(place / "i"), ["science"], k, reader=Reader.from_pretrained(tiny_reader))


@pytest.mark.parametrize(
    "words",
    [
        ("ask", "--threshold", "nan", "x"),
        ("ask", "--retrieval-weight", "nan", "x"),
        ("search", "--weight", "nan", "x"),
        ("evaluate", "answers", "-q", "x", "--retrieval-weight", "nan"),
        ("train", "ict", "--keep", "nan"),
        ("train", "confidence", "-q", "x", "--reader", "x", "--answered-though-removed", "nan"),
    ],
)
def test_nan_is_no_number(place, words):
    code, _, err = mundap(*words, cwd=place)
    assert code == 2
    assert "nan is not a finite number" in err


def test_explain_shows_what_was_read(ask):
    out = ask("--explain", "--mode", "hybrid", "-k", 4, "music of the king?")
    assert "What was read" in out
    table = out[out.index("What was read") :]
    for word in ("passage", "words found", "bm25", "dense", "selected", "best span"):
        assert word in table
    row = next(line for line in table.splitlines() if "City" in line)
    assert "king" in row
    assert "music" in row


def test_the_line_in_a_text_and_in_markdown(ask):
    assert "docs/one.txt:25 " in ask("--source", "docs/one.txt", "what is it?")
    assert "docs/two.md:6 " in ask("--source", "docs/two.md", "what is it?")
    assert "docs/three.txt:2 " in ask("--source", "docs/three.txt", "what is it?")


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.md", "# The king\n\nA city.\n\nThe *king* of it.\nking is he\n", (1, 5, 6)),
        ("b.md", "# City\n\nA **music** [king](http://villain.example/king) was\n", (3,)),
        ("c.md", "---\ntitle: king of\n---\n# City\n\nking of science\n", (6,)),
        (
            "d.html",
            "<html><head><title>king</title></head><body><p>water</p>\n<p>king of earth</p></body></html>\n",
            (2,),
        ),
        ("f.py", 'def f():\n    """\n\n    The king of it.\n    king is he\n    """\n', (4, 5)),
        ("g.c", "int x;\n/*\n * The king of it.\n * king is he\n */\nint y; /* the last king of it */\n", (3, 4, 6)),
        ("h.rst", "City\n====\n\nThe king of it,\nthe *king* of all.\n\n* a ring\n  of the king\n", (4, 5, 8)),
        ("i.1", ".TH X 1\n.SH CITY\nThe ring\nof the \\fBking\\fR.\n.TP\nring\nof a king\n", (4, 7)),
        ("j.adoc", "= City\n\nThe ring of\nthe king.\n", (4,)),
        ("e.txt", "\n\n  the ring\r\nof the king\r\n", (4,)),
    ],
)
def test_the_line_is_that_of_the_answer_and_not_of_the_same_word_elsewhere(tmp_path, monkeypatch, name, text, line):
    """Every king of a document's text, one after another."""
    (tmp_path / name).write_bytes(text.encode())
    monkeypatch.chdir(tmp_path)
    index = Index.build([name], "i", model="none")
    (hit,) = index.search("king")
    document = index.document(hit.passage.document).text
    places = [place for place in range(len(document)) if document.startswith("king", place)]
    assert len(places) == len(line), document
    answers = [Answer("king", 1.0, hit, start, start + 4, 0.0, 1.0, 1.0) for start in places]
    assert [place_of(index, answer) for answer in answers] == [f"{name}:{n}" for n in line]
    assert [answer.as_dict()["place"] for answer in answers] == [f"line {one}" for one in line]


def test_escape_codes_of_a_document_do_not_reach_the_terminal(tmp_path, tiny_reader):
    (tmp_path / "x.txt").write_text("the \x1b]0;gotcha\x07\x1b[31mvillain\x1b[0m of it")
    assert mundap("index", tmp_path / "x.txt", "-o", tmp_path / "i", "--model", "none")[0] == 0
    code, out, _ = mundap("ask", "-i", tmp_path / "i", "--reader", tiny_reader, "--explain", "of it")
    assert code == 0
    assert "villain" in out
    assert "\x1b" not in out


def test_a_conversation_on_a_terminal(place, tiny_reader):
    pty = pytest.importorskip("pty")
    master, slave = pty.openpty()
    command = [
        sys.executable,
        "-c",
        "from mundap.cli import run; run()",
        "ask",
        "-i",
        "i",
        "--reader",
        str(tiny_reader),
    ]
    process = subprocess.Popen(command, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=place)
    os.close(slave)
    os.write(master, b"what is it?\n" + b"who is it?\n" + b"\n")
    out, err = process.communicate(timeout=60)
    os.close(master)
    assert process.returncode == 0
    assert out.decode().count("VILLAIN  (") == 2
    assert b"Type a question" in err


def test_the_way_of_ranking_is_a_choice(ask):
    """The king is the best answer by far; with enough weight on retrieval the best passage's own is."""
    ways = (("--ranking", "selection"), ("--ranking", "product"), ("--retrieval-weight", "100"))
    found = [json.loads(ask("--json", "--threshold", "0", *way, "what is the lord of a ring?")) for way in ways]
    texts = [one["answers"][0]["text"] for one in found]
    assert found[2]["answers"][0]["rank"] == 1
    assert found[0]["answers"][0]["rank"] != 1
    assert texts[0] == texts[1] != texts[2]


def test_k1_and_b_reach_the_search(ask, place):
    question = "music of the king"

    def scores(*options):
        found = json.loads(ask("--json", "--explain", *options, question))
        return [one["bm25"] for one in found["explain"]]

    index = Index(place / "i")
    for options, k1, b in (((), None, None), (("--k1", "0.2", "--b", "0"), 0.2, 0.0), (("--b", "0.1"), None, 0.1)):
        expected = [hit.score for hit in index.search(question, 10, "bm25", k1=k1, b=b)]
        assert scores("--mode", "bm25", *options) == pytest.approx(expected, rel=1e-4)
    assert scores("--k1", "0.2") != scores()
    assert "not in the range" in ask("--k1", "-1", "music", code=2)
