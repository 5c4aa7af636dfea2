"""A model folder that somebody edited, or a disk damaged: said when it is opened, not later or never."""

import json
import math
import os
from pathlib import Path

import pytest

from mundap import Encoder, Reader
from mundap.errors import ModelError
from mundap.models.folder import EncoderConfig, FittedConfidence, ReaderConfig, replacing_model
from tests.conftest import make_model, make_reader
from tests.program import mundap
from tests.systems import not_windows


def edit(folder, **changes):
    path = folder / "config.json"
    facts = json.loads(path.read_text())
    del facts["sha256"]["config.json"]
    path.write_text(json.dumps({**facts, **changes}))
    return path


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("threshold", None, "a number of at least 0 and at most 1"),
        ("threshold", "x", "a number of at least 0 and at most 1"),
        ("threshold", math.nan, "a number of at least 0 and at most 1"),
        ("early_stop", 2, "a number of at least 0 and at most 1"),
        ("retrieval_weight", math.inf, "a number"),
        ("confidence", [1, 2], "an object, every value a number"),
        ("confidence", {"bias": "x"}, "an object, every value a number"),
        ("confidence", {"bias": math.nan}, "an object, every value a number"),
        ("groups", {"ko": 1}, "an object of objects"),
        ("groups", [], "an object of objects"),
        ("sha256", {"reader.fp32.onnx": 5}, "an object, every value a text"),
        ("max_length", "many", "a whole number of at least 8 and at most 1,000,000"),
        ("max_length", -5, "a whole number of at least 8 and at most 1,000,000"),
        ("max_length", 128.0, "a whole number of at least 8 and at most 1,000,000"),
        ("max_answer_length", 0, "a whole number of at least 1 and at most 1,000,000"),
        ("max_answer_length", True, "a whole number of at least 1 and at most 1,000,000"),
        ("stride", -1, "a whole number of at least 0 and at most 1,000,000"),
        ("ranking", "foo", 'one of "selection", "product"'),
        ("layout", "bar", 'one of "dpr", "pair"'),
        ("layout", ["dpr"], 'one of "dpr", "pair"'),
        ("name", 5, "a text"),
    ],
)
def test_a_wrong_value_in_a_readers_config_is_named_with_what_is_allowed(tmp_path, key, value, allowed):
    path = edit(make_reader(tmp_path / "r"), **{key: value})
    with pytest.raises(ModelError) as error:
        ReaderConfig.load(path.parent)
    assert str(error.value).startswith(f"{path}: {key} is {json.dumps(value)}, and must be {allowed}. ")


@pytest.mark.parametrize(
    ("key", "value"), [("dimension", 0), ("normalized", 1), ("fusion_weight", "1"), ("title", "x"), ("pooling", None)]
)
def test_a_wrong_value_in_an_encoders_config_is_named(tmp_path, key, value):
    path = edit(make_model(tmp_path / "m"), **{key: value})
    with pytest.raises(ModelError, match=f"{key} is {json.dumps(value)}, and must be "):
        EncoderConfig.load(path.parent)


def test_what_is_right_is_taken(tmp_path):
    path = edit(make_reader(tmp_path / "r"), threshold=1, retrieval_weight=-2, confidence={"bias": 1})
    found = ReaderConfig.load(path.parent)
    assert (found.threshold, found.retrieval_weight, found.confidence) == (1, -2, {"bias": 1})


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ({"ko": {"threshold": 2}}, "groups.ko.threshold is 2, and must be a number of at least 0 and at most 1"),
        ({"ko": {"confidence": {"bias": "x"}}}, 'groups.ko.confidence is {"bias": "x"}, and must be an object, every'),
        ({"ko": {"treshold": 0.5}}, "nothing is known of 'groups.ko.treshold'"),
        ({"ko": {"kind": "reader"}}, "nothing is known of 'groups.ko.kind'"),
        ({"kr": {"threshold": 0.5}}, "nothing is known of 'groups.kr'"),
    ],
)
def test_a_wrong_value_of_a_group_is_named(tmp_path, groups, said):
    path = edit(make_reader(tmp_path / "r"), groups=groups)
    with pytest.raises(ModelError) as error:
        ReaderConfig.load(path.parent)
    assert str(error.value).startswith(f"{path}: {said}")


def test_groups_are_kept_and_a_config_without_them_is_read(tmp_path):
    of_korean = FittedConfidence({"bias": 1.0}, 0.4, 0.6)
    folder = make_reader(tmp_path / "r", threshold=0.2, groups={"ko": of_korean})
    found = ReaderConfig.load(folder)
    assert (found.fitted_for("누구?"), found.fitted_for("who?").threshold) == (of_korean, 0.2)
    assert found.fitted_for("谁?").threshold == 0.2  # no group of its own: the general one
    facts = json.loads((folder / "config.json").read_text())
    del facts["groups"], facts["sha256"]["config.json"]
    (folder / "config.json").write_text(json.dumps(facts))
    assert ReaderConfig.load(folder).fitted_for("누구?") == FittedConfidence({}, 0.2)


def test_a_wrong_config_is_one_line_on_the_command_line(tmp_path):
    rows = [{"question": "who?", "answers": ["king"], "ctxs": [{"id": "1", "text": "the king"}]}]
    (tmp_path / "run.json").write_text(json.dumps(rows))
    edit(make_reader(tmp_path / "r"), confidence=[])
    given = ("-q", tmp_path / "run.json", "--run", tmp_path / "run.json", "--reader", tmp_path / "r")
    code, out, err = mundap("evaluate", "answers", *given)
    assert (code, out) == (1, "")
    assert "confidence is [], and must be an object" in err


def flip(path):
    """Change one bit of the last weight: the file is as readable as before."""
    content = bytearray(path.read_bytes())
    content[content.rindex(b"\xc0")] ^= 1 << 6
    path.write_bytes(content)


def test_damaged_weights_are_not_read_with(tmp_path):
    folder = make_reader(tmp_path / "r")
    assert len(Reader.from_pretrained(folder).read("who?", [("", "the king")])) == 1
    flip(folder / "reader.fp32.onnx")
    with pytest.raises(ModelError, match=r"reader\.fp32\.onnx is damaged"):
        Reader.from_pretrained(folder).read("who?", [("", "the king")])


def test_a_damaged_tokenizer_is_not_used(tmp_path):
    folder = make_model(tmp_path / "m")
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace('"river"', '"rivet"'))
    with pytest.raises(ModelError, match=r"tokenizer\.json is damaged"):
        Encoder.from_pretrained(folder).encode_questions(["a river"])


def test_damaged_weights_are_found_by_every_thread(tmp_path):
    folder = make_model(tmp_path / "m")
    flip(folder / "encoder.fp32.onnx")
    encoder = Encoder.from_pretrained(folder, threads=3)
    for _ in range(2):
        with pytest.raises(ModelError, match=r"encoder\.fp32\.onnx is damaged"):
            encoder.encode_questions(["water"] * 50)


def test_a_model_without_checksums_is_used_as_it_is(tmp_path):
    folder = make_reader(tmp_path / "r")
    edit(folder, sha256={})
    flip(folder / "reader.fp32.onnx")
    assert len(Reader.from_pretrained(folder).read("who?", [("", "the king")])) == 1


@pytest.mark.parametrize(
    "changes", [{"dimension": 10**13}, {"max_length": 2**70}, {"fusion_weihgt": 0.3}, {"x": 1}], ids=str
)
def test_a_number_beyond_reason_or_an_unknown_name_is_refused(tmp_path, changes):
    path = edit(make_model(tmp_path / "m"), **changes)
    with pytest.raises(ModelError, match="at most 1,000,000|nothing is known of"):
        EncoderConfig.load(path.parent)


def test_a_flipped_bit_in_a_config_is_noticed_and_an_edited_one_can_be_used(tmp_path):
    path = make_model(tmp_path / "m") / "config.json"
    text = path.read_text()
    path.write_text(text.replace('"fusion_weight": 0.7', '"fusion_weight": 0.3'))
    with pytest.raises(ModelError, match="damaged, or was edited"):
        EncoderConfig.load(path.parent)
    edit(path.parent, fusion_weight=0.3)
    assert EncoderConfig.load(path.parent).fusion_weight == 0.3
    EncoderConfig.load(path.parent).save(path.parent)
    assert "config.json" in json.loads(path.read_text())["sha256"]


def test_deep_json_is_no_config(tmp_path):
    path = make_model(tmp_path / "m") / "config.json"
    path.write_text("[" * 100_000)
    with pytest.raises(ModelError, match="not a model's config"):
        EncoderConfig.load(path.parent)


def without_unknown(folder):
    """Take the token for unknown letters out of a model's tokenizer, and its checksum out of the config."""
    path = folder / "tokenizer.json"
    facts = json.loads(path.read_text())
    del facts["model"]["vocab"]["[UNK]"]
    path.write_text(json.dumps(facts))
    edit(folder, sha256={})


def test_a_tokenizer_that_opens_and_fails_at_some_text_is_said(tmp_path):
    encoder, reader = make_model(tmp_path / "m"), make_reader(tmp_path / "r")
    without_unknown(encoder)
    without_unknown(reader)
    with pytest.raises(ModelError, match="the tokenizer fails: WordPiece error: .*Export the model again"):
        Encoder(encoder).encode_questions(["강"])
    with pytest.raises(ModelError, match="the tokenizer fails: "):
        Reader(reader).read("강", [("", "a river")])
    (encoder / "tokenizer.json").write_text('{"model": {"type": "nonsense"}}')
    with pytest.raises(ModelError, match="tokenizer.json: .*Export the model again"):
        Encoder(encoder).encode_questions(["river"])


def test_weights_of_another_dimension_are_named(tmp_path):
    for dimension in (1, 8):
        folder = make_model(tmp_path / f"m{dimension}", dimension)
        edit(folder, dimension=16)
        with pytest.raises(ModelError, match="gives vectors of shape"):
            Encoder.from_pretrained(folder).encode_questions(["the river"])


def write_model(folder, text):
    with replacing_model(folder) as made:
        made.mkdir()
        for name in ("config.json", "weights"):
            (made / name).write_text(text)


@not_windows
@pytest.mark.parametrize("rename", [1, 2])
def test_a_process_that_dies_while_it_replaces_a_model_leaves_no_half_of_one(tmp_path, monkeypatch, rename):
    """It dies at one of the two renames: `_exit` runs nothing that would clean up."""
    folder = tmp_path / "model"
    write_model(folder, "old")
    process = os.fork()
    if not process:
        left, renamed = rename, Path.rename

        def dies(self, target):
            nonlocal left
            left -= 1
            if not left:
                os._exit(9)
            return renamed(self, target)

        Path.rename = dies
        write_model(folder, "new")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 9
    assert not folder.exists() or {path.name for path in folder.iterdir()} == {"config.json", "weights"}
    with pytest.raises(RuntimeError, match="stopped"), replacing_model(folder):
        raise RuntimeError("stopped")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"config.json": "old", "weights": "old"}
    write_model(folder, "newer")
    assert (folder / "weights").read_text() == "newer"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
