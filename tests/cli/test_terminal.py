"""`mundap ask` for people: an interrupt, answers that are not sure enough, and why."""

import builtins
import json
import shutil
from dataclasses import replace

import pytest

from mundap.cli import ask as asking
from mundap.models.folder import ReaderConfig
from tests.program import mundap


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "villain.txt").write_text("the VILLAIN is here, of music")
    (folder / "one.txt").write_text("the king of science\n")
    (folder / "two.txt").write_text("a king and water\n")
    (folder / "three.txt").write_text("the lord of a ring\n")
    assert mundap("index", ".", "-o", "i", "--model", tiny_model, cwd=folder)[0] == 0
    return folder


def test_an_interrupt_drops_an_answer_and_the_conversation_goes_on(monkeypatch):
    typed = iter(["long", "short", ""])
    monkeypatch.setattr(builtins, "input", lambda prompt: next(typed))
    asked = []

    def once(text):
        asked.append(text)
        if text == "long":
            raise KeyboardInterrupt

    asking._converse(once)
    assert asked == ["long", "short"]


def test_answers_that_are_not_sure_enough_are_mentioned(place, tiny_reader):
    def ask(*words):
        code, out, err = mundap("ask", "-i", "i", "--reader", tiny_reader, *words, "what is it?", cwd=place)
        assert code == 0, err
        return out

    sure = sorted(one["confidence"] for one in json.loads(ask("--json", "-n", 9, "--threshold", 0))["answers"])
    between = (sure[-1] + sure[-2]) / 2
    more = f"{len(sure) - 1} more less sure than {100 * between:.0f} %: --threshold 0 shows them."
    assert more in ask("-n", 9, "--threshold", between)
    assert more.replace(f"{100 * between:.0f}", "100") in ask("-n", 9, "--threshold", 1)  # a guess and the others
    assert "more less sure" not in ask("--threshold", between)
    assert "more less sure" not in ask("-n", 9, "--threshold", 0)


def test_a_reader_whose_confidence_nobody_fitted_says_so(place, tiny_reader, tmp_path):
    def told(reader):
        code, out, err = mundap("ask", "-i", "i", "--reader", reader, "--json", "what is it?", cwd=place)
        assert (code, json.loads(out)["question"]) == (0, "what is it?")
        return err

    assert "reader tiny was never fitted" in told(tiny_reader)
    assert "every question gets an answer" in told(tiny_reader)
    assert "mundap train confidence" in told(tiny_reader)
    with_threshold = tmp_path / "threshold"
    shutil.copytree(tiny_reader, with_threshold)
    replace(ReaderConfig.load(with_threshold), threshold=0.3).save(with_threshold)
    assert "a rough guess." in told(with_threshold)
    fitted = tmp_path / "fitted"
    shutil.copytree(tiny_reader, fitted)
    replace(ReaderConfig.load(fitted), confidence={"bias": 0.0, "margin": 0.2}).save(fitted)
    assert told(fitted) == ""


def test_explain_has_a_span_for_passages_that_support_an_answer(place, tiny_reader):
    words = ("ask", "-i", "i", "--reader", tiny_reader, "--explain", "--mode", "hybrid")
    code, out, _ = mundap(*words, "--json", "what is a king?", cwd=place)
    rows = {row["title"]: row for row in json.loads(out)["explain"]}
    assert code == 0
    assert {title: row["best_span"]["text"] for title, row in rows.items()} == {
        "villain": "VILLAIN",
        "one": "king",
        "two": "king",
        "three": "lord",
    }
    assert sum(row["selection"] for row in rows.values()) == pytest.approx(1)
    table = mundap(*words, "what is a king?", cwd=place)[1].split("What was read")[1]
    assert all("king" in line.split("│")[-2] for line in table.splitlines() if "│ one " in line or "│ two " in line)


def test_explain_looks_into_titles_and_obeys_filters(place, tiny_reader):
    words = ("ask", "-i", "i", "--reader", tiny_reader, "--explain", "--mode", "hybrid", "--json")
    _, out, _ = mundap(*words, "--source", "three.txt", "what of three?", cwd=place)
    (row,) = json.loads(out)["explain"]
    assert "three" in row["words"]
    assert row["passage"] == "three.txt"
    assert row["dense"] == json.loads(mundap("search", "-i", "i", "--json", "--source", "three.txt", "what of three?",
                                             cwd=place)[1])["hits"][0]["dense"]  # fmt: skip


def test_a_word_without_end_is_short_on_the_screen_and_whole_in_json(tmp_path, tiny_model, tiny_reader):
    word = "villain" + "x" * 3000
    (tmp_path / "long.txt").write_text(f"the {word} of music")
    assert mundap("index", "long.txt", "-o", "i", "--model", tiny_model, cwd=tmp_path)[0] == 0
    words = ("ask", "-i", "i", "--reader", tiny_reader, "what is it?")
    whole = json.loads(mundap(*words, "--json", cwd=tmp_path)[1])["answers"][0]["text"]
    assert whole.endswith(word)
    out = mundap(*words, cwd=tmp_path)[1]
    assert f"{whole[:300]}…" in out.splitlines()[0]
    assert max(map(len, out.split())) < 310
