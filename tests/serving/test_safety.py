"""Who may ask, how often and how slowly; and how a server ends."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from mundap import Index
from mundap.cli.serve import token
from tests.serving.conftest import SOURCE, Server, httpx2, until
from tests.systems import not_windows


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("safe")
    (folder / "a.txt").write_text("The king of the river was a villain.")
    Index.build([folder / "a.txt"], folder / "i", model=str(tiny_model))
    return folder


@pytest.fixture(scope="module")
def guarded(folder, tiny_reader, start):
    limits = {"rate": 20, "burst": 20, "at_once": 3, "connections": 40, "head_seconds": 1.0, "seconds": 2.0}
    return start({"main": folder / "i"}, tiny_reader, host="0.0.0.0", token="se cret", limits=limits)


def command(folder, *more, **environment):
    words = [sys.executable, "-m", "mundap", "serve", "-i", str(folder / "i"), "--port", "0", *more]
    return subprocess.run(words, capture_output=True, text=True, timeout=240,
                          env={**os.environ, "PYTHONPATH": SOURCE, **environment})  # fmt: skip


def test_beyond_this_machine_a_token_is_needed(folder):
    done = command(folder, "--host", "0.0.0.0")
    assert done.returncode == 2
    assert "needs a token" in done.stderr
    assert "--token-file" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_cannot_be_served_is_said(folder, tmp_path):
    assert "no index in" in command(tmp_path).stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = command(folder, "--port", str(taken.getsockname()[1]))
    assert done.returncode == 1
    assert "cannot listen at 127.0.0.1" in done.stderr


def test_the_token(guarded):
    address = f"http://127.0.0.1:{guarded.port}"
    for header in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic se cret"}, {"authorization": "Bearer"},
                   {"authorization": "Bearer se cre"}, {"authorization": b"Bearer \xff"}):  # fmt: skip
        for path in ("/v1/indexes", "/metrics", "/openapi.json"):
            answer = httpx2.get(address + path, headers=header)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
    assert httpx2.get(f"{address}/v1/indexes", headers={"authorization": "bearer se cret"}).status_code == 200
    for path in ("/", "/healthz", "/readyz", "/static/index.html"):
        assert httpx2.get(address + path).status_code == 200


def test_the_token_comes_from_a_file_or_the_environment(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MUNDAP_TOKEN", " xyz ")
    assert token(None) == "xyz"
    (tmp_path / "token").write_text("abc\n")
    words = ["-m", "mundap", "serve", "-i", f"x={folder / 'i'}", "--host", "0.0.0.0", "--port", "0"]
    server = Server([*words, "--token-file", str(tmp_path / "token")])
    try:
        address = f"http://127.0.0.1:{server.port}/v1/indexes"
        assert httpx2.get(address, headers={"authorization": "Bearer xyz"}).status_code == 401
        found = httpx2.get(address, headers={"authorization": "Bearer abc"})
        assert found.json()["indexes"][0]["name"] == "x"
    finally:
        assert server.stop() == 0


def test_a_client_that_asks_too_often_is_told_when_to_come_back(folder, start):
    # One request a second: a busy machine, too, sends sixty faster than that.
    server = start({"main": folder / "i"}, None, host="0.0.0.0", token="se cret", limits={"rate": 1, "burst": 20})
    with httpx2.Client(base_url=server.address, headers={"authorization": "Bearer se cret"}, timeout=60) as client:
        many = client.post("/v1/search", json={"questions": ["river"] * 18})
        assert many.status_code == 200
        assert client.post("/v1/search", json={"questions": ["river"] * 18}).status_code == 429
        answers = [client.get("/v1/indexes") for _ in range(60)]
        assert 200 in [answer.status_code for answer in answers]
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert int(refused.headers["retry-after"]) >= 1
        assert client.get("/healthz").status_code == 200
        time.sleep(int(refused.headers["retry-after"]) + 0.1)
        assert client.get("/v1/indexes").status_code == 200


def test_a_request_to_rerank_counts_as_much_as_what_is_read_for_it(folder, tiny_reader, start):
    server = start({"main": folder / "i"}, tiny_reader, limits={"rate": 0.001, "burst": 11})
    body = {"question": "river", "k": 1, "rerank": True}
    statuses = [httpx2.post(f"{server.address}/v1/search", json=body, timeout=60).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]  # fifty passages each, as much as five questions


def test_slow_clients_are_left_and_idle_ones_make_room(guarded):
    """Neither unfinished heads nor idle connections keep others out."""
    idle = [socket.create_connection(("127.0.0.1", guarded.port)) for _ in range(200)]
    try:
        for connection in idle[:100]:
            connection.sendall(b"GET /v1/indexes HTTP/1.1\r\nHost: localhost\r\n")
        assert httpx2.get(f"http://127.0.0.1:{guarded.port}/healthz").status_code == 200
        closed = 0
        for connection in idle:
            connection.settimeout(60)
            try:
                closed += connection.recv(10) == b""
            except ConnectionError:
                closed += 1
        assert closed == 200
    finally:
        for connection in idle:
            connection.close()


def test_a_body_that_never_comes_ends_with_408_and_holds_few(guarded):
    time.sleep(1.1)
    head = (b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer se cret\r\n"
            b"Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{")  # fmt: skip
    slow = [socket.create_connection(("127.0.0.1", guarded.port), 60) for _ in range(5)]
    for connection in slow:  # all at once: the first must not have been given up when the last comes
        connection.sendall(head)
    answers = [connection.recv(1 << 16) for connection in slow]
    statuses = [answer.split()[1] for answer in answers]
    assert sorted(statuses) == [b"408"] * 3 + [b"429"] * 2
    for connection in slow:
        connection.close()


@not_windows
@pytest.mark.parametrize("most", [1500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_crowd_of_connections_does_not_keep_others_out(folder, tiny_reader, start, most):
    """Each connection is closed or waits; whoever asks is answered."""
    server = start({"main": folder / "i"}, tiny_reader, limits={"connections": 500, "rate": 0, "at_once": 0})
    import resource

    most = min(most, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 500)

    async def crowd():
        opened = []
        while len(opened) < most:
            tries = [asyncio.open_connection("127.0.0.1", server.port) for _ in range(250)]
            opened += await asyncio.gather(*tries)
        async with httpx2.AsyncClient(base_url=server.address, timeout=120) as client:
            answers = [await client.post("/v1/search", json={"question": f"river {number}"}) for number in range(5)]
        for _, writer in opened:
            writer.transport.abort()
        return [answer.status_code for answer in answers]

    assert asyncio.run(crowd()) == [200] * 5
    assert server.search("king").status_code == 200


def test_a_stop_finishes_what_is_in_flight(folder, tiny_reader, start):
    server = start({"main": folder / "i"}, tiny_reader)
    body = json.dumps({"question": "who is the king"}).encode()
    head = (
        "POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
        connection.sendall(head.encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 100")  # now it waits for the body
        connection.sendall(body[:5])
        server.process.send_signal(signal.SIGTERM)
        until(lambda: not reachable(server.port))
        connection.sendall(body[5:])
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
    assert server.process.wait(120) == 0
    assert not [line for line in server.log if json.loads(line)["level"] == "error"]


def reachable(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
