import re
from pathlib import Path

import pytest

from mundap.engines.plan import MOST, Machines, number_of, plan
from mundap.errors import UsageError
from mundap.index.sizes import lists_for


def amounts(needs):
    return {need.name: need.amount for need in needs}


def test_plan_is_the_arithmetic_it_shows():
    made = plan(21_000_000, 384, Machines(cores=64, gpus=8))
    codes = 21e6 * 104 + lists_for(21_000_000) * 8 * 384
    assert amounts(made.embedded)["memory"] == pytest.approx(codes / 1e9 + 0.2)
    assert amounts(made.embedded)["disk"] == pytest.approx((21e6 * (750 + 189 + 768 + 388) + codes) / 1e9)
    assert amounts(made.making)["encoding, CPU"] == pytest.approx(21e6 / (27.8 * 64) / 3600)
    assert amounts(made.making)["encoding, GPU"] == pytest.approx(21e6 / (83 * 8) / 3600)
    for need in (*made.making, *made.embedded, *made.milvus):
        shown = need.arithmetic.replace(",", "")
        assert "21000000" in shown or need.name == "machines"


def test_the_page_for_planning_has_these_figures():
    page = (Path(__file__).parents[2] / "docs" / "engines.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if re.match(r"\| [0-9]+[MB] \|", line)]
    assert [row[0] for row in rows] == ["1M", "21M", "100M", "1B"]
    for size, *shown in rows:
        made = plan(number_of(size), 384, Machines(cores=64, gpus=8))
        folder, milvus, making = amounts(made.embedded), amounts(made.milvus), amounts(made.making)
        wanted = [folder["memory"], folder["disk"], milvus["memory, all machines"], milvus["disk"], milvus["machines"]]
        wanted += [making["reading and BM25"], making["encoding, CPU"], making["encoding, GPU"]]
        told = [float(text.split()[0].replace(",", "")) for text in shown]
        assert told == pytest.approx(wanted, rel=0.006, abs=0.06)


def test_a_small_index_is_held_as_it_is_and_needs_no_training():
    small, large = plan(50_000), plan(500_000)
    assert amounts(small.embedded)["memory"] == pytest.approx(50_000 * 4 * 384 / 1e9 + 0.2)
    assert "approximate index" not in amounts(small.making)
    assert amounts(large.making)["approximate index"] > 0
    assert amounts(large.embedded)["memory"] < 10 * amounts(small.embedded)["memory"]


def test_twice_as_many_take_twice_as_much():
    one, two = (amounts(plan(count).milvus) for count in (50_000_000, 100_000_000))
    assert two["memory, all machines"] == pytest.approx(2 * one["memory, all machines"])
    assert two["disk"] == pytest.approx(2 * one["disk"])
    assert amounts(plan(50_000_000, machines=Machines(replicas=2)).milvus)["machines"] == two["machines"]


@pytest.mark.parametrize(
    ("text", "number"),
    [("500k", 500_000), ("21M", 21_000_000), ("1B", 10**9), ("1.5m", 1_500_000), ("21,015,324", 21_015_324)],
)
def test_numbers(text, number):
    assert number_of(text) == number


@pytest.mark.parametrize("text", ["", "many", "k", "1e999", "nan"])
def test_no_numbers(text):
    with pytest.raises(UsageError, match="write a number"):
        number_of(text)


def test_nonsense_is_refused():
    for passages, dimension in ((0, 384), (MOST + 1, 384), (10, 0)):
        with pytest.raises(UsageError, match="choose between"):
            plan(passages, dimension)
