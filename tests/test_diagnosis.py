"""`mundap doctor`: what is wrong, and what to do about it."""

from importlib import metadata

from mundap import diagnosis
from mundap.diagnosis import examine
from mundap.index.build import Options, build
from tests.program import mundap


def test_a_sound_index_and_a_damaged_one(corpus, tmp_path):
    out = tmp_path / "i"
    build([corpus], out, Options(model="none"))
    findings = {one.what: one for one in examine(out)}
    assert all(one.good is not False for one in findings.values()), findings
    assert {"mundap", "tantivy", "model retriever", "encoder", "threads", "disk", "index"} <= set(findings)
    next(out.glob("lexical-*/meta.json")).unlink()
    (wrong,) = (one for one in examine(out) if one.good is False)
    assert "--repair" in wrong.advice
    next(out.glob("segments/*/strings.bin")).write_bytes(b"")
    (wrong,) = (one for one in examine(out) if one.good is False)
    assert "copy" in wrong.advice


def test_the_command_says_so_and_fails(tmp_path):
    code, said, _ = mundap("doctor", "-i", tmp_path / "nowhere", cwd=tmp_path)
    assert code == 1
    assert "WRONG  index: no index in" in said


def test_onnxruntime_for_gpus_is_as_good(monkeypatch):
    def version(name):
        if name == "onnxruntime":
            raise metadata.PackageNotFoundError(name)
        return "1.2"

    monkeypatch.setattr(diagnosis.metadata, "version", version)
    assert [one.found for one in diagnosis._installation() if one.what == "onnxruntime"] == ["1.2"]
