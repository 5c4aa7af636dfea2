"""Rankings and comparisons over HTTP, against what the library itself says."""

import gzip
import json
import time

import httpx2
import pytest

from mundap.evaluation.compare import comparison
from mundap.evaluation.retrieval import RetrievalTask, measure
from tests.conftest import EXAMPLES

QUESTIONS = (EXAMPLES / "questions.jsonl").read_text("utf-8").splitlines()[:24]


@pytest.fixture(scope="module")
def client(examples):
    with httpx2.Client(base_url=examples, timeout=120) as client:
        yield client


def send(client, questions=None, runs=(), **data):
    files = [
        ("questions", ("q.jsonl", questions or "\n".join(QUESTIONS))),
        *(("runs", (name, text)) for name, text in runs),
    ]
    return client.post("/v1/compare", files=files, data=data)


def lines(answer):
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def failed(answer, status):
    error = lines(answer)[-1]["error"] if answer.status_code == 200 else answer.json()["error"]
    assert error["status"] == status
    assert "/" not in error["message"].replace("docs/formats.md", "")  # no path of the server's
    return error["message"]


def test_rankings_are_those_of_the_index_with_their_reasons(client, example_index):
    question = "Who is the bad guy in Lord of the Rings?"
    found = client.post("/v1/rankings", json={"question": question, "k": 3}).json()
    assert list(found["modes"]) == ["bm25", "dense", "hybrid"]
    places = {
        mode: {hit.passage.id: hit.rank for hit in example_index.search(question, 100, mode)} for mode in found["modes"]
    }
    for mode, rows in found["modes"].items():
        assert [row["passage"]["id"] for row in rows] == list(places[mode])[:3]
        for row in rows:
            name, text = row["passage"]["id"], row["passage"]["text"]
            assert row["places"] == {other: places[other].get(name) for other in places}
            assert all((row["scores"][other] is None) == (place is None) for other, place in row["places"].items())
            words = {text[start:end].lower() for start, end in row["words"]["text"]}
            assert words <= {"lord", "ring", "rings", "bad", "guy", "who"}
            assert 0 < len(row["shared"]) <= found["terms"] == 5
    filtered = client.post("/v1/rankings", json={"question": question, "filters": {"where": {"language": "ko"}}}).json()
    assert all(row["passage"]["metadata"]["language"] == "ko" for rows in filtered["modes"].values() for row in rows)


@pytest.mark.parametrize(
    "body", [{}, {"question": ""}, {"question": "a", "k": 0}, {"question": "a", "k": 10**6}, {"question": "a", "x": 1}]
)
def test_rankings_refuse_what_they_cannot_do(client, body):
    assert client.post("/v1/rankings", json=body).status_code == 422
    assert client.post("/v1/rankings", json={"question": "a", "index": "nowhere"}).status_code == 404


def test_a_comparison_is_what_the_library_says(client, example_index, tmp_path):
    told = lines(send(client, modes=["bm25", "hybrid"], k=5))
    path = tmp_path / "q.jsonl"
    path.write_text("\n".join(QUESTIONS), "utf-8")
    own = measure(RetrievalTask(example_index, str(path), modes=("bm25", "hybrid"), cuts=(1, 5, 20), gold=False))
    expected = comparison(own.systems, own.cuts, 5, own.differences)
    result = told[-1]["result"]
    assert {name: result[name] for name in expected} == json.loads(json.dumps(expected))
    assert result["changed_count"] == len(expected["changed"])
    assert {line["stage"] for line in told[:-1]} == {"bm25", "hybrid", "significance"}
    assert all(line["done"] <= line["total"] for line in told[:-1])


def test_files_of_results_are_compared_as_well(client, example_index, tmp_path):
    path = tmp_path / "q.jsonl"
    path.write_text("\n".join(QUESTIONS), "utf-8")
    measure(
        RetrievalTask(
            str(example_index.path), str(path), modes=("bm25", "hybrid"), cuts=(20,), out=str(tmp_path / "run.json")
        )
    )
    runs = [(name, (tmp_path / f"run.{name}.json").read_text("utf-8")) for name in ("bm25", "hybrid")]
    by_files = lines(send(client, runs=runs))[-1]["result"]
    by_modes = lines(send(client, modes=["bm25", "hybrid"]))[-1]["result"]
    assert by_files["systems"] == ["first", "second"]
    assert list(by_files["figures"].values()) == list(by_modes["figures"].values())


def test_what_cannot_be_compared(client):
    assert "two different modes" in failed(send(client), 422)
    assert "two different modes" in failed(send(client, modes=["bm25", "bm25"]), 422)
    assert "two different modes" in failed(send(client, modes=["bm25", "dense"], runs=[("a", "x")]), 422)
    modes = ["bm25", "dense"]
    assert "compressed" in failed(send(client, gzip.compress(b"{}" * 10**6), modes=modes), 422)
    assert "larger than 4 MB" in failed(send(client, "x" * (4 << 20) + "y", modes=modes), 413)
    row = json.dumps({"question": "a", "answer": ["b"]})
    assert "the limit is 2,000" in failed(send(client, "\n".join([row] * 2001), modes=modes), 422)
    pattern = json.dumps({"question": "a", "answer": ["(a+)+\\s(b|c)*"]})
    assert "regular expressions" in failed(send(client, "\n".join([pattern] * 9), modes=modes), 422)
    assert "no question in it" in failed(send(client, "\n\n", modes=modes), 422)
    assert failed(send(client, "[" * 200_000, modes=modes), 422)
    assert failed(send(client, "\n".join(QUESTIONS), runs=[("a", "\x00"), ("b", "[" * 10_000)]), 422)
    assert (
        client.post(
            "/v1/compare", files={"questions": ("q", "x")}, data={"modes": modes}, params={"index": "no"}
        ).status_code
        == 404
    )
    assert client.post("/v1/compare", data={"modes": modes}).status_code == 422
    assert lines(send(client, modes=modes))[-1]["result"]["questions"] == len(QUESTIONS)  # and it goes on


def test_one_at_a_time_and_none_when_nobody_waits(client):
    many = "\n".join(json.dumps({"question": f"who is number {n}?", "answer": ["x"]}) for n in range(2000))
    files = [("questions", ("q.jsonl", many))]
    modes = ["bm25", "dense"]
    with client.stream("POST", "/v1/compare", files=files, data={"modes": modes}) as answer:
        told = answer.iter_lines()
        assert json.loads(next(told))["done"] == 16
        assert "another comparison" in failed(send(client, modes=modes), 503)
    for _ in range(1000):  # the first one ends soon after its client has gone
        answer = send(client, modes=modes)
        if answer.status_code == 200:
            break
        time.sleep(0.1)
    assert "result" in lines(answer)[-1]
