import json

import pytest

from mundap.records import Passage
from mundap.training.ict import _ict_examples

TEXT = "The river runs to the sea. It is long and it is old. Boats go up and down on it all day."


def passage(number, text=TEXT):
    return Passage(f"p{number}", "d", "Rivers", text, "", 0, len(text))


def test_a_sentence_is_taken_out_of_its_passage_nine_times_in_ten():
    examples = list(_ict_examples([passage(n) for n in range(2000)]))
    assert len(examples) == 2000
    kept = 0
    for example in examples:
        (positive,) = example.positives
        assert example.question.text in TEXT
        assert positive.title == "Rivers"
        stays = example.question.text in positive.text
        kept += stays
        assert positive.text == (TEXT if stays else " ".join(TEXT.replace(example.question.text, "").split()))
    assert 0.07 < kept / 2000 < 0.13
    assert len({example.question.text for example in examples}) == 3


def test_the_same_each_time_and_nothing_from_a_single_sentence():
    few = [passage(n) for n in range(20)]
    assert list(_ict_examples(few)) == list(_ict_examples(few))
    assert list(_ict_examples(few, seed=1)) != list(_ict_examples(few))
    assert list(_ict_examples([passage(1, "Only one sentence is in this text.")])) == []


@pytest.mark.torch
def test_pre_training_and_training_from_the_command_line(tmp_path):
    pytest.importorskip("torch")
    from mundap import Index
    from tests.encoder.test_export import make_checkpoint
    from tests.program import mundap

    (tmp_path / "docs").mkdir()
    for number in range(60):
        (tmp_path / "docs" / f"{number}.txt").write_text(f"{TEXT} This is text number {number} of them all.")
    Index.build([tmp_path / "docs"], tmp_path / "i", model="none")
    make_checkpoint(tmp_path / "start")
    short = ["--set", "batch_size=8", "--set", "question_length=16", "--set", "passage_length=40", "--set", "epochs=1"]
    code, out, err = mundap(
        "train",
        "ict",
        "-i",
        tmp_path / "i",
        "--base-model",
        tmp_path / "start",
        "-o",
        tmp_path / "ict",
        *short,
        "--json",
    )
    assert code == 0, err
    done = json.loads(out)
    assert done["steps"] == 54 // 8
    assert set(done["figures"]) == {"ict-dev", "all"}
    # Its model is a start for the next training, whose report has curves.
    code, out, err = mundap(
        "train", "retriever", "--train", tmp_path / "ict" / "ict.jsonl", "--base-model", tmp_path / "ict" / "model",
        "-o", tmp_path / "run", "--set", "hard_negatives=0", "--set", "towers=two", *short,
    )  # fmt: skip
    assert code == 0, err
    assert "steps" in out
    assert (tmp_path / "run" / "report.html").read_text().count("<polyline") == 3
    assert (tmp_path / "run" / "model" / "passage" / "modules.json").exists()
    code, _, err = mundap("train", "retriever", "--set", "bath_size=8")
    assert code == 2
    assert "Did you mean batch_size" in err
    code, _, err = mundap("train", "retriever", "--base-model", "x")
    assert (code, "train is missing" in err) == (2, True)
