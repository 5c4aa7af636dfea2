"""What is missing, broken or of another version in an index is found and said."""

import contextlib
import json
from dataclasses import replace

import pytest

from mundap import Index
from mundap.disk import checksum
from mundap.errors import IndexDamaged, ModelError
from mundap.index.build import Options, add, build, compact, delete
from mundap.index.manifest import FORMAT, Manifest, _digest
from mundap.index.verify import verify

PLAIN = Options(model="none")


def test_damage_is_found_and_said(corpus, tmp_path, tiny_model):
    out = tmp_path / "i"
    build([corpus], out, Options(model=str(tiny_model)))
    victim = next(out.glob("segments/*/strings.bin"))
    data = victim.read_bytes()
    victim.write_bytes(data[:-10])
    with pytest.raises(IndexDamaged, match="strings.bin has"):
        Index(out)
    assert verify(out)
    victim.write_bytes(data[:-1] + b"?")
    assert "checksum" in verify(out)[0]
    victim.unlink()
    with pytest.raises(IndexDamaged, match="is missing"):
        Index(out)
    build([corpus], out, Options(model=str(tiny_model)), fresh=True)
    assert verify(out) == []


@pytest.mark.parametrize(
    "name", ["strings.bin", "strings.idx", "documents.bin", "passages.bin", "keys.bin", "vectors.bin"]
)
def test_a_flipped_bit_of_a_small_file_is_noticed_at_once(corpus, tmp_path, tiny_model, name):
    out = tmp_path / "i"
    build([corpus], out, Options(model=str(tiny_model)))
    victim = next(out.glob(f"segments/*/{name}"))
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    with pytest.raises(IndexDamaged, match=f"{name} has changed"):
        Index(out)


def test_rows_of_another_layout_are_said(corpus, tmp_path):
    out = tmp_path / "i"
    build([corpus], out, PLAIN)
    victim = next(out.glob("segments/*/sources.bin"))
    victim.write_bytes(victim.read_bytes()[:-8])
    manifest = Manifest.load(out)
    (segment,) = manifest.segments
    files = tuple(
        replace(file, bytes=victim.stat().st_size, sha256=checksum(victim))
        if file.path.endswith("sources.bin")
        else file
        for file in segment.files
    )
    manifest.with_changes(segments=(replace(segment, files=files),)).save(out, "manifest.json")
    with pytest.raises(IndexDamaged, match="sources.bin has no whole number of rows"):
        add([corpus], out)


def test_a_manifest_of_a_newer_format_or_a_broken_one(corpus, tmp_path):
    out = tmp_path / "i"
    build([corpus], out, PLAIN)
    path = out / "manifest.json"
    good = path.read_text()
    path.write_text(good.replace('"format": 2', '"format": 99'))
    with pytest.raises(IndexDamaged, match="format 99"):
        Index(out)
    with pytest.raises(IndexDamaged, match="format 99"):
        build([corpus], out)
    path.write_text(good[:100])
    with pytest.raises(IndexDamaged, match="not a manifest"):
        Index(out)
    path.write_text(good.replace('next_number": 10', 'next_number": 3'))
    with pytest.raises(IndexDamaged, match="checksum"):
        Index(out)


def test_a_missing_or_changed_model(corpus, tmp_path):
    from tests.conftest import make_model

    model = make_model(tmp_path / "model")
    out = tmp_path / "i"
    build([corpus], out, Options(model=str(model)))
    model.rename(tmp_path / "moved")
    assert Index(out).search("river", mode="bm25")
    with pytest.raises(ModelError, match="no model in"):
        Index(out).search("river")
    make_model(tmp_path / "model", seed=1)
    with pytest.raises(ModelError, match="not the one"):
        Index(out).search("river")
    with pytest.raises(ModelError, match="no model in"):
        build([corpus], tmp_path / "j", Options(model=str(tmp_path / "nowhere")))
    assert not (tmp_path / "j").exists()


def test_every_byte_of_the_lexical_index_is_checked(corpus, tmp_path):
    out = tmp_path / "i"
    build([corpus], out, PLAIN)
    for path in sorted(out.glob("lexical-*/*.*")):
        if path.suffix == ".lock":
            continue
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 3] + bytes([data[len(data) // 3] ^ 255]) + data[len(data) // 3 + 1 :])
        assert verify(out) or path.name == ".managed.json", path
        with contextlib.suppress(IndexDamaged):
            Index(out).search("river music", mode="bm25")
        path.unlink()
        if path.suffix == ".fast":
            with pytest.raises(IndexDamaged, match="is missing.*verify --repair"):
                Index(out).search("river music", mode="bm25")
        if path.name not in (".managed.json",):
            assert verify(out), path
        path.write_bytes(data)
    assert verify(out) == []


def test_a_lost_lexical_index_is_an_error_for_readers_and_writers(corpus, tmp_path):
    out = tmp_path / "i"
    build([corpus], out, PLAIN)
    for path in out.glob("lexical-*/meta.json"):
        path.unlink()
    for use in (lambda: Index(out), lambda: add([corpus], out), lambda: compact(out)):
        with pytest.raises(IndexDamaged, match="--fresh"):
            use()
    assert not list(out.glob("lexical-*/meta.json"))
    build([corpus], out, PLAIN, fresh=True)
    assert verify(out) == []


def test_truncated_tombstones_are_noticed(corpus, tmp_path):
    out = tmp_path / "i"
    build([corpus], out, PLAIN)
    delete(out, ["b1"])
    next(out.glob("deleted-*.bin")).write_bytes(b"")
    with pytest.raises(IndexDamaged):
        Index(out)


def rewritten(out, change):
    """Change the manifest and make its checksum right again, as another version of the program would."""
    path = out / "manifest.json"
    body = json.loads(path.read_text())
    del body["sha256"], body["format"]
    change(body)
    path.write_text(json.dumps({"format": FORMAT, "sha256": _digest(body), **body}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: body.pop("settings"), "settings is missing"),
        (lambda body: body.update(segments=7), "segments is not a list"),
        (lambda body: body["segments"][0].pop("first"), "first is missing"),
        (lambda body: body["segments"][0].update(first="0"), "first is not a whole number"),
        (lambda body: body["segments"][0].update(passages=-1), "out of bounds"),
        (lambda body: body.update(next_number=1 << 70), "out of bounds"),
        (lambda body: body["settings"].update(sentences=1), "sentences is not true or false"),
        (lambda body: body["lexical"].update(folder="../x"), "no name of ours"),
        (lambda body: body["lexical"]["files"][0].update(path="/etc/passwd"), "is not below it"),
        (lambda body: body["segments"][0]["files"][0].update(path="segments/../../x"), "is not below it"),
        (lambda body: body.update(dense=[]), "is not an object"),
        (lambda body: body.update(next_number=0), "next_number is in use already"),
        (lambda body: body["segments"][0].update(last=0), "do not fit"),
        (lambda body: body["segments"][0].update(passages=1 << 61), "do not fit"),
        (lambda body: body["segments"].append(body["segments"][0]), "do not fit"),
    ],
)
def test_a_manifest_with_a_wrong_field_is_an_error_and_no_crash(corpus, tmp_path, change, message):
    out = tmp_path / "i"
    build([corpus], out, PLAIN)
    rewritten(out, change)
    for use in (lambda: Index(out), lambda: add([corpus], out), lambda: verify(out)):
        with pytest.raises(IndexDamaged, match=message):
            use()


def test_a_field_of_a_newer_program_is_overlooked_by_readers_and_keeps_writers_out(corpus, tmp_path):
    out = tmp_path / "i"
    build([corpus], out, PLAIN)
    rewritten(out, lambda body: body["settings"].update(colour="blue"))
    assert Index(out).search("river")
    assert verify(out) == []
    with pytest.raises(IndexDamaged, match=r"does not know its settings\.colour.*Upgrade"):
        add([corpus], out)
    build([corpus], out, PLAIN, fresh=True)
    add([corpus], out)


@pytest.mark.parametrize("text", ["[" * 200_000, '{"format": ' + "9" * 5000 + "}", '{"format": true}', '{"format": 2, "a": ' + '{"a":' * 900 + "1" + "}" * 901])  # fmt: skip
def test_a_manifest_of_nonsense_is_an_error(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(IndexDamaged):
        Index(tmp_path)


@pytest.mark.parametrize("name", ["encoder.fp32.onnx", "tokenizer.json", "config.json"])
def test_a_missing_file_of_the_model_is_found_by_verify(corpus, tmp_path, name):
    from tests.conftest import make_model

    model = make_model(tmp_path / "model")
    out = tmp_path / "i"
    build([corpus], out, Options(model=str(model)))
    (model / name).rename(tmp_path / name)
    assert verify(out)
    (tmp_path / name).rename(model / name)
    assert verify(out) == []


def test_files_of_another_state_are_noticed(corpus, tmp_path):
    out = tmp_path / "i"
    build([corpus], out, PLAIN)
    (old,) = out.glob("lexical-*")
    kept = {path.name: path.read_bytes() for path in old.iterdir()}
    delete(out, ["b1"])
    (new,) = out.glob("lexical-*")
    (new / "meta.json").write_bytes(kept["meta.json"])
    with pytest.raises(IndexDamaged, match="checksum is wrong|bytes"):
        Index(out)
    assert verify(out)


def test_a_model_that_gives_no_numbers_is_refused(corpus, tmp_path):
    import onnx
    from onnx import numpy_helper

    from mundap.disk import checksum
    from mundap.models.folder import EncoderConfig
    from tests.conftest import make_model

    model = make_model(tmp_path / "model")
    graph = onnx.load(model / "encoder.fp32.onnx")
    table = numpy_helper.to_array(graph.graph.initializer[0]).copy()
    table[5:] = float("nan")
    graph.graph.initializer[0].CopyFrom(numpy_helper.from_array(table, "table"))
    onnx.save(graph, model / "encoder.fp32.onnx")
    sums = {name: checksum(model / name) for name in ("encoder.fp32.onnx", "tokenizer.json")}
    replace(EncoderConfig.load(model), sha256=sums).save(model)
    with pytest.raises(ModelError, match="not numbers"):
        build([corpus], tmp_path / "i", Options(model=str(model)))
