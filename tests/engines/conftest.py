"""The places an index may live in. `make test-milvus` starts a real server and names it in MUNDAP_TEST_MILVUS."""

import itertools
import os

import pytest

_counter = itertools.count()


@pytest.fixture(params=["folder", "lite", "server"])
def place(request, tmp_path):
    """The address of an index that is not there yet."""
    if request.param == "folder":
        return str(tmp_path / "index")
    return place_in(request.param, request)


@pytest.fixture(params=["lite", "server"])
def engine_place(request):
    """The same, only in an engine."""
    return place_in(request.param, request)


def place_in(engine, request):
    if engine == "lite":
        pytest.importorskip("milvus_lite", reason="pip install 'mundap[milvus]'")
        return f"milvus+lite://{request.getfixturevalue('tmp_path')}/index.db"
    return request.getfixturevalue("server_place")


@pytest.fixture
def server_place():
    """A collection on the real server, taken away after the test: every one that is loaded costs the server work."""
    server = os.environ.get("MUNDAP_TEST_MILVUS")
    if not server:
        pytest.skip("no Milvus server: `make test-milvus` starts one")
    name = f"t{os.getpid()}_{next(_counter)}"
    # A busy machine is no failure: on one with 20 jobs for two cores single calls took 10 seconds.
    yield f"{server}/{name}?consistency=Strong&timeout=120"
    from pymilvus import MilvusClient

    client = MilvusClient(server.replace("milvus://", "http://"), timeout=120, dedicated=True)
    for left in client.list_collections():
        if left in (name, f"{name}_mundap"):
            client.drop_collection(left, timeout=120)
    client.close()
