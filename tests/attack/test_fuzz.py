"""Nonsense for every parser: what comes out is documents, a reason or an error of ours, and nothing else.

`MUNDAP_FUZZ=5000` tries that many inputs a parser; without it, a few.
"""

import contextlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mundap.documents import FORMATS, SourceFile, read
from mundap.errors import MundapError
from mundap.index.manifest import Manifest, _digest
from mundap.models.folder import EncoderConfig, ReaderConfig
from mundap.records import Document, Skipped
from tests.attack import fuzz

TRIES = int(os.environ.get("MUNDAP_FUZZ", "30"))
FUZZ = settings(
    max_examples=TRIES, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
# Pieces that mean something to one parser or another, strung together with noise.
PIECES = st.sampled_from(
    [b"---\n", b"title: x\n", b"<<: *a\n", b"&a [", b"# ", b"```\n", b"| a | b |\n|--|--|\n", b"<p>", b"<script>", b"</",
     b"<!--", b"&#x110000;", b"<![CDATA[", b"%PDF-1.7\n", b"1 0 obj\n<<", b">>stream\n", b"xref\n", b"trailer\n", b"PK\x03\x04",
     b'{"_id": "1", "text": "a"}\n', b'{"text": ', b"[", b"{", b'"', b"\\u", b"\\ud800", b"1e999", b"NaN", b"\t", b"id\ttext\ttitle\n",
     b"<mediawiki>", b"<page><title>x</title><text>", b"{{a|b", b"}}", b"[[File:x|", b"]]", b"{|\n|-\n", b"\xff\xfe", b"\xef\xbb\xbf",
     b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"\0", b"\r", b"\xc3\x28", "한".encode()]
)  # fmt: skip
BYTES = st.lists(PIECES | st.binary(max_size=12), max_size=30).map(b"".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("form", sorted(FORMATS))
@given(data=BYTES)
@FUZZ
def test_any_bytes_are_documents_or_a_reason(form, data, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(data)
    for found in read(SourceFile(path, "file", "file"), form):
        assert isinstance(found, Document | Skipped)
        if isinstance(found, Document):
            found.text.encode()
            json.dumps(dict(found.metadata))


@given(data=BYTES)
@FUZZ
def test_any_file_is_told_apart_and_read(data, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(data)
    list(read(SourceFile(path, "file", "file")))


@given(data=BYTES)
@FUZZ
def test_questions_and_runs_of_nonsense(data, tmp_path):
    from mundap.datasets import queries, runs

    path = tmp_path / "file"
    path.write_bytes(data)
    for reader in (lambda: list(queries.read(path)), lambda: list(runs.read_run(path))):
        with contextlib.suppress(MundapError):
            reader()


@given(changes=st.dictionaries(st.sampled_from(["settings", "lexical", "segments", "deleted", "dense", "generation",
                                                "next_number", "job", "tool", "new"]), JSON, min_size=1, max_size=3))  # fmt: skip
@FUZZ
def test_a_manifest_with_any_values(changes, tmp_path):
    body = {
        "settings": {},
        "lexical": {"folder": "lexical-000000", "files": []},
        "generation": 1,
        "segments": [],
        **changes,
    }
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 2, "sha256": _digest(body), **body}))
    with contextlib.suppress(MundapError):
        Manifest.load(tmp_path)


@given(data=st.binary(max_size=200))
@FUZZ
def test_a_manifest_of_any_bytes(data, tmp_path):
    (tmp_path / "manifest.json").write_bytes(data)
    with pytest.raises(MundapError):
        Manifest.load(tmp_path)


@given(facts=st.dictionaries(st.sampled_from(["name", "dimension", "max_length", "title", "sha256", "fusion_weight",
                                              "kind", "confidence", "threshold", "x"]), JSON))  # fmt: skip
@FUZZ
def test_a_model_config_of_any_values(facts, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(facts))
    for kind in (EncoderConfig, ReaderConfig):
        with contextlib.suppress(MundapError):
            kind.load(tmp_path)


SEEDS = sorted((Path(__file__).parent.parent / "documents" / "files").glob("*.*"))
"""A small file of every format, made by the program that writes it: the seeds that are damaged here."""


@st.composite
def damages(draw):
    """A change of a file: (what is done to it, where from 0 to 1, how much, other bytes), several times."""
    kinds = st.sampled_from(["flip", "cut", "drop", "double", "insert", "zero"])
    where = st.floats(0, 1, exclude_max=True)
    return draw(st.lists(st.tuples(kinds, where, st.integers(1, 200), PIECES), min_size=1, max_size=4))


def damaged(data, changes):
    for kind, where, size, piece in changes:
        at = int(where * len(data))
        part = data[at : at + size]
        data = {
            "flip": data[:at] + bytes(byte ^ 1 << size % 8 for byte in part[:1]) + data[at + 1 :],
            "cut": data[:at],
            "drop": data[:at] + data[at + size :],
            "double": data[: at + size] + part + data[at + size :],
            "insert": data[:at] + piece + data[at:],
            "zero": data[:at] + bytes(len(part)) + data[at + size :],
        }[kind]
    return data


@pytest.mark.parametrize("seed", SEEDS, ids=lambda path: path.name)
@given(changes=damages())
@FUZZ
def test_a_real_file_that_was_damaged_is_documents_or_a_reason(seed, changes, tmp_path):
    path = tmp_path / seed.name
    path.write_bytes(damaged(seed.read_bytes(), changes))
    for found in read(SourceFile(path, seed.name, seed.name)):
        assert isinstance(found, Document | Skipped)
        if isinstance(found, Document):
            found.text.encode()


def test_there_is_a_seed_of_every_format_that_programs_write():
    from mundap.documents import detect

    forms = {detect(SourceFile(path, path.name, path.name)) for path in SEEDS}
    assert {"docx", "pptx", "xlsx", "opendocument", "epub", "rtf", "email", "mbox", "notebook", "latex"} <= forms


@pytest.mark.parametrize("name", sorted(fuzz.PARSERS))
def test_the_seeds_of_atheris_and_what_it_found(name, tmp_path):
    """`make fuzz` begins with these; what broke a parser once breaks it no more."""
    found = fuzz.cases(name)
    assert found or name in ("pdf", "unknown")
    for number, path in enumerate(found):
        folder = tmp_path / str(number)
        folder.mkdir()
        fuzz.parse(name, path.read_bytes(), folder)


@pytest.mark.parametrize("name", ["tokenizer", "vectors", "upload"])
@given(changes=damages())
@FUZZ
def test_a_damaged_seed_is_an_error_of_ours(name, changes, tmp_path_factory):
    for path in fuzz.cases(name):
        fuzz.parse(name, damaged(path.read_bytes(), changes), tmp_path_factory.mktemp("seed"))


@given(text=st.lists(PIECES.map(lambda piece: piece.decode("utf-8", "replace")) | st.text(max_size=12), max_size=40))
@FUZZ
def test_wikitext_of_nonsense_is_prose(text):
    from mundap.documents.wikipedia.site import Site
    from mundap.documents.wikipedia.wikitext import clean

    clean("".join(text), Site(), "title", headings=True)


@given(settings=st.dictionaries(st.sampled_from(["batch_size", "learning_rate", "train", "seed", "epochs", "similarity", "base_model"]),
                                JSON, max_size=4), data=BYTES)  # fmt: skip
@FUZZ
def test_a_recipe_of_any_values(settings, data, tmp_path):
    from mundap.training import recipe_files
    from mundap.training.recipe import RetrieverRecipe

    path = tmp_path / "recipe.toml"
    for content in (data, "\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items()).encode()):
        path.write_bytes(content)
        with contextlib.suppress(MundapError):
            recipe_files.load(RetrieverRecipe, path)


@given(body=st.dictionaries(st.sampled_from(["question", "questions", "k", "mode", "filters", "documents", "where", "x"]), JSON),
       data=BYTES)  # fmt: skip
@FUZZ
def test_a_request_of_any_values(body, data):
    from pydantic import ValidationError

    from mundap.serving import schema

    for kind in (schema.AskBody, schema.SearchBody, schema.DocumentsBody):
        for content in (data, json.dumps(body).encode()):
            with contextlib.suppress(ValidationError):
                kind.model_validate_json(content)
