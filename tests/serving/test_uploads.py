"""Documents in and out of a server that is writable; and that none it took is ever lost."""

import contextlib
import gzip
import io
import json
import os
import signal
import threading
import time
import zipfile
from pathlib import Path

import pytest

from mundap import Index
from mundap.index import build
from mundap.index.verify import verify
from tests.serving.conftest import httpx2, until
from tests.systems import linux_only, not_windows


@pytest.fixture
def folder(tmp_path, tiny_model):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.txt").write_text("The king of the river was a villain.")
    Index.build([docs], tmp_path / "i", model=str(tiny_model))
    return tmp_path


@pytest.fixture
def server(folder, tiny_reader, start):
    server = start({"main": folder / "i"}, tiny_reader, writable=True, limits={"rate": 0, "upload": 1 << 20})
    yield server
    if server.process.poll() is None:
        server.stop()


def put(server, *files):
    answer = server.client.post("/v1/documents", files=[("files", file) for file in files])
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in answer.text.splitlines()]


def test_documents_come_and_go(server, folder):
    *progress, report = put(
        server, ("moon.md", b"# Moon\n\nThe moon is a ring of science."), ("b.html", b"<p>The sun is a film.")
    )
    assert all(set(line) == {"stage", "done", "total"} for line in progress)
    assert (report["added"], report["generation"], report["skipped"]) == (2, 2, [])
    found = server.get("/v1/documents/moon.md").json()
    assert (found["title"], found["source"]) == ("Moon", "upload:moon.md")
    assert server.search("moon", mode="bm25").json()["hits"][0]["passage"]["document"] == "moon.md"

    hostile = {"id": "a/../b?c#d<e>", "title": "<b>", "text": "<script>earth()</script>", "metadata": {"topic": "geo"}}
    assert server.add(hostile)[-1]["added"] == 1
    hit = server.search("earth", mode="bm25", filters={"where": {"topic": "geo"}}).json()["hits"][0]["passage"]
    assert (hit["document"], hit["text"]) == (hostile["id"], hostile["text"])

    assert put(server, ("moon.md", b"# Moon\n\nThe moon is a ring of science."))[-1]["unchanged"] == 1
    report = put(server, ("moon.md", b"# Moon\n\nIt is made of music."))[-1]
    assert (report["added"], report["removed"]) == (1, 1)
    assert "music" in server.get("/v1/documents/moon.md").json()["text"]
    assert server.get("/v1/documents/b.html").status_code == 200

    gone = server.client.delete("/v1/documents/moon.md")
    assert (gone.status_code, gone.json()["removed"]) == (200, 1)
    assert server.get("/v1/documents/moon.md").status_code == 404
    assert server.client.delete("/v1/documents/moon.md").status_code == 404
    assert verify(folder / "i") == []

    # What was put in is in no folder: a walk, even over everything, or a new build must not lose it.
    build.build([folder / "docs"], folder / "i")
    build.build([folder], folder / "i")
    assert Index(folder / "i").document("b.html")
    (folder / "docs" / "a.txt").write_text("The king is gone.")
    build.build([folder / "docs"], folder / "i", fresh=True)
    index = Index(folder / "i")
    assert index.document("b.html").text == "The sun is a film."
    assert index.document(hostile["id"]).metadata == {"topic": "geo"}
    assert index.search("earth", mode="bm25")[0].passage.source == "upload:" + hostile["id"]
    until(lambda: server.get("/v1/documents/a.txt").json()["text"] == "The king is gone.")


def test_a_file_is_read_again(server, folder):
    assert server.post("/v1/documents/a.txt").json()["unchanged"] == 1
    (folder / "docs" / "a.txt").write_text("The queen of the sea was a hero.")
    report = server.post("/v1/documents/a.txt").json()
    assert (report["added"], report["removed"], report["documents"]) == (1, 1, 1)
    assert "queen" in server.get("/v1/documents/a.txt").json()["text"]
    put(server, ("moon.md", b"The moon."))
    assert "Send it again" in server.post("/v1/documents/moon.md").json()["error"]["message"]
    assert server.post("/v1/documents/nix").status_code == 404
    (folder / "docs" / "a.txt").unlink()
    (folder / "docs" / "a.txt").symlink_to("/etc/hostname")
    assert server.post("/v1/documents/a.txt").status_code == 422
    assert "queen" in server.get("/v1/documents/a.txt").json()["text"]


def test_what_cannot_be_used_is_said_and_changes_nothing(server, folder):
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"\0" * (210 << 20))
    refused = [
        {"files": [("files", ("a.gz", gzip.compress(b"x" * 1000)))]},
        {"files": [("files", ("bomb.docx", bomb.getvalue()))]},
        {"files": [("files", ("   ", b"text"))]},
        {"json": {"documents": []}},
        {"json": {"documents": [{"id": "x"}]}},
        {"json": {"documents": [{"id": "", "text": "x"}]}},
        {"json": {"documents": [{"id": "x", "text": "x", "path": "/etc/passwd"}]}},
        {"json": [1]},
        {"content": b"{", "headers": {"content-type": "application/json"}},
    ]
    for request in refused:
        answer = server.client.post("/v1/documents", **request)
        assert answer.status_code == 422, answer.text
        assert answer.json()["error"]["message"]
    assert server.client.post("/v1/documents", content=b"text").status_code == 415
    broken = {"content": b"--x\r\nnonsense", "headers": {"content-type": "multipart/form-data; boundary=x"}}
    assert server.client.post("/v1/documents", **broken).status_code in (400, 422)
    large = server.client.post("/v1/documents", files={"files": ("a.txt", b"x" * (2 << 20))})
    assert (large.status_code, large.json()["error"]["status"]) == (413, 413)
    report = put(
        server, ("broken.pdf", b"%PDF-1.4 nonsense"), ("good.txt", b"The moon."), ("../../evil.txt", b"The sun.")
    )[-1]
    assert [one["source"] for one in report["skipped"]] == ["upload:broken.pdf"]
    assert report["added"] == 2
    assert not list(folder.rglob("evil*"))
    assert server.get("/v1/indexes").json()["indexes"][0]["documents"] == 3


@linux_only
def test_large_bodies_at_once_take_little_memory(folder, start):
    """Each would take four times its size, if all were taken apart at once."""
    server = start({"main": folder / "i"}, writable=True, limits={"rate": 0, "at_once": 0, "seconds": 600.0})
    (inner,) = children(server.process.pid)
    before = most_memory(inner)
    body = b'{"documents": [{"id": "a", "text": "' + b"a river " * (3 << 20) + b'"}, {"id": 5}]}'
    statuses = []

    def send():
        with httpx2.Client(timeout=600) as client:
            answer = client.post(
                f"{server.address}/v1/documents", content=body, headers={"content-type": "application/json"}
            )
            statuses.append(answer.status_code)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [422] * 8
    assert most_memory(inner) - before < 200 << 20
    assert server.stop() == 0


def most_memory(process):
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


@linux_only
def test_a_writer_that_dies_is_said_and_another_one_takes_its_place(server):
    """It may have died after its commit: nobody is told that nothing was changed."""
    put(server, ("first.txt", b"the river"))
    (inner,) = children(server.process.pid)
    (writer,) = children(inner)
    os.kill(writer, signal.SIGSTOP)
    answers = []
    thread = threading.Thread(
        target=lambda: answers.append(server.post("/v1/documents", {"documents": [{"id": "x", "text": "the king"}]}))
    )
    thread.start()
    time.sleep(0.5)
    os.kill(writer, signal.SIGKILL)
    thread.join()
    assert answers[0].status_code == 500
    assert "as a whole or not at all" in answers[0].json()["error"]["message"]
    assert server.add({"id": "x", "text": "the king"})[-1]["added"] == 1


def children(process):
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def test_a_writer_at_work_is_waited_for(server, folder):
    """Another program holds the lock for a while: the change waits, questions do not."""
    lines = []

    def add():
        body = {"documents": [{"id": "x", "text": "The moon is a ring."}]}
        with httpx2.stream("POST", f"{server.address}/v1/documents", json=body, timeout=60) as answer:
            for line in answer.iter_lines():
                lines.append(json.loads(line))

    adding = threading.Thread(target=add)
    with build.Writer(folder / "i"):
        adding.start()
        until(lambda: lines)
        assert lines[0]["stage"] == "waiting"
        assert server.search("king").status_code == 200
    adding.join(120)
    assert lines[-1]["added"] == 1


@not_windows
@pytest.mark.parametrize("how", [pytest.param("SIGTERM", marks=pytest.mark.slow), "SIGKILL"])
def test_a_restart_under_load_loses_no_accepted_write(folder, tiny_reader, start, how):
    """Writers and readers at work, the server stopped in the midst of it: whatever was reported is there."""
    accepted, done = [], threading.Event()
    address = [""]

    def write(worker):
        number = 0
        while not done.is_set():
            name = f"{worker}-{number}"
            body = {"documents": [{"id": name, "text": f"The moon {name.replace('-', 'x')} is a ring."}]}
            with contextlib.suppress(httpx2.HTTPError, ValueError, IndexError):
                answer = httpx2.post(f"{address[0]}/v1/documents", json=body, timeout=30)
                if answer.status_code == 200 and "added" in json.loads(answer.text.splitlines()[-1]):
                    accepted.append(name)
                    number += 1
                    continue
            time.sleep(0.05)

    def read():
        while not done.is_set():
            with contextlib.suppress(httpx2.HTTPError):
                httpx2.post(f"{address[0]}/v1/ask", json={"question": "king of the river"}, timeout=30)
            time.sleep(0.05)

    threads = [threading.Thread(target=write, args=[worker]) for worker in range(3)] + [threading.Thread(target=read)]
    settings = {"writable": True, "limits": {"rate": 0, "at_once": 0}}
    server = start({"main": folder / "i"}, tiny_reader, **settings)
    address[0] = server.address
    for thread in threads:
        thread.start()
    try:
        until(lambda: len(accepted) >= 3)
        server.process.send_signal(getattr(signal, how))
        server.process.wait(120)
        before = len(accepted)
        server = start({"main": folder / "i"}, tiny_reader, **settings)
        address[0] = server.address
        until(lambda: len(accepted) >= before + 3)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert len(set(accepted)) == len(accepted) >= 6
    assert [name for name in accepted if server.get(f"/v1/documents/{name}").status_code != 200] == []
    assert server.stop() == 0
    assert verify(folder / "i") == []
