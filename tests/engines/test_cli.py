"""The commands on an index in an engine."""

import json
from types import SimpleNamespace

import pytest

from tests.program import mundap as run_here
from tests.program import program

pytest.importorskip("milvus_lite", reason="pip install 'mundap[milvus]'")


def mundap(*words, how=run_here):
    code, out, errors = how(*words)
    return SimpleNamespace(returncode=code, stdout=out, stderr=errors)


def test_from_files_to_hits_and_back(corpus, tmp_path, tiny_model):
    place = f"milvus+lite://{tmp_path}/i.db"
    made = mundap("index", corpus, "-o", place, "--model", tiny_model)
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith(f"{place}: 8 documents, 10 passages")
    found = json.loads(mundap("search", "-i", place, "--json", "-k", 2, "river").stdout)
    assert found["mode"] == "hybrid" and len(found["hits"]) == 2
    assert json.loads(mundap("delete", "-i", place, "--json", "two.md").stdout)["passages"] == 9
    assert "bm25, dense, hybrid" in mundap("info", "-i", place).stdout
    listed = mundap("list", "-i", place, "--sort", "passages", "-n", 1)
    assert listed.returncode == 0 and "one.txt" in listed.stdout, listed.stderr
    for verb in ("compact", "verify"):
        refused = mundap(verb, "-i", place)
        assert refused.returncode == 2 and "works on an index in a folder, not on an engine" in refused.stderr


def rounded(value):
    """JSON whose numbers can be compared: a score may differ in its last digits with what is computed beside it."""
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return round(value, 4) if isinstance(value, float) else value


def test_served_as_on_the_command_line(corpus, tmp_path, tiny_model, tiny_reader):
    """milvus-lite is open in one process at a time: first the commands, which end, then the server."""
    from tests.serving.conftest import Server

    place = f"milvus+lite://{tmp_path}/i.db?collection=books"
    assert mundap("index", corpus, "-o", place, "--model", tiny_model, how=program).returncode == 0
    asked, searched = "where is the river", "king music"
    answered = mundap("ask", "-i", place, "--json", "--threshold", 0, "--reader", tiny_reader, asked, how=program)
    found = mundap("search", "-i", place, "--json", "-k", 4, searched, how=program)
    assert (answered.returncode, found.returncode) == (0, 0), answered.stderr + found.stderr
    server = Server(["-m", "mundap", "serve", "-i", place, "--port", "0", "--reader", str(tiny_reader)])
    try:
        over_http = server.ask(asked, threshold=0).json()
        assert over_http["answers"] and rounded(over_http) == rounded(json.loads(answered.stdout))
        hits = server.search(searched, k=4).json()
        assert len(hits["hits"]) == 4 and rounded(hits) == rounded(json.loads(found.stdout))
        assert [one["name"] for one in server.get("/v1/indexes").json()["indexes"]] == ["books"]
    finally:
        server.stop()


def test_shards_by_hand(corpus, tmp_path, tiny_model):
    for shard in ("1/2", "2/2"):
        done = mundap("encode", corpus, "--shard", shard, "-o", tmp_path / "v", "--model", tiny_model)
        assert done.returncode == 0, done.stderr
    made = mundap("index", corpus, "--vectors", tmp_path / "v", "-o", tmp_path / "i", "--model", tiny_model)
    assert made.returncode == 0 and "10 passages" in made.stdout, made.stderr
    wrong = mundap("encode", corpus, "--shard", "two", "-o", tmp_path / "v")
    assert wrong.returncode == 2 and "write it as 3/64" in wrong.stderr


def test_plan():
    shown = mundap("plan", "--passages", "100M")
    assert shown.returncode == 0 and "100,000,000 passages" in shown.stdout and "In Milvus" in shown.stdout
    assert mundap("plan", "--passages", "lots").returncode == 2
