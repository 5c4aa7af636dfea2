"""What is missing, broken or of another version in an index is found and said."""

import contextlib
from dataclasses import replace

import pytest

from mundap import Index
from mundap.errors import IndexDamaged, ModelError
from mundap.index.build import Options, add, build, compact, delete
from mundap.index.manifest import Manifest
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


def test_rows_of_another_layout_are_said(corpus, tmp_path):
    out = tmp_path / "i"
    build([corpus], out, PLAIN)
    victim = next(out.glob("segments/*/sources.bin"))
    victim.write_bytes(victim.read_bytes()[:-8])
    manifest = Manifest.load(out)
    (segment,) = manifest.segments
    files = tuple(
        replace(file, bytes=victim.stat().st_size) if file.path.endswith("sources.bin") else file
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
    path.write_text(good.replace('"format": 1', '"format": 99'))
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
