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
    if request.param == "lite":
        pytest.importorskip("milvus_lite", reason="pip install 'mundap[milvus]'")
        return f"milvus+lite://{tmp_path}/index.db"
    return new_collection()


@pytest.fixture(params=["lite", "server"])
def engine_place(request, tmp_path):
    """The same, only in an engine."""
    if request.param == "lite":
        pytest.importorskip("milvus_lite", reason="pip install 'mundap[milvus]'")
        return f"milvus+lite://{tmp_path}/index.db"
    return new_collection()


def new_collection():
    server = os.environ.get("MUNDAP_TEST_MILVUS")
    if not server:
        pytest.skip("no Milvus server: `make test-milvus` starts one")
    return f"{server}/t{os.getpid()}_{next(_counter)}?consistency=Strong"
