"""Requests that try to be what they are not, and a server whose process is ended under it."""

import io
import json
import os
import signal
import socket
import struct
import subprocess
import zipfile
from pathlib import Path

import pytest

from mundap import Index
from mundap.errors import UsageError
from mundap.serving.guard import _name
from tests.serving.conftest import until


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "a.txt").write_text("The king of the river was a villain.")
    Index.build([folder / "a.txt"], folder / "i", model="none")
    return folder


@pytest.fixture(scope="module")
def server(folder, start):
    limits = {"rate": 0, "upload_seconds": 1.0, "head_seconds": 2.0, "uploads": 2}
    return start({"main": folder / "i"}, writable=True, proxy="127.0.0.1", names=["docs.example"], limits=limits)


def raw(server, data, seconds=20):
    """Send bytes as they are; all that comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), seconds) as connection:
        connection.sendall(data)
        received = b""
        while part := connection.recv(65536):
            received += part
    return received


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost", "localhost"),
        ("127.0.0.1:8000", "127.0.0.1"),
        ("[::1]:80", "[::1]"),
        ("[::1]", "[::1]"),
        ("[::1].evil.com", ""),
        ("[::1]evil.com:80", ""),
        ("localhost:80:80", ""),
        ("localhost:evil.com", ""),
        ("evil.com", "evil.com"),
        ("", ""),
    ],
)
def test_the_name_of_a_host(host, name):
    assert _name(host) == name


@pytest.mark.parametrize("host", ["evil.com", "[::1].evil.com", "localhost:80@evil.com"])
def test_a_proxy_does_not_let_other_names_in(server, host):
    headers = {"host": host, "origin": f"http://{host}"}
    answer = server.post("/v1/documents", {"documents": [{"id": "x", "text": "evil"}]}, headers=headers)
    assert answer.status_code == 421
    assert server.get("/v1/indexes", headers={"host": "docs.example"}).status_code == 200
    assert 'mundap_refused_total{reason="host"}' in server.get("/metrics").text
    assert any('"refused": "host"' in line for line in server.log)


def test_two_hosts_are_refused(server):
    said = raw(server, b"GET /v1/indexes HTTP/1.1\r\nHost: localhost\r\nHost: evil.com\r\nConnection: close\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 400")


def test_a_large_head_in_one_piece_is_refused(server):
    head = b"GET /v1/indexes HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 40_000 + b"\r\n\r\n"
    assert raw(server, head).startswith(b"HTTP/1.1 431")
    many = b"".join(b"X-%d: %s\r\n" % (n, b"b" * 50) for n in range(700))
    assert raw(server, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n").startswith(b"HTTP/1.1 431")
    assert server.get("/healthz").status_code == 200


def test_trailers_take_the_place_of_no_header(server):
    body = json.dumps({"question": "river"}).encode()
    sent = (
        b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b"Transfer-Encoding: chunked\r\nTrailer: Content-Type\r\n\r\n"
        + b"%x\r\n%s\r\n0\r\nContent-Type: text/plain\r\nHost: evil.com\r\n\r\n"
        % (len(body), body)
    )
    assert raw(server, sent).startswith(b"HTTP/1.1 200")


def test_a_broken_archive_is_skipped_and_no_failure_of_the_server(server):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("word/document.xml", "<x/>" * 1000)
    data = bytearray(packed.getvalue())
    where = data.rindex(b"PK\x01\x02")
    data[where : where + 4] = b"PK\xff\xff"
    answer = server.client.post("/v1/documents", files=[("files", ("a.docx", bytes(data)))])
    assert answer.status_code == 200
    report = json.loads(answer.text.splitlines()[-1])
    assert report["skipped_count"] == 1


def test_a_body_that_comes_in_drops_is_ended_soon(server):
    with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
        connection.sendall(b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           b"Content-Length: 1000000\r\n\r\n{")  # fmt: skip
        assert connection.recv(1000).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    ("reason", "sent"),
    [
        ("no HTTP", b"nonsense\r\n\r\n"),
        ("head", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 40_000 + b"\r\n\r\n"),
        ("slow", b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"),
        ("slow", b"GET /v1/indexes HTTP/1.1\r\nHost: loc"),
        ("size", b"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
                 b"Content-Type: application/json\r\n\r\n200000\r\n" + b"x" * 0x200000 + b"\r\n0\r\n\r\n"),
    ],
    ids=["no HTTP", "head", "slow body", "slow head", "size"],
)  # fmt: skip
def test_log_and_figures_say_why_a_request_was_refused(server, reason, sent):
    counted = f'mundap_refused_total{{reason="{reason}"}}'

    def count():
        lines = server.get("/metrics").text.splitlines()
        return next((float(line.split()[-1]) for line in lines if line.startswith(counted)), 0)

    before, lines = count(), len(server.log)
    raw(server, sent)
    until(lambda: any(f'"refused": "{reason}"' in line for line in server.log[lines:]))
    assert count() == before + 1


def test_no_more_than_so_many_send_files_at_once(server):
    head = (b"POST /v1/documents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000000\r\n\r\n{")  # fmt: skip
    slow = [socket.create_connection(("127.0.0.1", server.port), 30) for _ in range(3)]
    for connection in slow:
        connection.sendall(head)
    statuses = sorted(connection.recv(1 << 16).split()[1] for connection in slow)
    assert statuses == [b"408", b"408", b"503"]
    until(lambda: any('"refused": "uploads"' in line for line in server.log))
    for connection in slow:
        connection.close()


def test_a_server_that_crashes_is_started_again(folder, start):
    server = start({"main": folder / "i"})
    (child,) = subprocess.run(
        ["pgrep", "-P", str(server.process.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    os.kill(int(child), signal.SIGBUS)
    server.client.close()
    until(lambda: any("server crashed" in line for line in server.log))
    from tests.serving.conftest import httpx2

    assert httpx2.get(f"{server.address}/healthz", timeout=60).status_code == 200
    assert server.stop() == 0


def test_after_a_crash_a_damaged_index_is_waited_for(folder, start, tmp_path):
    import shutil

    from tests.serving.conftest import httpx2

    shutil.copytree(folder / "i", tmp_path / "i")
    victim = next((tmp_path / "i").glob("segments/*/strings.bin"))
    server = start({"main": tmp_path / "i"})
    data = victim.read_bytes()
    os.truncate(victim, 0)
    (child,) = subprocess.run(
        ["pgrep", "-P", str(server.process.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    os.kill(int(child), signal.SIGBUS)
    until(lambda: any("server crashed" in line for line in server.log))
    answer = httpx2.post(f"{server.address}/v1/search", json={"question": "river"}, timeout=60)
    assert answer.status_code == 503
    victim.write_bytes(data)
    until(lambda: httpx2.post(f"{server.address}/v1/search", json={"question": "river"}).status_code == 200, 60)
    assert server.stop() == 0


def parts(count, zip64=False):
    """An archive that says it has so many parts, without any content."""
    entry = struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    directory = entry * count
    size, number = (0xFFFFFFFF, 0xFFFF) if zip64 else (len(directory), count % 65536)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, number, number, size, 0 if not zip64 else 0xFFFFFFFF, 0)
    if zip64:
        record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, len(directory), 0)
        end = record + struct.pack("<4sLQL", b"PK\x06\x07", 0, len(directory), 1) + end
    return directory + end


@pytest.mark.parametrize("zip64", [False, True])
def test_an_archive_of_very_many_parts_is_not_opened_in_the_server(tmp_path, monkeypatch, zip64):
    from mundap.serving import uploads

    path = tmp_path / "a.docx"
    path.write_bytes(parts(1000, zip64))
    assert len(zipfile.ZipFile(path).namelist()) == 1000  # it is one, as far as Python can see
    uploads._check_unpacked(path, "a.docx")
    path.write_bytes(parts(90_000, zip64))
    monkeypatch.setattr(zipfile, "ZipFile", None)
    with pytest.raises(UsageError, match="too many parts"):
        uploads._check_unpacked(path, "a.docx")


FILES = Path(__file__).parent.parent / "documents" / "files"
NEWER = ("harbour.pptx", "stock.xlsx", "tales.epub", "bees.odt", "notes.rtf", "ferry.eml", "list.mbox", "tides.ipynb")


@pytest.mark.parametrize("name", NEWER)
def test_newer_formats_whole_cut_and_locked_are_read_or_have_a_reason(server, name):
    data = (FILES / name).read_bytes()
    locked = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)  # how Office writes what has a password
    cut = data[: len(data) // 2]
    files = [("files", (f"whole-{name}", data)), ("files", (f"cut-{name}", cut)), ("files", (f"locked-{name}", locked))]
    answer = server.client.post("/v1/documents", files=files)
    assert answer.status_code == 200
    report = json.loads(answer.text.splitlines()[-1])
    reasons = {one["source"]: one["reason"] for one in report["skipped"]}
    assert not any(f"whole-{name}" in source for source in reasons)
    assert any(f"locked-{name}" in source for source in reasons)
    assert all("Error" not in reason and "Traceback" not in reason for reason in reasons.values()), reasons
    assert server.get("/healthz").status_code == 200
