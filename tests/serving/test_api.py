"""The API against the functions of the command line, and against bad input of every kind."""

import json
import socket

import pytest

from mundap import Index, Reader, ask
from mundap.pipeline.search import search

HOSTILE = "<script>alert(1)</script> & \"quotes\" 'and' <img src=x onerror=alert(2)>"
ODD = ["서울의 강은?", "naïve café", "👩‍👩‍👧‍👦 🇰🇷", "\u202eright to left", "a\u0000b", "e\u0301" * 50, "\ufffe\uffff", "’“”", "x" * 2000,
       "DROP TABLE; -- +body:river OR (\"", HOSTILE]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("served")
    docs = folder / "docs" / "sub"
    docs.mkdir(parents=True)
    (docs / "one.txt").write_text(" ".join(f"word{n}" for n in range(250)) + " the river is a villain")
    (docs / "two.md").write_text(
        "---\ntitle: Two\nlanguage: en\n---\nThe king of the river was a villain in the film.\n"
    )
    (docs / "hostile.txt").write_text(HOSTILE + " king")
    (docs / "세.txt").write_text("서울은 대한민국의 수도이다. 한강이 흐른다.")
    Index.build([folder / "docs"], folder / "i", model=str(tiny_model))
    Index.build([docs / "two.md"], folder / "words", model="none")
    return folder


@pytest.fixture(scope="module")
def server(folder, tiny_reader, start):
    return start({"main": folder / "i", "words": folder / "words"}, tiny_reader, limits={"rate": 0})


@pytest.fixture(scope="module")
def index(folder):
    return Index(folder / "i")


def failed(answer, status):
    """The message of an error that has the shape all have."""
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["status"] == status
    assert "Traceback" not in answer.text
    return error["message"]


@pytest.mark.parametrize("options", [{}, {"k": 2, "n": 3, "threshold": 0.0}, {"mode": "bm25"},
                                     {"filters": {"sources": ["*/two.md"], "where": {"language": "en"}}}])  # fmt: skip
def test_ask_is_what_the_command_line_prints(server, index, tiny_reader, options):
    answer = server.ask("who is the king of the river", **options)
    assert answer.status_code == 200
    given = dict(options)
    if filters := given.pop("filters", None):
        from mundap import Filters

        given["filters"] = Filters(sources=tuple(filters["sources"]), metadata=filters["where"])
    given["answers"] = given.pop("n", 1)
    expected = ask(index, "who is the king of the river", Reader.from_pretrained(tiny_reader), **given)
    assert answer.json() == json.loads(json.dumps(expected.as_dict()))
    assert expected.answers or expected.guess


@pytest.mark.parametrize("mode", ["bm25", "dense", "hybrid", None])
def test_search_is_what_the_command_line_prints(server, index, mode):
    found = server.search("river king", mode=mode, k=3).json()
    expected = search(index, ["river king"], 3, mode)[0].as_dict()
    assert [hit["passage"] for hit in found["hits"]] == [hit["passage"] for hit in expected["hits"]]
    assert [hit["score"] for hit in found["hits"]] == pytest.approx([hit["score"] for hit in expected["hits"]])
    assert (found["query"], found["mode"]) == ("river king", mode or "hybrid")


def test_several_questions_give_a_list_and_each_what_it_gets_alone(server):
    questions = ["river", "서울의 강", "river", "villain film"]
    found = server.post("/v1/search", {"questions": questions, "k": 2}).json()
    assert [one["query"] for one in found] == questions
    for one in found:
        alone = server.search(one["query"], k=2).json()
        assert [hit["passage"]["id"] for hit in one["hits"]] == [hit["passage"]["id"] for hit in alone["hits"]]


def test_the_reader_orders_what_was_found(server, index, tiny_reader):
    found = server.search("river", k=4, rerank=True).json()
    expected = search(index, ["river"], 4, None, Reader.from_pretrained(tiny_reader))[0]
    assert [hit["passage"]["id"] for hit in found["hits"]] == [hit.passage.id for hit in expected.hits]


def test_passages_and_documents_come_with_their_offsets(server, index):
    found = server.get("/v1/documents/sub/one.txt").json()
    stored = index.document("sub/one.txt")
    assert (found["text"], found["title"], found["source"]) == (stored.text, stored.title, stored.source)
    assert len(found["passages"]) == 3
    for place in found["passages"]:
        passage = server.get(f"/v1/passages/{place['id'].replace('#', '%23')}").json()
        assert passage["text"] == found["text"][place["start"] : place["end"]]
    assert server.get("/v1/documents/sub/세.txt").json()["text"].startswith("서울은")


def test_no_path_of_a_request_opens_a_file(server, folder):
    for name in (
        "../docs/sub/two.md",
        "%2e%2e/%2e%2e/etc/passwd",
        "%2fetc%2fpasswd",
        f"{folder}/docs/sub/two.md",
        "%00",
        "%ff%fe",
    ):
        assert server.get(f"/v1/documents/{name}").status_code == 404
        assert server.get(f"/static/{name}").status_code == 404


def test_indexes_go_by_name(server, index):
    listed = server.get("/v1/indexes").json()["indexes"]
    assert [one["name"] for one in listed] == ["main", "words"]
    assert listed[0] == {
        "name": "main", "documents": 4, "passages": len(index), "modes": ["bm25", "dense", "hybrid"],
        "languages": ["en", "ko"],
        "writable": False, "generation": 1, "reader": True,
    }  # fmt: skip
    assert listed[1]["modes"] == ["bm25"]
    by_query = server.post("/v1/search?index=words", {"question": "river"}).json()
    assert by_query == server.search("river", index="words").json()
    assert by_query["mode"] == "bm25"
    assert "There are: main, words" in failed(server.search("river", index="nix"), 404)
    failed(server.post("/v1/search?index=main", {"question": "river", "index": "words"}), 422)
    assert "no vectors" in failed(server.search("river", index="words", mode="dense"), 422)


def test_a_server_is_read_only_unless_told_otherwise(server):
    assert "--writable" in failed(server.post("/v1/documents", {"documents": [{"id": "a", "text": "b"}]}), 403)
    assert "--writable" in failed(server.client.post("/v1/documents", files={"files": ("a.txt", b"b")}), 403)
    failed(server.client.delete("/v1/documents/sub/one.txt"), 403)


@pytest.mark.parametrize("body", [
    b"", b"{", b"nonsense", b"[]", b"null", b'"text"', b"\xff\xfe", b'{"question": "river"', b"[" * 100_000,
    b'{"question": 5}', b'{"question": null}', b'{"question": ""}', b'{"question": "  \\u00a0 "}', b'{"question": ["river"]}',
    b'{"question": "river", "k": 0}', b'{"question": "river", "k": "5"}', b'{"question": "river", "k": 1e99}',
    b'{"question": "river", "k": 101}', b'{"question": "river", "k": NaN}', b'{"question": "river", "mode": "all"}',
    b'{"question": "river", "nonsense": 1}', b'{"question": "river", "filters": {"source": "x"}}',
    b'{"question": "river", "filters": []}', b'{"question": "river", "index": 5}', b'{"question": "\\ud800"}',
    b'{"question": "' + b"x" * 2001 + b'"}',
])  # fmt: skip
@pytest.mark.parametrize("path", ["/v1/ask", "/v1/search"])
def test_bad_bodies_are_refused_in_words(server, path, body):
    answer = server.client.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert failed(answer, answer.status_code)


def test_a_body_that_does_not_say_that_it_is_json_is_refused(server):
    answer = server.client.post("/v1/ask", content=b'{"question": "river"}', headers={"content-type": "text/plain"})
    failed(answer, 422)


@pytest.mark.parametrize("question", ODD)
def test_unicode_of_every_kind(server, question):
    for answer in (server.ask(question), server.search(question)):
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
    assert answer.json()["query"] == question


def test_hostile_text_comes_back_as_data(server):
    answer = server.get("/v1/documents/sub/hostile.txt")
    assert answer.json()["text"].startswith(HOSTILE)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/static/index.html", "/v1/indexes", "/nix", "/v1/documents/nix", "/metrics"])
def test_every_response_has_the_security_headers(server, path):
    answer = server.get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert "access-control-allow-origin" not in answer.headers
    assert "server" not in answer.headers


def test_other_sites_are_not_answered(server):
    failed(server.get("/v1/indexes", headers={"host": "evil.example"}), 421)
    failed(server.get("/v1/indexes", headers={"host": f"127.0.0.1.evil.example:{server.port}"}), 421)
    failed(server.get("/v1/indexes", headers={"origin": "https://evil.example"}), 403)
    failed(server.get("/v1/indexes", headers={"origin": "null"}), 403)
    assert server.get("/v1/indexes", headers={"origin": server.address}).status_code == 200
    assert server.get("/v1/indexes", headers={"host": "localhost"}).status_code == 200
    preflight = server.client.options("/v1/ask", headers={"origin": "https://evil.example"})
    assert preflight.status_code == 403


def test_a_body_of_50_mb_is_refused_and_nobody_else_notices(server):
    def parts():
        for _ in range(50):
            yield b"x" * 1_000_000

    headers = {"content-type": "application/json"}
    assert "1024 kB" in failed(server.client.post("/v1/ask", content=b"x" * 50_000_000, headers=headers), 413)
    assert "1024 kB" in failed(server.client.post("/v1/ask", content=parts(), headers=headers), 413)
    assert server.search("river").status_code == 200


@pytest.mark.parametrize("said", [b"nonsense\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00\xff\x16\x03\x01" * 20, b"POST /v1/ask HTTP/1.1\r\nContent-Length: -5\r\n\r\n"])  # fmt: skip
def test_what_is_no_http_is_refused(server, said):
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(said)
        answer = connection.recv(1 << 16)
        assert answer.startswith(b"HTTP/1.1 400")
        assert b'"status": 400' in answer


def test_an_endless_head_is_refused(server):
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 431")


def test_health_metrics_and_description(server):
    assert server.get("/healthz").json() == {"status": "ok"}
    assert server.get("/readyz").json() == {"status": "ok"}
    server.search("river", k=7)
    server.search("river", k=7)
    figures = server.get("/metrics").text
    assert 'mundap_requests_total{route="/v1/search",status="200"}' in figures
    assert 'mundap_index_generation{index="main"} 1.0' in figures
    hits = next(
        float(line.split()[1]) for line in figures.splitlines() if line.startswith('mundap_cache_total{found="yes"}')
    )
    assert hits >= 1
    description = server.get("/openapi.json").json()
    assert {"/v1/ask", "/v1/search", "/v1/documents", "/v1/documents/{id}"} <= set(description["paths"])
    assert server.get("/docs").text == server.get("/").text  # FastAPI's own page loads scripts from elsewhere


def test_logs_are_json_without_text(server):
    secret = "zebra river crossing"
    server.ask(secret)
    server.client.post("/v1/ask", content=b'{"question": "zebra', headers={"content-type": "application/json"})
    server.get("/v1/documents/zebra-secret")
    lines = [json.loads(line) for line in server.log]
    assert {"time", "level", "event", "route", "status", "ms", "client", "id"} <= set(lines[-1])
    assert not [line for line in server.log if "zebra" in line or "villain" in line or "서울" in line]


def test_documents_are_listed_in_pages(server, index):
    found = server.get("/v1/documents").json()
    listed, total = index.listing()
    assert (found["total"], found["documents"]) == (total, [one.as_dict() for one in listed])
    second = server.get("/v1/documents?most=1&first=1&sort=size").json()
    assert (second["total"], [one["id"] for one in second["documents"]]) == (4, [index.listing(sort="size")[0][1].id])
    assert [one["id"] for one in server.get("/v1/documents?words=TWO").json()["documents"]] == ["sub/two.md"]
    limited = server.get("/v1/documents", params={"where": ["language=en", "type=markdown"], "source": "*/sub/*"})
    assert [one["id"] for one in limited.json()["documents"]] == ["sub/two.md"]
    assert server.get("/v1/documents?where=language=xx").json() == {"total": 0, "documents": []}
    assert server.get("/v1/facts").json()["facts"] == index.facts()
    for bad in ("most=0", "most=1001", "first=-1", "sort=nix", "where=language", "words=" + "x" * 1001):
        failed(server.get(f"/v1/documents?{bad}"), 422)


def test_what_was_skipped_is_told_with_the_reason(start, tmp_path):
    (tmp_path / "good.txt").write_text("the river")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 no")
    Index.build([tmp_path / "good.txt", tmp_path / "broken.pdf"], tmp_path / "i", model="none")
    found = start({"main": tmp_path / "i"}).get("/v1/skipped").json()
    assert found["total"] == 1
    assert found["skipped"][0]["source"].endswith("broken.pdf")
    assert "not a readable PDF" in found["skipped"][0]["reason"]


def test_every_passage_says_where_it_stands(server):
    hit = server.search("king film", k=1, filters={"sources": ["*/two.md"]}).json()["hits"][0]
    assert hit["passage"]["place"] == "line 5"
    assert [one["place"] for one in server.get("/v1/documents/sub/two.md").json()["passages"]] == ["line 5"]
