import json

import pytest

from mundap.engines.forecast import Forecast, forecast
from mundap.engines.plan import Need
from mundap.errors import UsageError
from mundap.index.build import Options
from mundap.machine import Memory
from tests.program import mundap


def test_a_dry_run_tells_what_the_build_then_makes_and_writes_nothing(corpus, tmp_path, tiny_model):
    out = tmp_path / "i"
    code, told, _ = mundap("index", corpus, "-o", out, "--model", tiny_model, "--dry-run", "--json")
    assert code == 0
    assert not out.exists()
    facts = json.loads(told)
    needs = {need["name"]: need for need in facts["needs"]}
    assert {"reading and BM25", "encoding, CPU", "memory", "disk"} <= set(needs)
    assert (facts["dense"], facts["fits"]) == ("exact", True)
    code, made, _ = mundap("index", corpus, "-o", out, "--model", tiny_model, "--json")
    assert json.loads(made)["passages"] == facts["passages"]
    code, told, _ = mundap("index", corpus, "-o", tmp_path / "j", "--model", "none", "--dry-run")
    assert "10 passages, model none" in told
    assert "encoding" not in told


def test_what_cannot_be_foretold(corpus, tmp_path):
    with pytest.raises(UsageError, match="only once"):
        forecast(["-"], tmp_path / "i", Options(model="none"))
    code, _, err = mundap("index", corpus, "-o", "milvus://host:1/x", "--dry-run")
    assert (code, "mundap plan" in err) == (2, True)


def test_a_disk_that_is_too_small_is_seen():
    need = Need("disk", 2.0, "GB", "")
    assert not Forecast(1, 1, "none", "none", (need,), 10**9).fits
    assert Forecast(1, 1, "none", "none", (need,), 3 * 10**9).fits


def test_memory_that_is_too_small_is_seen_and_told(corpus, tmp_path, tiny_model, monkeypatch):
    needs = (Need("disk", 0.1, "GB", ""), Need("memory", 2.0, "GB", ""))
    assert not Forecast(1, 1, "none", "none", needs, 10**9, 10**9).fits_memory
    assert Forecast(1, 1, "none", "none", needs, 10**9, 3 * 10**9).fits_memory
    assert Forecast(1, 1, "none", "none", needs, 10**9, None).fits_memory
    monkeypatch.setattr("mundap.engines.forecast.memory", lambda: Memory(10**8, 10**9))  # as in a small container
    code, _, err = mundap("index", corpus, "-o", tmp_path / "i", "--model", tiny_model, "--dry-run")
    assert (code, "only 0.1 GB of memory are free" in err) == (0, True)
