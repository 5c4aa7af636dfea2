import json

import numpy as np
import pytest

from mundap.errors import UsageError
from mundap.index.build import Options, build
from mundap.index.manifest import Manifest
from mundap.index.sizes import SIZES, Effort, codes_for, effort_for, lists_for
from mundap.index.tuning import tune


def test_the_share_of_the_lists_falls_with_the_size():
    sizes = [10**5, 3 * 10**5, 10**6, 5 * 10**6, 21 * 10**6, 10**8]
    shares = [effort_for(size, lists_for(size)).probes / lists_for(size) for size in sizes]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 4 * shares[-1]


def test_a_row_of_the_table_is_what_it_says():
    for row in SIZES:
        assert effort_for(row.passages, 10_000) == Effort(row.probes, row.candidates)
    assert effort_for(1000, 8).probes == 8
    assert effort_for(10**6, 4000, one_bit=True).candidates > effort_for(10**6, 4000).candidates


def test_codes_for_any_dimension():
    assert codes_for(384) == "PQ192x4fs"
    assert codes_for(15) == "RaBitQfs"


def test_long_lists_take_half_the_candidates():
    assert Effort(1, 8).fetch(100) == 800
    assert Effort(1, 8).fetch(1000) == 4000


def fake_search(lists, truth, seed=0):
    """An index that finds hit n with so many probes, and among so many candidates, as were drawn for it."""
    generator = np.random.default_rng(seed)
    needs = [generator.integers(1, lists // 4, len(row)) for row in truth]
    places = [generator.integers(0, 600, len(row)) for row in truth]

    def search(probes, fetch):
        rows = np.full((len(truth), fetch), -1)
        for at, (row, need, place) in enumerate(zip(truth, needs, places, strict=True)):
            for number, wanted, where in zip(row, need, place, strict=True):
                if wanted <= probes and where < fetch:
                    rows[at, where] = number
        return rows

    return search


def test_tuning_takes_the_cheapest_that_reaches_the_recall():
    truth = [np.arange(100) + 1000 * n for n in range(5)]
    search = fake_search(256, truth)
    loose, strict = (tune(search, truth, wanted, 256, 100_000) for wanted in (0.5, 0.75))
    assert loose.recall >= 0.5
    assert strict.recall >= 0.75
    assert strict.effort.probes * strict.effort.candidates > loose.effort.probes * loose.effort.candidates


def test_what_cannot_be_reached_is_told_as_it_is():
    truth = [np.arange(100)]
    tuned = tune(lambda probes, fetch: np.full((1, fetch), -1), truth, 0.9, 64, 10_000)
    assert tuned.recall == 0


@pytest.fixture
def rows(tmp_path):
    words = ["river", "sea", "king", "bridge", "stone", "apple", "cloud", "horse", "green", "night"]
    generator = np.random.default_rng(0)
    texts = [{"id": n, "text": " ".join(generator.choice(words, 12))} for n in range(700)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, texts)))
    return tmp_path / "rows.jsonl"


def test_an_index_is_tuned_for_a_recall_and_tuned_again(tmp_path, rows, tiny_model):
    out = tmp_path / "i"
    build([rows], out, Options(model=str(tiny_model), dense="ivf"))
    first = Manifest.load(out)
    assert (first.dense.probes, first.settings.recall) == (0, 0)
    build([rows], out, Options(recall=0.9))
    second = Manifest.load(out)
    assert second.settings.recall == 900
    assert second.dense.file == first.dense.file  # searched otherwise, not built again
    assert second.dense.recall >= 900
    assert second.dense.probes > 0
    assert second.dense.candidates > 0
    build([rows], out, Options())
    assert Manifest.load(out) == second
    build([rows], out, Options(recall=0.0))
    assert (Manifest.load(out).dense.probes, Manifest.load(out).settings.recall) == (0, 0)


def test_no_such_recall(tmp_path, rows, tiny_model):
    with pytest.raises(UsageError, match="choose between"):
        build([rows], tmp_path / "i", Options(model=str(tiny_model), recall=1.0))
