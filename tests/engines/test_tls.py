"""TLS and log-in, from the address to the wire: the true client against a gRPC server with TLS.

The server is no Milvus. It answers what a client asks when it connects, and notes down what it was shown.
"""

import base64
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from mundap.engines import Address, connect
from mundap.errors import EngineError, UsageError

pytest.importorskip("pymilvus", reason="pip install 'mundap[milvus]'")
NAME = "milvus.example"


def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def authority(folder, name):
    openssl(folder, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}")  # fmt: skip


def certificate(folder, name, host):
    openssl(folder, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={host}")  # fmt: skip
    (folder / "names").write_text(f"subjectAltName=DNS:{host}\n")
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2",
            "-extfile", "names", "-out", f"{name}.pem")  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An authority, what it signed for a server and for a client, and another authority."""
    folder = tmp_path_factory.mktemp("tls")
    try:
        authority(folder, "ca")
    except FileNotFoundError:
        pytest.skip("there is no openssl here")
    authority(folder, "other")
    certificate(folder, "server", NAME)
    certificate(folder, "client", "client")
    return folder


@pytest.fixture(scope="module")
def serve(folder):
    import grpc
    from pymilvus.grpc_gen import common_pb2, milvus_pb2, milvus_pb2_grpc

    class Servicer(milvus_pb2_grpc.MilvusServiceServicer):
        def __init__(self):
            self.shown = []

        def Connect(self, request, context):
            self.shown.append((dict(context.invocation_metadata()), context.auth_context()))
            return milvus_pb2.ConnectResponse(status=common_pb2.Status(), identifier=1)

        def GetVersion(self, request, context):
            return milvus_pb2.GetVersionResponse(status=common_pb2.Status(), version="v2.5.4")

    running = []

    def run(client_too=False):
        server, servicer = grpc.server(ThreadPoolExecutor(4)), Servicer()
        milvus_pb2_grpc.add_MilvusServiceServicer_to_server(servicer, server)
        pair = (folder / "server.key").read_bytes(), (folder / "server.pem").read_bytes()
        authority = (folder / "ca.pem").read_bytes() if client_too else None
        credentials = grpc.ssl_server_credentials([pair], authority, client_too)
        port = server.add_secure_port("127.0.0.1:0", credentials)
        server.start()
        running.append(server)
        return f"127.0.0.1:{port}", servicer.shown

    yield run
    for server in running:
        server.stop(None)


def test_server_is_checked_and_the_password_shown(folder, serve, monkeypatch):
    monkeypatch.setenv("MUNDAP_MILVUS_PASSWORD", "s3cret")
    host, shown = serve()
    engine = connect(f"milvus://me@{host}/c?ca={folder}/ca.pem&server_name={NAME}")
    assert engine.version == "v2.5.4" and engine.full_text
    metadata, _ = shown[-1]
    assert base64.b64decode(metadata["authorization"]) == b"me:s3cret"
    engine.close()
    shown.clear()
    for wrong in (
        f"ca={folder}/other.pem&server_name={NAME}",  # somebody else signed it
        f"ca={folder}/ca.pem",  # it is not called 127.0.0.1
        "tls=1",  # nobody whom this machine knows signed it
        "",  # without TLS
    ):
        with pytest.raises(EngineError, match="does not answer .*Check host, port and TLS") as failure:
            connect(f"milvus://me@{host}/c?{wrong}")
        assert "s3cret" not in str(failure.value)
    assert shown == []  # so nobody saw the password


def test_a_certificate_of_our_own(folder, serve):
    host, shown = serve(client_too=True)
    server = f"milvus://{host}/c?ca={folder}/ca.pem&server_name={NAME}"
    connect(f"{server}&cert={folder}/client.pem&key={folder}/client.key").close()
    assert shown[-1][1]["x509_common_name"] == [b"client"]
    with pytest.raises(EngineError, match="does not answer"):
        connect(server)


def test_files_that_cannot_be_used(folder):
    (folder / "text.pem").write_text("not a certificate")
    for options, said in (
        (f"cert={folder}/client.pem&key={folder}/client.key", "cert, key and ca go together"),
        (f"ca={folder}/ca.pem&cert={folder}/client.pem", "cert, key and ca go together"),
        (f"ca={folder}/nowhere.pem", "ca=.*nowhere.pem: no such file"),
        (f"ca={folder}/text.pem", r"ca=.*text.pem cannot be used \(NO_CERTIFICATE"),
        (f"ca={folder}/ca.pem&cert={folder}/client.pem&key={folder}/server.key", r"cert=.*cannot be used \(KEY_VALUES_MISM"),
        (f"ca={folder}/ca.pem&cert={folder}/client.pem&key={folder}/text.pem", r"cert=.*cannot be used \("),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=said):
            Address.parse(f"milvus://h/c?{options}")
