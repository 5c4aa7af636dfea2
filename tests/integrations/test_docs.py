"""The page on assistants: its code is run and prints what the page says; its settings start a server."""

import asyncio
import json
import os
import re
import subprocess
import sys

import pytest

from tests.conftest import EXAMPLES

PAGE = (EXAMPLES.parent / "docs" / "assistants.md").read_text("utf-8")
SOURCE = str(EXAMPLES.parent / "src")
BLOCKS = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def place(tmp_path, monkeypatch, english_example_index):
    """As the page makes it: the same passages come first whatever model packages are installed."""
    assert "mundap index examples/encyclopedia -o my-index --model retriever" in PAGE
    (tmp_path / "my-index").symlink_to(english_example_index.path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(code, capsys):
    exec(compile(code, "docs/assistants.md", "exec"), {"__name__": "__main__"})
    return capsys.readouterr().out


@pytest.mark.parametrize("package, place_of_code", [("langchain_core", 0), ("llama_index.core", 1), ("haystack", 2)])
def test_the_code_for_frameworks(package, place_of_code, place, capsys):
    pytest.importorskip(package)
    code, shown = BLOCKS[place_of_code]
    assert package in code
    assert run(code, capsys) == shown


def test_the_code_for_vectors(place, capsys):
    pytest.importorskip("openai")
    pytest.importorskip("fastapi")
    code, shown = BLOCKS[3]
    command = [sys.executable, "-m", "mundap", "serve", "-i", "my-index", "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        address = re.search(r"http://[\d.:]+", process.stdout.readline()).group()
        assert "http://127.0.0.1:8000/" in code
        assert run(code.replace("http://127.0.0.1:8000/", f"{address}/"), capsys) == shown
        process.terminate()


def test_the_settings_of_an_assistant(place):
    mcp = pytest.importorskip("mcp")
    settings = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL).group(1))
    server = settings["mcpServers"]["documents"]
    assert server["command"] == "mundap"
    words = ["-m", "mundap", *(word.replace("/home/me", str(place)) for word in server["args"])]

    async def tools():
        started = mcp.StdioServerParameters(command=sys.executable, args=words, env={"PYTHONPATH": SOURCE})
        async with mcp.Client(started) as client:
            found = await client.call_tool("search", {"question": "How high is the top of Kilimanjaro?"})
            assert found.structured_content["hits"][0]["passage"]["title"] == "Kilimanjaro"
            return [tool.name for tool in (await client.list_tools()).tools]

    assert sorted(asyncio.run(tools())) == sorted(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)[:4])
