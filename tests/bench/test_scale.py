import json
from xml.etree import ElementTree

import numpy as np
import pytest

from mundap.bench.scale import SEGMENT, _make_vectors, _need_room, measure, open_bank, write_plot
from mundap.errors import MundapError, UsageError
from tests.bench.parts import a_bank
from tests.program import mundap


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scale")
    bank = open_bank(folder, a_bank, "", lambda _: None)
    return folder, bank, measure(folder, bank, 6000)


def test_a_run_gives_all_its_figures(run):
    _, _, figures = run
    assert figures["passages"] == 6000
    assert figures["recall"] > 0.9
    assert figures["probes"] < figures["lists"]
    assert 10 < figures["bytes_a_vector"] < 200
    for name in ("build_seconds", "memory_mb", "batch_questions_a_second", "one_questions_a_second", "one_median_ms"):
        assert figures[name] > 0


def test_what_is_there_is_not_made_again(run):
    folder, bank, figures = run
    vectors, result = folder / "6000/segments/000000/vectors.bin", folder / "6000/result.json"
    before = vectors.stat().st_mtime_ns, (folder / "6000/dense.faiss").stat().st_mtime_ns
    assert measure(folder, bank, 6000) == figures
    result.unlink()  # as if it had been killed while it searched
    assert measure(folder, bank, 6000)["recall"] == figures["recall"]
    assert before == (vectors.stat().st_mtime_ns, (folder / "6000/dense.faiss").stat().st_mtime_ns)
    with pytest.raises(UsageError, match="another seed"):
        measure(folder, bank, 6000, seed=3)


def test_a_bank_is_taken_again_for_the_same_text_only(tmp_path):
    first = open_bank(tmp_path, a_bank, "/a", lambda _: None)
    for origin in ("/a", ""):
        assert np.array_equal(open_bank(tmp_path, list, origin, lambda _: None).vectors, first.vectors)
    with pytest.raises(UsageError, match="already exists"):
        open_bank(tmp_path, a_bank, "/b", lambda _: None)


def test_a_part_that_was_cut_short_is_made_again(tmp_path):
    bank = a_bank(400)
    _make_vectors(tmp_path / "a", bank, SEGMENT + 50, 0, lambda _: None)
    (tmp_path / "b/segments/000000").mkdir(parents=True)
    (tmp_path / "b/segments/000000/vectors.tmp").write_bytes(b"half")
    _make_vectors(tmp_path / "b", bank, SEGMENT + 50, 0, lambda _: None)
    for part in ("000000", "000001"):
        one, two = (tmp_path / f"{name}/segments/{part}/vectors.bin" for name in "ab")
        assert one.read_bytes() == two.read_bytes()
    assert two.stat().st_size == 50 * 2 * bank.vectors.shape[1]


def test_a_disk_that_is_too_small_is_refused(tmp_path):
    with pytest.raises(MundapError, match=r"GB are free\. Nothing was written"):
        _need_room(tmp_path / "x", 10**9, 65_536)
    assert not (tmp_path / "x").exists()


def test_the_plot_has_every_size(run, tmp_path):
    _, _, figures = run
    page = write_plot(tmp_path / "p.html", [{**figures, "passages": 10**6}, figures]).read_text()
    assert page.count("<svg") == 5
    assert "1,000,000" in page
    picture = ElementTree.parse(tmp_path / "p.svg").getroot()
    assert len(picture.findall("{http://www.w3.org/2000/svg}svg")) == 5
    assert "1,000,000" in "".join(picture.itertext())


def test_the_command(run, tmp_path):
    folder, bank, _ = run
    figures = measure(folder, bank, 6000)
    code, out, err = mundap("bench", "scale", "--passages", "6k", "-o", folder, "--json")
    assert (code, json.loads(out)["results"]) == (0, [figures])
    code, out, err = mundap("bench", "scale", "--passages", "6k", "-o", folder)
    assert "recall@100" in out
    code, _, err = mundap("bench", "scale", "--passages", "5", "-o", folder)
    assert (code, "choose between" in err) == (2, True)


def test_vectors_of_an_index_are_a_bank(tmp_path, tiny_model):
    rows = [{"id": n, "text": " ".join(f"w{(n * k) % 97}" for k in range(1, 30))} for n in range(600)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert mundap("index", tmp_path / "rows.jsonl", "-o", tmp_path / "i", "--model", tiny_model)[0] == 0
    code, out, err = mundap("bench", "scale", "--passages", "1k", "-o", tmp_path / "b", "-i", tmp_path / "i", "--json")
    if code == 2:  # the tiny model knows few words: then too few vectors differ, and it says so
        assert "different passages" in err
    else:
        assert json.loads(out)["results"][0]["dimension"] == 16
        assert np.load(tmp_path / "b/bank.npz")["vectors"].shape[1] == 16
