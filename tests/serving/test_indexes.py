"""An index that changes, goes, breaks and comes back while it is served."""

import asyncio
import os
import shutil
import threading

import pytest

from mundap import Index
from mundap.errors import IndexDamaged
from mundap.index import build
from mundap.serving import indexes
from mundap.serving.engine import Engine
from mundap.serving.schema import SearchBody
from mundap.serving.settings import Settings
from tests.serving.conftest import httpx2, until


@pytest.fixture
def folder(tmp_path, tiny_model):
    (tmp_path / "a.txt").write_text("The king of the river was a villain.")
    Index.build([tmp_path / "a.txt"], tmp_path / "i", model=str(tiny_model))
    return tmp_path


@pytest.fixture
def server(folder, tiny_reader, start):
    server = start({"main": folder / "i"}, tiny_reader, limits={"rate": 0, "at_once": 0})
    yield server
    server.stop()


def test_commits_are_seen_without_a_request_failing(server, folder):
    """Several generations, a compaction that removes every old file, and clients that ask all the while."""
    statuses, done = [], threading.Event()

    def ask():
        with httpx2.Client(base_url=server.address, timeout=30) as client:
            number = 0
            while not done.is_set():
                number += 1
                path = ("/v1/search", "/v1/ask")[number % 2]
                statuses.append(client.post(path, json={"question": f"king {number}"}).status_code)

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for client in clients:
        client.start()
    try:
        for number in range(6):
            (folder / f"new{number}.txt").write_text(f"The moon number{number} is a ring.")
            build.add([folder / f"new{number}.txt"], folder / "i")
            until(lambda n=number: server.search(f"number{n}", mode="bm25").json()["hits"])
        build.compact(folder / "i")
        generation = Index(folder / "i").manifest.generation
        until(lambda: server.get("/v1/indexes").json()["indexes"][0]["generation"] == generation)
        assert len(server.search("moon", mode="bm25").json()["hits"]) == 6
    finally:
        done.set()
        for client in clients:
            client.join()
    assert len(statuses) > 20
    assert set(statuses) == {200}


def test_a_commit_in_the_middle_of_a_look_is_no_damage(folder, monkeypatch):
    """Old files go after the new manifest has come: between the first and the last file that is looked at."""
    (folder / "b.txt").write_text("The sea.")
    build.add([folder / "b.txt"], folder / "i")
    seen, state = [], indexes._state

    def look_and_compact(path):
        found = state(path)
        seen.append(path)
        if len(seen) == 1:
            build.compact(folder / "i")
        return found

    async def look():
        served = indexes.Served("main", folder / "i")
        old = served.index()
        monkeypatch.setattr(indexes, "_state", look_and_compact)
        assert served.index() is old
        assert any(state(path) is None for path in seen)  # else the test shows nothing
        assert (await served.newest()).manifest.generation > old.manifest.generation

    asyncio.run(look())


def test_what_was_found_while_a_file_was_cut_short_is_not_told(folder):
    """A file within one page of memory reads as zeros behind its end: nothing crashes, and something else is found."""

    async def ask():
        engine = Engine(Settings({"main": folder / "i"}, reader=""))
        search, body = engine.searching.do, SearchBody(question="king", mode="bm25")

        async def cut_meanwhile(*arguments):
            found = await search(*arguments)
            path = next((folder / "i").glob("lexical-*/*.term"))
            os.truncate(path, path.stat().st_size // 2)
            return found

        engine.searching.do = cut_meanwhile
        with pytest.raises(IndexDamaged, match="were changed"):
            await engine.search(body, None)
        assert not engine._cache._kept
        await engine.close()

    asyncio.run(ask())


def test_an_answer_is_not_kept_beyond_its_generation(server, folder):
    before = server.search("king", mode="bm25").json()
    assert server.search("king", mode="bm25").json() == before
    build.delete(folder / "i", ["a.txt"])
    until(lambda: server.get("/v1/indexes").json()["indexes"][0]["documents"] == 0)
    assert server.search("king", mode="bm25").json()["hits"] == []


def refused(server):
    answers = [server.search("king"), server.get("/v1/documents/a.txt"), server.get("/readyz")]
    for answer in answers:
        assert answer.status_code == 503, answer.text
        assert int(answer.headers["retry-after"]) >= 1
    listed = server.get("/v1/indexes").json()["indexes"][0]
    assert listed["error"]
    assert server.get("/healthz").status_code == 200
    message = answers[0].json()["error"]["message"]
    assert "main" in message
    assert "/" not in message.replace("segments/", "").replace("main/", "")  # folders are nobody's business
    return message


def works(server):
    return server.search("king").status_code == 200 and server.get("/readyz").status_code == 200


def test_an_index_that_is_deleted_and_comes_back(server, folder):
    assert works(server)
    (folder / "i").rename(folder / "away")
    assert "no index in" in refused(server)
    (folder / "away").rename(folder / "i")
    until(lambda: works(server))
    shutil.rmtree(folder / "i")
    refused(server)
    (folder / "b.txt").write_text("The moon is a ring.")
    settings = {"model": "none"}
    Index.build([folder / "b.txt"], folder / "i", **settings)  # of the same generation, and quite another
    until(lambda: works(server))
    assert server.search("moon").json()["hits"][0]["passage"]["document"] == "b.txt"
    assert server.search("king").json()["hits"] == []


def harmed(victim, harm):
    if harm == "cut":
        with victim.open("r+b") as file:
            file.truncate(victim.stat().st_size // 2)
    elif harm == "overwrite":
        size = victim.stat().st_size
        with victim.open("r+b") as file:
            file.write(b"\xff" * size)
    else:
        victim.unlink()


def test_an_index_that_is_damaged_and_repaired(server, folder):
    """Any file, in any way: never an answer out of it, never the end of the process, and all is well with the copy."""
    shutil.copytree(folder / "i", folder / "copy")
    for pattern in ("segments/*/strings.bin", "segments/*/vectors.bin", "manifest.json", "lexical-*/*.store"):
        for harm in ("cut", "overwrite", "remove"):
            until(lambda: works(server))
            victim = next((folder / "i").glob(pattern))
            harmed(victim, harm)
            if not (harm == "remove" and pattern.startswith("lexical")):  # a file that is open stays readable
                until(lambda: server.search("king").status_code == 503)
                refused(server)
            shutil.copy(folder / "copy" / victim.relative_to(folder / "i"), victim)
    until(lambda: works(server))
    assert server.search("king").json()["hits"]
    assert server.process.poll() is None


def test_the_first_korean_question_need_not_wait_for_kiwi(tmp_path, monkeypatch):
    loaded = []
    monkeypatch.setattr("mundap.text.korean.load_in_background", lambda: loaded.append(True))
    for name, text in (
        ("en", "The capital of Korea is a large city by a river."),
        ("ko", "서울은 대한민국의 수도이다."),
    ):
        (tmp_path / f"{name}.txt").write_text(text, "utf-8")
        Index.build([tmp_path / f"{name}.txt"], tmp_path / name, model="none")
        indexes.Served(name, tmp_path / name)
        assert bool(loaded) is (name == "ko")
