import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from mundap import cli
from mundap.diagnosis import examine
from mundap.index.build import Options, build
from mundap.machine import cores
from mundap.models import folder
from tests.conftest import make_model
from tests.program import START, mundap, program
from tests.systems import not_windows


@pytest.fixture
def indexed(corpus, tmp_path, tiny_model):
    code, out, _ = mundap("index", corpus, "-o", tmp_path / "i", "--model", tiny_model, "--json")
    assert code == 0
    assert json.loads(out)["passages"] == 10
    return tmp_path / "i"


def test_without_arguments_the_three_commands_one_needs_first():
    code, out, _ = program()
    assert code == 0
    for word in ("mundap index", "mundap ask", "mundap info"):
        assert word in out


@pytest.mark.parametrize("verb", list(cli._VERBS))
def test_every_command_has_help(verb):
    result = CliRunner().invoke(cli.main, [verb, "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_search_json_has_the_promised_shape(indexed):
    code, out, err = mundap("search", "-i", indexed, "--json", "-k", 3, "where is the river?")
    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert (answer["query"], answer["mode"], len(answer["hits"])) == ("where is the river?", "hybrid", 3)
    hit = answer["hits"][0]
    assert hit["rank"] == 1
    assert {"id", "title", "text", "source", "start", "end"} <= set(hit["passage"])


def test_search_for_people(indexed):
    code, out, _ = mundap("search", "-i", indexed, "river", "--mode", "bm25")
    assert code == 0
    assert "The river runs to the sea." in out
    assert "docs/two.md" in out
    _, out, _ = mundap("search", "-i", indexed, "river", "--mode", "all", "-k", 2)
    assert all(mode in out for mode in ("bm25", "dense", "hybrid"))
    _, out, _ = mundap("search", "-i", indexed, "zzzz", "--mode", "bm25")
    assert "Nothing found" in out


def test_questions_from_standard_input(indexed):
    lines = "river\n\n서울\n".encode() + b"caf\xe9\n" + b"x" * 100_001 + b"\n"
    code, out, _ = mundap("search", "-i", indexed, "-k", 1, "--json", stdin=lines)
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 3
    assert [answer["query"] for answer in answers[:3]] == ["river", "", "서울"]
    assert [len(answer["hits"]) for answer in answers] == [1, 0, 1, 1, 0]
    assert "longer than" in answers[-1]["error"]
    code, out, _ = mundap("search", "-i", indexed, "-k", 1, "--mode", "bm25", stdin=b"river\n")
    assert code == 0
    assert out.startswith("? river\n")
    assert "The river runs to the sea." in out
    assert mundap("search", "-i", indexed, "--mode", "all", stdin=b"river\n")[0] == 2


def test_filters_on_the_command_line(indexed):
    _, out, _ = mundap("search", "-i", indexed, "--json", "--where", "topic=geo", "music")
    assert [hit["passage"]["document"] for hit in json.loads(out)["hits"]] == ["two.md"]
    _, out, _ = mundap("search", "-i", indexed, "--json", "--source", "*.jsonl", "--document", "b1", "music")
    assert [hit["passage"]["id"] for hit in json.loads(out)["hits"]] == ["b1"]
    assert mundap("search", "-i", indexed, "--where", "topic", "music")[0] == 2


def test_the_life_of_an_index(indexed, corpus):
    code, out, _ = mundap("info", "-i", indexed, "--json")
    facts = json.loads(out)
    assert code == 0
    assert {"passages", "documents", "segments", "bytes", "model", "language"} <= set(facts)
    assert mundap("verify", "-i", indexed)[0] == 0
    (corpus / "more.txt").write_text("more about kings")
    code, out, _ = mundap("add", corpus / "more.txt", "-i", indexed, "--json")
    assert (code, json.loads(out)["added"]) == (0, 1)
    code, out, _ = mundap("delete", "-i", indexed, "b1", "nope", "--json")
    assert (code, json.loads(out)["removed"]) == (3, 1)
    assert mundap("delete", "-i", indexed, "nope", "--strict")[0] == 1
    assert mundap("delete", "-i", indexed)[0] == 2
    assert mundap("delete", "-i", indexed, "--source", "*.md")[0] == 0
    assert mundap("compact", "-i", indexed)[0] == 0
    code, out, _ = mundap("verify", "-i", indexed, "--json")
    assert (code, json.loads(out)["whole"]) == (0, True)
    next(indexed.glob("segments/*/passages.bin")).write_bytes(b"")
    code, out, _ = mundap("verify", "-i", indexed, "--json")
    assert (code, json.loads(out)["whole"]) == (1, False)


def test_a_missing_model_is_no_damage_that_a_repair_could_mend(corpus, tmp_path):
    model, out = make_model(tmp_path / "model"), tmp_path / "i"
    build([corpus], out, Options(model=str(model)))
    before = (out / "manifest.json").read_bytes()
    model.rename(tmp_path / "elsewhere")
    code, _, said = mundap("verify", "-i", out, "--repair")
    assert code == 1
    assert "is intact, but its model is not" in said
    assert "--repair" not in said
    assert (out / "manifest.json").read_bytes() == before  # nothing was made anew for nothing
    (wrong,) = (one for one in examine(out) if one.good is False)
    assert wrong.what == "model of the index"
    assert "--repair" not in wrong.advice


def test_the_nearest_index_is_found_as_git_does(corpus, tmp_path):
    assert mundap("index", "docs", "--model", "none", cwd=tmp_path)[0] == 0
    assert (tmp_path / ".mundap" / "manifest.json").exists()
    code, out, _ = mundap("search", "river", "--json", cwd=corpus / "sub")
    assert code == 0
    assert json.loads(out)["hits"][0]["passage"]["source"].startswith("docs/")


def test_exit_codes_and_messages(corpus, tmp_path):
    (corpus / "bad.pdf").write_bytes(b"%PDF- no")
    code, out, err = mundap("index", corpus, "-o", tmp_path / "i", "--model", "none")
    assert code == 3
    assert "skipped docs/bad.pdf: not a readable PDF" in err
    assert "dense  none\n" in mundap("info", "-i", tmp_path / "i")[1]
    assert mundap("index", corpus, "-o", tmp_path / "i", "--strict")[0] == 1
    code, out, _ = mundap("index", corpus, "-o", tmp_path / "i", "--json")
    report = json.loads(out)
    assert code == 3
    assert report["skipped"][0]["source"] == "docs/bad.pdf"
    assert {"documents", "passages", "skipped", "seconds"} <= set(report)
    for arguments, expected, message in [
        (("search", "-i", tmp_path / "nothing", "x"), 1, "no index in"),
        (("search", "-i", tmp_path / "i", ""), 2, "question is empty"),
        (("search", "-i", tmp_path / "i", "-k", "0", "x"), 2, "range"),
        (("search", "-i", tmp_path / "i", "x", "--mode", "dense"), 2, "no vectors"),
        (("index", tmp_path / "nope", "-o", tmp_path / "j"), 1, "no such file"),
        (("index", corpus, "-o", tmp_path / "j", "--language", "xx"), 2, "no stemmer"),
        (("index", corpus, "-o", tmp_path / "j", "--model", tmp_path / "m"), 1, "no model in"),
        (("index", corpus, "-o", tmp_path / "i", "--words", "50"), 2, "--fresh"),
        (("index",), 2, "Missing argument"),
        (("add", corpus, "-i", "a", "-o", "b"), 2, "two indexes"),
        (("frobnicate",), 2, "No such command"),
    ]:
        code, _, err = mundap(*arguments)
        assert code == expected, (arguments, err)
        assert message in err


@pytest.mark.parametrize("question", ['"a AND (b: [', "?", "the", "😀", "x" * 100_000, "--"])
def test_odd_questions(indexed, question):
    code, _, err = mundap("search", "-i", indexed, stdin=question.encode())
    assert code == 0, err


def test_standard_input_as_a_document(tmp_path):
    code, out, _ = mundap("index", "-", "-o", tmp_path / "i", "--model", "none", "--json", stdin=b"a river in stdin")
    assert (code, json.loads(out)["passages"]) == (0, 1)
    assert mundap("index", "-", "-o", tmp_path / "j", "--model", "none", stdin=b"")[0] == 3


def test_models_and_completion():
    code, out, _ = mundap("models", "list", "--json")
    names = [one["name"] for one in json.loads(out)]
    assert (code, names) == (0, list(folder.installed()))  # with the multilingual ones, where they are installed
    assert {"reader", "retriever"} <= set(names)
    assert "_MUNDAP_COMPLETE" in mundap("completion", "zsh")[1]


def test_starting_up_loads_nothing_heavy():
    code = "import sys; from mundap import cli, Document; print([m for m in ('numpy','onnxruntime','faiss','rich','torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_odd_bytes_on_the_command_line(indexed):
    for arguments in (["search", "-i", str(indexed), b"zebra \xff"], ["delete", "-i", str(indexed), b"\xff"]):
        done = subprocess.run([*START, *arguments], capture_output=True)
        assert done.returncode in (0, 3)
        assert b"Traceback" not in done.stderr


def test_what_documents_say_does_not_reach_the_terminal_raw(tmp_path):
    (tmp_path / "a [b]x.txt").write_text("red \x1b[31malert river")
    assert mundap("index", tmp_path / "a [b]x.txt", "-o", tmp_path / "i", "--model", "none")[0] == 0
    _, out, _ = mundap("search", "-i", tmp_path / "i", "river")
    assert "\x1b" not in out
    code, out, _ = mundap("search", "-i", tmp_path / "i", "river [/b]", "--mode", "bm25")
    assert code == 0


def test_markup_in_a_question_is_only_text(indexed):
    code, out, _ = mundap("search", "-i", indexed, "--mode", "all", "what [/b] river")
    assert code == 0
    assert "[/b]" in out


def test_standard_input_adds_up(tmp_path):
    first, second = b'{"id": "a", "text": "first"}', b'{"id": "b", "text": "second"}'
    mundap("index", "-", "-o", tmp_path / "i", "--model", "none", stdin=first)
    _, out, _ = mundap("add", "-", "-i", tmp_path / "i", "--json", stdin=second)
    assert json.loads(out)["documents"] == 2
    _, out, _ = mundap("index", "-", "-o", tmp_path / "i", "--json", stdin=second)
    assert json.loads(out)["documents"] == 1


@not_windows
def test_interrupt_and_broken_pipe(indexed, corpus, tmp_path):
    import signal
    import time

    (corpus / "big.txt").write_text("many words here " * 300_000)
    process = subprocess.Popen(
        [*START, "index", str(corpus), "-o", str(tmp_path / "j")],
        stderr=subprocess.PIPE,
        # Who runs the tests in the background of a shell has interrupts ignored, and so would this process.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while process.poll() is None and not list((tmp_path / "j" / "segments").glob("*")):
        time.sleep(0.01)
    time.sleep(0.5)  # a segment has been begun: it is reading, or encoding
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert b"Run the same command again" in err
    line = f"{sys.executable} -c 'from mundap.cli import run; run()' search -i {indexed} river --json -k 10"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {line} | head -c 1"], capture_output=True)
    assert done.returncode == 0
    done = subprocess.run(["bash", "-c", f"{line} > /dev/full"], capture_output=True)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


def test_filters_that_match_nothing_are_said(indexed):
    _, out, _ = mundap("search", "-i", indexed, "river", "--mode", "bm25", "--source", "nothing/*")
    assert "No passage matches the filters. (--source" in out
    _, out, _ = mundap("search", "-i", indexed, "river", "--mode", "bm25", "--where", "language=xx")
    assert out.endswith("No passage matches the filters.\n")
    assert "Nothing found" in mundap("list", "-i", indexed, "nothing-of-this-name")[2]
    assert mundap("search", "-i", indexed, "river", "--fusion", "linear", "--lambda", "nan")[0] == 2


def test_threads_are_as_many_as_is_said_wherever_they_are_made(corpus, tmp_path, tiny_model, monkeypatch):
    monkeypatch.delenv("MUNDAP_THREADS", raising=False)
    seen = set()

    def counted():
        seen.add(cores())
        return cores()

    for place in ("mundap.models.session.cores", "mundap.index.writer.cores", "mundap.documents.readers.cores"):
        monkeypatch.setattr(place, counted)
    new = tmp_path / "new.txt"
    new.write_text(" ".join(f"word{n}" for n in range(3000)))
    index = tmp_path / "i"
    model = ("--model", tiny_model)
    for words in (
        ("index", corpus, "-o", index, *model),
        ("add", new, "-o", index),
        ("encode", new, "-o", tmp_path / "v", *model),
    ):
        seen.clear()
        code, _, err = mundap(*words, "--threads", "3")
        assert (code, seen) == (0, {3}), err
        assert mundap(*words, "--threads", "0")[0] == 2
    assert "MUNDAP_THREADS" not in os.environ
