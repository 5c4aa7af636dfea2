"""Charts, read back from their SVG."""

import re

import pytest

from mundap import charts


def test_dots_and_intervals_stand_where_their_values_are():
    rows = {"BM25": (60.0, 0.0), "a <name>": (70.0, 5.0), "worse": (45.0, 2.5)}
    drawn = charts.interval_chart(rows, "top-20")
    dots = [float(x) for x in re.findall(r"<circle cx=([\d.]+)", drawn)]
    lines = [
        (float(a), float(b)) for a, b in re.findall(r"<line x1=([\d.]+) x2=([\d.]+) y1=\S+ y2=\S+ stroke='#0", drawn)
    ]
    assert len(dots) == len(lines) == 3
    scale = (dots[1] - dots[0]) / 10  # of one point
    assert scale > 0
    assert dots[0] - dots[2] == pytest.approx(15 * scale, abs=0.2)
    for (_, half), dot, (left, right) in zip(rows.values(), dots, lines, strict=True):
        assert (left, right) == pytest.approx((dot - half * scale, dot + half * scale), abs=0.2)
    assert "a &lt;name&gt;" in drawn and "top-20" in drawn
    assert "Nothing to show" in charts.interval_chart({}, "top-20")
    assert "<circle" in charts.interval_chart({"one": (0.0, 0.0)}, "all alike")


def test_labels_of_rows_stay_within_the_picture():
    drawn = charts.interval_chart({"n" * 200: (1.0, 0.1), "b": (1e9, 0.0)}, "x")
    width, height = map(float, re.search(r"viewBox='0 0 (\d+) (\d+)'", drawn).groups())
    assert all(0 <= float(x) <= width for x in re.findall(r" x=([-\d.]+)", drawn))
    assert all(0 <= float(y) <= height for y in re.findall(r" y=([-\d.]+)", drawn))
    assert "n" * 47 not in re.sub("<title>.*?</title>", "", drawn)


def test_curves_end_where_their_names_begin_and_are_dashed_when_the_colours_are_used_up():
    curves = {f"{n} of a long name of curves": [(1.0, n), (2.0, n + 1.0)] for n in range(len(charts.COLOURS) + 1)}
    drawn = charts.line_chart(curves, "step")
    names = [float(x) for x in re.findall(r"<text x=([\d.]+) y=[\d.]+ style", drawn)]
    ends = [float(x) for x in re.findall(r"<polyline points='[^']*? ([\d.]+),[\d.]+'", drawn)]
    width = float(re.search(r"viewBox='0 0 (\d+)", drawn)[1])
    assert len(names) == len(ends) == len(curves)
    assert all(
        end < name and name + 6 * len("0 of a long name of curves") < width
        for end, name in zip(ends, names, strict=True)
    )
    assert drawn.count("stroke-dasharray") == 1 and "- - 6 of a long name of curves" in drawn
