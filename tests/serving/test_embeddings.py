"""OpenAI's own client against `mundap serve`, and the vectors against the encoder's."""

import base64
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mundap import Encoder, Index
from mundap.disk import checksum
from mundap.models.folder import EncoderConfig
from tests.conftest import make_model
from tests.serving.conftest import until

openai = pytest.importorskip("openai", reason="needs the extra `dev`")
httpx2 = pytest.importorskip("httpx2", reason="needs the extra `dev`")
pytest.importorskip("fastapi", reason="needs the extra `serve`")

SOURCE = str(Path(__file__).parents[2] / "src")
TEXTS = ["The river runs to the sea.", "서울은 대한민국의 수도이다.", "<script>’", "king " * 500]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    """An encoder that tells questions from passages."""
    folder = make_model(tmp_path_factory.mktemp("two") / "towers", seed=1)
    (folder / "encoder.fp32.onnx").rename(folder / "question.fp32.onnx")
    other = make_model(tmp_path_factory.mktemp("other") / "towers", seed=2)
    (other / "encoder.fp32.onnx").rename(folder / "encoder.fp32.onnx")
    sums = {path.name: checksum(path) for path in folder.iterdir() if path.name != "config.json"}
    replace(EncoderConfig.load(folder), sha256=sums).save(folder)
    return Encoder.from_pretrained(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def address(encoder, folder):
    (folder / "a.txt").write_text("The river runs to the sea.")
    Index.build([folder / "a.txt"], folder / "i", model=str(encoder.folder))
    Index.build([folder / "a.txt"], folder / "words", model="none")
    command = [sys.executable, "-m", "mundap", "serve", "-i", f"main={folder / 'i'}", "-i", f"words={folder / 'words'}"]
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    with subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True, env=environment) as process:
        yield re.search(r"http://\S+", process.stdout.readline()).group().rstrip("/")
        process.terminate()


@pytest.fixture
def client(address):
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def post(address):
    def send(**body):
        return httpx2.post(f"{address}/v1/embeddings", json=body, timeout=60)

    return send


def rows(answer):
    return np.array([one.embedding for one in answer.data], np.float32)


def test_vectors_are_the_encoders(client, encoder):
    questions, passages = encoder.encode_questions(TEXTS), encoder.encode_passages([("", text) for text in TEXTS])
    assert not np.allclose(questions, passages)
    answer = client.embeddings.create(model="tiny", input=TEXTS)  # this client asks for base64
    assert (rows(answer) == passages).all() and [one.index for one in answer.data] == [0, 1, 2, 3]
    answer = client.embeddings.create(model="tiny-query", input=TEXTS)
    assert (rows(answer) == questions).all() and answer.model == "tiny"
    answer = client.embeddings.create(model="tiny", input=TEXTS, extra_body={"input_type": "query"})
    assert (rows(answer) == questions).all()
    answer = client.embeddings.create(model="tiny-passage", input=TEXTS[0], encoding_format="float", dimensions=16)
    assert (rows(answer) == passages[:1]).all()
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == encoder.count_tokens(TEXTS[:1])[0]


def test_the_answer_has_openais_shape(post, encoder):
    answer = post(model="tiny", input="river").json()
    assert answer.keys() == {"object", "data", "model", "usage"} and answer["object"] == "list"
    assert answer["data"][0].keys() == {"object", "index", "embedding"}
    assert len(answer["data"][0]["embedding"]) == encoder.config.dimension
    coded = post(model="tiny", input="river", encoding_format="base64").json()["data"][0]["embedding"]
    assert np.frombuffer(base64.b64decode(coded), "<f4").tolist() == answer["data"][0]["embedding"]


def test_many_texts_at_once(client, encoder):
    texts = [f"river {number}" for number in range(1000)]
    expected = encoder.encode_passages([("", text) for text in texts])
    assert (rows(client.embeddings.create(model="tiny", input=texts)) == expected).all()


@pytest.mark.parametrize(
    "body, status, words",
    [
        ({"input": [1, 2, 3]}, 422, "tokens are not understood"),
        ({"input": [[1, 2], [3]]}, 422, "tokens are not understood"),
        ({"input": []}, 422, "between 1 and 1000"),
        ({"input": ["a"] * 1001}, 422, "between 1 and 1000"),
        ({"input": ["a", " "]}, 422, "not only spaces"),
        ({"input": ""}, 422, "between 1 and 100000 characters"),
        ({"input": "a" * 100_001}, 422, "between 1 and 100000 characters"),
        ({"input": None}, 422, "input"),
        ({"input": "a", "dimensions": 8}, 422, "tiny gives vectors of 16 dimensions only"),
        ({"input": "a", "encoding_format": "int8"}, 422, "encoding_format"),
        ({"input": "a", "input_type": "essay"}, 422, "input_type"),
        ({"input": "a", "model": "tiny-query", "input_type": "passage"}, 422, "contradict"),
        ({"input": "a", "model": "text-embedding-3-small"}, 404, "There are: tiny, tiny-query."),
        ({"input": "a", "surprise": 1}, 422, "surprise"),
    ],
)
def test_what_is_refused(post, body, status, words):
    answer = post(**{"model": "tiny", **body})
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]


def test_the_client_shows_the_words(client):
    with pytest.raises(openai.NotFoundError, match="no model is called 'nothing'"):
        client.embeddings.create(model="nothing", input="river")


def test_an_index_can_be_chosen_and_may_have_no_vectors(address):
    def status(index):
        where = f"{address}/v1/embeddings?index={index}"
        return httpx2.post(where, json={"model": "tiny", "input": "river"}).status_code

    assert [status(index) for index in ("main", "words", "nothing")] == [200, 422, 404]


def test_an_index_that_is_away_for_a_moment(address, folder, post):
    (folder / "i").rename(folder / "away")
    answer = post(model="tiny", input="river")
    (folder / "away").rename(folder / "i")
    assert answer.status_code == 503 and "no index in" in answer.json()["error"]["message"]
    until(lambda: post(model="tiny", input="river").status_code == 200)


def test_text_that_is_no_text(address):
    def status(body):
        kind = {"Content-Type": "application/json"}
        return httpx2.post(f"{address}/v1/embeddings", content=body, headers=kind).status_code

    assert status(b'{"model": "tiny", "input": "\\ud800"}') == 200  # half a character is a question mark
    for body in (b'{"model": "tiny", "input": "\xff"}', b"{", b"[]", b'"' * 1000, b"[" * 100_000):
        assert status(body) in (400, 422)
