"""The real client of the protocol against `mundap mcp`, as a process of its own, over a small real index."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mundap import Index
from mundap.cli import run
from mundap.errors import UsageError
from mundap.index.build import add

pytest.importorskip("mcp", reason="needs the extra `mcp`")
pytest.importorskip("fastapi", reason="needs the extra `serve`")

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from mundap.serving.engine import Engine
from mundap.serving.mcp import _create_server, create_app
from mundap.serving.server import serve
from mundap.serving.settings import Settings

SOURCE = str(Path(__file__).parents[2] / "src")
HOSTILE = [
    "<script>alert(1)</script> river",
    "river'; DROP TABLE passages; --",
    'title:river AND (text:"sea" OR *)',
    "\x00\x1b[2J river \u202e\ufffe",
    "🏞️ river " + "a" * 1900,
    "../../../../etc/passwd",
    '{"jsonrpc":"2.0","method":"shutdown"}\n{"x":1}',
]

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
CALL = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "search", "arguments": {"question": "river"}},
}


@pytest.fixture
def folder(corpus, tmp_path, tiny_model, monkeypatch):
    monkeypatch.setattr("mundap.index.build.best_hangul", lambda: "bigrams")  # morphology takes seconds to load
    Index.build([corpus], tmp_path / "i", model=str(tiny_model))
    return tmp_path / "i"


@pytest.fixture
def words(folder, tiny_reader):
    """The command line, without transport."""
    return [sys.executable, "-m", "mundap", "mcp", "-i", f"docs={folder}", "--reader", str(tiny_reader)]


def over_stdio(words, *more):
    return Client(StdioServerParameters(command=words[0], args=[*words[1:], *more], env={"PYTHONPATH": SOURCE}))


def started(words):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(words, **pipes, env={**os.environ, "PYTHONPATH": SOURCE})


@contextlib.contextmanager
def over_http(words, *more, **env):
    """The address of a server that runs meanwhile."""
    environment = {**os.environ, "PYTHONPATH": SOURCE, **env}
    command = [*words, "--http", "--port", "0", *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield re.search(r"http://\S+", process.stdout.readline()).group()
        finally:
            process.terminate()
            assert process.wait(60) in (0, -15)


@pytest.fixture
def in_memory(folder, tiny_reader):
    """The same client and server without a process between them."""

    def connected(**indexes):
        settings = Settings({"docs": folder, **indexes}, reader=str(tiny_reader) if not indexes else "")
        return Client(_create_server(Engine(settings)))

    return connected


async def called(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


async def refused(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert result.is_error and result.structured_content is None
    return result.content[0].text


async def use_everything(client, folder):
    """All tools, in English and Korean, with good input and bad."""
    index = Index(folder)
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == {"search", "ask", "fetch_passage", "fetch_document"}
    assert all(tool.annotations.read_only_hint and tool.output_schema for tool in tools.values())
    assert "docs" in client.instructions

    found = await called(client, "search", question="Where does the river run?", k=2)
    assert found["hits"] == [hit.as_dict() for hit in index.search("Where does the river run?", 2)]
    korean = await called(client, "search", question="한강은 어디에 흐르나?", mode="bm25", index="docs")
    passage = korean["hits"][0]["passage"]
    assert passage["text"] == "서울은 대한민국의 수도이다. 한강이 흐른다."
    assert await called(client, "fetch_passage", id=passage["id"]) == passage
    document = await called(client, "fetch_document", id=passage["document"], start=4, length=5)
    assert (document["text"], document["start"], document["end"]) == ("대한민국의", 4, 9)
    assert document["length"] == len(passage["text"])
    past = await called(client, "fetch_document", id=passage["document"], start=10**9)
    assert past["text"] == ""
    only = await called(client, "search", question="river", filters={"where": {"topic": "geo"}})
    assert [hit["passage"]["document"] for hit in only["hits"]] == ["two.md"]
    ordered = await called(client, "search", question="music", rerank=True, filters=None)
    assert [hit["rank"] for hit in ordered["hits"]] == [1, 2, 3, 4, 5]

    answered = await called(client, "ask", question="Who runs to the sea?")
    assert answered["question"] == "Who runs to the sea?" and isinstance(answered["no_answer"], bool)

    assert "the question is empty. Type a few words." in await refused(client, "search", question="  ")
    assert "k = 101: choose between 1 and 100" in await refused(client, "ask", question="river", k=101)
    assert "the limit is 2000" in await refused(client, "search", question="x" * 2001)
    assert "no index is called 'other'. There are: docs." in await refused(
        client, "search", question="river", index="other"
    )
    assert "'bm25', 'dense' or 'hybrid'" in await refused(client, "search", question="river", mode="magic")
    for name in ("", "nothing", "../i/manifest.json", "/etc/passwd", "\x00"):
        assert "no passage has this id" in await refused(client, "fetch_passage", id=name)
        assert "no document has this id" in await refused(client, "fetch_document", id=name)
    for bad in ({}, {"question": 5}, {"question": "river", "k": 0}, {"question": "river", "filters": {"no": 1}}):
        assert "validation error" in await refused(client, "search", **bad)
    assert "Unknown tool" in await refused(client, "delete_everything")
    for question in HOSTILE:
        assert (await called(client, "search", question=question))["query"] == question
        await called(client, "ask", question=question)


def test_over_stdio(words, folder):
    async def main():
        async with over_stdio(words) as client:
            await use_everything(client, folder)

    asyncio.run(main())


def test_over_http(words, folder):
    async def main(address):
        async with Client(address) as client:
            await use_everything(client, folder)
        async with Client(address, mode="legacy") as client:  # as of before 2026
            assert (await called(client, "search", question="river", k=1))["hits"]

    with over_http(words) as address:
        assert address.endswith("/mcp")
        asyncio.run(main(address))
        keep_out_pages_of_the_web(address)


def test_over_http_a_call_counts_as_much_as_what_is_read_for_it(words):
    async def main(address):
        wanted = {"question": "river", "k": 100, "rerank": True}  # as much as ten questions
        async with Client(address) as client:
            calls = [client.call_tool("search", wanted) for _ in range(30)]
            results = await asyncio.gather(*calls, return_exceptions=True)
        answered = [one for one in results if not isinstance(one, Exception) and not one.is_error]
        assert 0 < len(answered) < 30

    with over_http(words) as address:
        asyncio.run(main(address))


def keep_out_pages_of_the_web(address):
    """A page whose name points to this machine, and other things that are no clients."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    kinds = {"Accept": "application/json, text/event-stream"}
    with httpx2.Client() as http:
        assert http.post(address, json=body, headers=kinds).status_code == 200
        assert http.post(address, json=body, headers={**kinds, "Host": "evil.example"}).status_code == 421
        evil = {**kinds, "Origin": "http://evil.example"}
        assert http.post(address, json=body, headers=evil).status_code == 403
        assert http.post(address, content=b"x" * (2 << 20), headers=kinds).status_code in (400, 413)
        kinds["Content-Type"] = "application/json"
        assert http.post(address, content=b"{", headers=kinds).status_code == 400
        assert http.get(address.replace("/mcp", "/etc/passwd")).status_code == 404
        assert http.post(address, json=body, headers=kinds).status_code == 200


def test_a_commit_is_seen(in_memory, folder, tmp_path):
    async def main():
        async with in_memory() as client:
            assert (await called(client, "search", question="zebra", mode="bm25"))["hits"] == []
            (tmp_path / "new.txt").write_text("A zebra by the river.")
            await asyncio.to_thread(add, [tmp_path / "new.txt"], folder)
            for _ in range(1000):
                if hits := (await called(client, "search", question="zebra", mode="bm25"))["hits"]:
                    break
                await asyncio.sleep(0.05)
            assert hits[0]["passage"]["document"] == "new.txt"

    asyncio.run(main())


def test_an_index_that_goes_is_an_error_of_the_tool_and_comes_back(in_memory, folder, tmp_path):
    async def main():
        async with in_memory() as client:
            folder.rename(tmp_path / "away")
            assert "no index in" in await refused(client, "search", question="river")
            (tmp_path / "away").rename(folder)
            for _ in range(1000):
                result = await client.call_tool("search", {"question": "river"})
                if not result.is_error:
                    break
                await asyncio.sleep(0.1)
            assert not result.is_error

    asyncio.run(main())


def test_several_indexes_and_no_reader(in_memory, tmp_path, tiny_model):
    (tmp_path / "zebra.txt").write_text("A zebra by the river.")
    Index.build([tmp_path / "zebra.txt"], tmp_path / "zoo", model=str(tiny_model))

    async def main():
        async with in_memory(zoo=tmp_path / "zoo") as client:
            assert "docs, zoo" in client.instructions
            assert "ask" not in {tool.name for tool in (await client.list_tools()).tools}
            assert "without a reader" in await refused(client, "search", question="zebra", rerank=True)
            first, second = [
                await called(client, "search", question="zebra", mode="bm25", index=name) for name in (None, "zoo")
            ]
            assert first["hits"] == [] and second["hits"][0]["passage"]["document"] == "zebra.txt"
            assert "no passage" in await refused(client, "fetch_passage", id="zebra.txt")
            assert (await called(client, "fetch_passage", id="zebra.txt", index="zoo"))["id"] == "zebra.txt"

    asyncio.run(main())


def test_standard_output_has_the_protocol_and_nothing_else(words):
    """Garbage in between does not end the conversation, and every line that comes out is a message."""
    lines = [
        json.dumps(HELLO).encode(),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode(),
        b"not json",
        b"\xff\xfe\x00",
        b'{"jsonrpc": "2.0", "id": 7, "method": "no/such"}',
        b'{"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {"name": "search", "arguments": '
        b'{"question": "\\ud800"}}}',
        b"[" * 5000,
        json.dumps(CALL).encode(),
    ]
    process = started(words)
    process.stdin.write(b"\n".join(lines) + b"\n")
    process.stdin.flush()
    seen = {}
    while 2 not in seen:
        message = json.loads(process.stdout.readline())
        assert message["jsonrpc"] == "2.0"
        seen[message.get("id")] = message
    # It goes without a word: the answer to its last question finds nobody.
    process.stdin.write(json.dumps(CALL).encode() + b"\n")
    process.stdin.close()
    process.stdout.close()
    complaints = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 0, complaints
    assert seen[7]["error"]["code"] == -32601
    assert seen[2]["result"]["structuredContent"]["hits"]
    assert b"Traceback" not in complaints


def test_beyond_this_machine_a_token_is_needed(folder):
    with pytest.raises(UsageError, match="it needs a token"):
        serve(Settings({"docs": folder}, host="0.0.0.0"), print, create_app)


def test_with_a_token(words, tmp_path, folder):
    (tmp_path / "token").write_text("correct-horse-battery-staple\n")

    async def main(address):
        shown = {"Authorization": "Bearer correct-horse-battery-staple"}
        async with (
            httpx2.AsyncClient(headers=shown) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            assert (await called(client, "search", question="river"))["hits"]
        async with httpx2.AsyncClient() as http:
            for given in (None, "Bearer wrong", "Bearer x", "Basic correct-horse-battery-staple", "correct-horse"):
                answer = await http.post(address, json={}, headers={"Authorization": given} if given else {})
                assert answer.status_code == 401 and "token" in answer.json()["error"]["message"]

    with over_http(words, "--token-file", str(tmp_path / "token"), "--host", "0.0.0.0") as address:
        asyncio.run(main(address.replace("0.0.0.0", "127.0.0.1")))


def test_an_interrupt_ends_it(words):
    process = started(words)
    process.stdin.write(json.dumps(HELLO).encode() + b"\n")
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, complaints = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT and complaints == b""


def test_what_cannot_be_served_is_said_at_the_start(words, tmp_path, tiny_reader, capfd):
    with pytest.raises(SystemExit, match="1"):
        run(["mcp", "-i", str(tmp_path / "nothing")])
    out, err = capfd.readouterr()
    assert out == "" and err.startswith("mundap: no index in ")
    shutil.copytree(tiny_reader, tmp_path / "broken")
    (tmp_path / "broken" / "reader.fp32.onnx").write_bytes(b"no model")
    out, complaints = started([*words, "--reader", str(tmp_path / "broken")]).communicate(timeout=60)
    assert out == b"" and b"reader.fp32.onnx is damaged" in complaints
    assert complaints.startswith(b"mundap: ") and b"Traceback" not in complaints


def test_without_the_package_the_extra_is_named(monkeypatch, capfd, folder):
    monkeypatch.delattr("mundap.serving.mcp")
    monkeypatch.delitem(sys.modules, "mundap.serving.mcp")
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    with pytest.raises(SystemExit, match="1"):
        run(["mcp", "-i", str(folder)])
    assert "pip install '.[mcp]'" in capfd.readouterr().err
