"""Charts as SVG, for pages without external resources."""

import html
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

COLOURS = ("#0b6bcb", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#be185d")
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _RIGHT, _TOP = 720, 380, 58, 44, 120, 16

_TITLE = 28  # height of the title of a chart in a picture
_LABEL = 14  # height of a line of text
_NAMES, _ROW = 280, 22  # width of the names of rows, and height of a row
_LONGEST, _LETTER = 30, 6.6  # of the name of a curve: letters shown, and the width of one
_FEW_POINTS = 12  # a curve with more gets no circles

_ROUND = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000, 100_000, 1_000_000, 10_000_000)


@dataclass(frozen=True, slots=True)
class _Axes:
    """The ranges of a chart, and where a value stands in the picture, whose curves end at `edge`."""

    left: float
    right: float
    low: float
    high: float
    logarithmic: bool
    edge: float

    def x(self, value: float) -> float:
        if self.logarithmic:
            share = math.log(value / self.left) / max(math.log(self.right / self.left), 1e-12)
        else:
            share = (value - self.left) / max(self.right - self.left, 1e-12)
        return _LEFT + (self.edge - _LEFT) * share

    def y(self, value: float) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - (value - self.low) / (self.high - self.low))

    def marks(self) -> list[float]:
        """The x values that get a label."""
        choice: Sequence[float] = _ROUND
        if not self.logarithmic:
            choice = _ticks(self.left, self.right)
        return [x for x in choice if self.left <= x <= self.right]


def line_chart(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    across: str,
    unit: str = "",
    logarithmic: bool = False,
    top: float | None = None,
) -> str:
    """Draw curves, each labelled at its end; hovering over a point shows its value.

    Where there are more curves than colours, those that come later are dashed.

    Args:
        curves: By name: (x, y) points, x ascending.
        across: What x is.
        unit: The unit of y.
        logarithmic: Whether the x axis is logarithmic.
        top: The highest y there can be.
    """
    points = list(itertools.chain.from_iterable(curves.values()))
    xs, ys = [x for x, _ in points], [y for _, y in points if math.isfinite(y)]
    if not ys:
        return "<p class=dim>Nothing to show.</p>"
    if top is None:
        top = max(ys)
    ticks = _ticks(min(ys), top)
    longest = min(max(map(len, curves)) + len("- - "), _LONGEST)
    edge = _WIDTH - max(_RIGHT, 12 + _LETTER * longest)
    axes = _Axes(min(xs), max(xs), ticks[0], ticks[-1], logarithmic, edge)
    parts = [f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role=img aria-label='{html.escape(across)}'>"]
    parts += _grid(axes, ticks, across, unit)
    heights = _apart([axes.y(curve[-1][1]) for curve in curves.values()])
    for number, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        label, dashes = name, ""
        if number >= len(COLOURS):
            label, dashes = f"- - {name}", "stroke-dasharray='7 4'"
        parts.append(_line(axes, curve, colour, dashes))
        parts += _points(axes, name, curve, colour, across, unit)
        where = f"x={edge + 8:.1f} y={heights[number] + 4:.1f}"
        parts.append(f"<text {where} style='fill:{colour}'>{html.escape(label[:_LONGEST])}</text>")
    return "".join([*parts, "</svg>"])


def interval_chart(rows: Mapping[str, tuple[float, float]], across: str) -> str:
    """Draw a row for each value: a dot, and a line as long as its interval.

    Args:
        rows: By name: the value, and half of the width of its interval; 0 where that is not known.
        across: What the values are.
    """
    if not rows:
        return "<p class=dim>Nothing to show.</p>"
    ticks = _ticks(
        min(value - half for value, half in rows.values()), max(value + half for value, half in rows.values())
    )
    bottom = _TOP + _ROW * len(rows)

    def x(value: float) -> float:
        return _NAMES + (_WIDTH - _NAMES - _LEFT) * (value - ticks[0]) / (ticks[-1] - ticks[0])

    parts = [f"<svg viewBox='0 0 {_WIDTH} {bottom + _BOTTOM}' role=img aria-label='{html.escape(across)}'>"]
    for tick in ticks:
        place = f"{x(tick):.1f}"
        parts.append(
            f"<line x1={place} x2={place} y1={_TOP} y2={bottom} stroke='#8883'/>"
            f"<text x={place} y={bottom + 18} text-anchor=middle>{_short(tick)}</text>"
        )
    for number, (name, (value, half)) in enumerate(rows.items()):
        y = _TOP + _ROW * (number + 0.5)
        parts += [
            f"<text x={_NAMES - 10} y={y + 4} text-anchor=end>{html.escape(name[:46])}</text>",
            f"<line x1={x(value - half):.1f} x2={x(value + half):.1f} y1={y} y2={y} "
            f"stroke='{COLOURS[0]}' stroke-width=2 />",
            f"<circle cx={x(value):.1f} cy={y} r=4.5 fill='{COLOURS[0]}'>"
            f"<title>{html.escape(name)}: {value:.4g} ± {half:.2g}</title></circle>",
        ]
    middle = (_NAMES + _WIDTH - _LEFT) / 2
    parts.append(f"<text x={middle} y={bottom + _BOTTOM - 6} text-anchor=middle>{html.escape(across)}</text>")
    return "".join([*parts, "</svg>"])


def picture(charts: Mapping[str, str]) -> str:
    """Charts with their titles, one below the other, as an SVG file of its own."""
    height = _HEIGHT + _TITLE
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {height * len(charts)}' "
        "font-family='sans-serif' font-size='12'>",
        "<rect width='100%' height='100%' fill='#fff'/>",
    ]
    for number, (title, chart) in enumerate(charts.items()):
        top = height * number
        parts.append(f"<text x='{_LEFT}' y='{top + _TITLE - 6}' font-size='15'>{html.escape(title)}</text>")
        placed = chart.replace("<svg ", f"<svg y='{top + _TITLE}' width='{_WIDTH}' height='{_HEIGHT}' ", 1)
        # Values without quotes are for pages only.
        parts.append(re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\s[\w-]+)=([^\s'\">]+)", r"\1='\2'", tag[0]), placed))
    return "".join([*parts, "</svg>\n"])


def _grid(axes: _Axes, ticks: Sequence[float], across: str, unit: str) -> list[str]:
    parts = []
    for x in axes.marks():
        place = f"{axes.x(x):.1f}"
        parts.append(
            f"<line x1={place} x2={place} y1={_TOP} y2={_HEIGHT - _BOTTOM} stroke='#8883'/>"
            f"<text x={place} y={_HEIGHT - _BOTTOM + 18} text-anchor=middle>{_short(x)}</text>"
        )
    for y in ticks:
        place = f"{axes.y(y):.1f}"
        parts.append(
            f"<line x1={_LEFT} x2={axes.edge:.1f} y1={place} y2={place} stroke='#8883'/>"
            f"<text x={_LEFT - 8} y={axes.y(y) + 4:.1f} text-anchor=end>{_short(y)}</text>"
        )
    middle = (_LEFT + axes.edge) / 2
    parts.append(f"<text x={middle:.1f} y={_HEIGHT - 6} text-anchor=middle>{html.escape(across)}</text>")
    if unit:
        parts.append(f"<text x=14 y={_HEIGHT / 2} transform='rotate(-90 14 {_HEIGHT / 2})'>{html.escape(unit)}</text>")
    return parts


def _line(axes: _Axes, curve: Sequence[tuple[float, float]], colour: str, dashes: str) -> str:
    path = " ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in curve if math.isfinite(y))
    return f"<polyline points='{path}' fill=none stroke='{colour}' stroke-width=2.2 {dashes}/>"


def _points(
    axes: _Axes, name: str, curve: Sequence[tuple[float, float]], colour: str, across: str, unit: str
) -> list[str]:
    """All points of a short curve; of a long one with a logarithmic axis those at the labels of x."""
    marks = axes.marks()
    parts = []
    for x, y in curve:
        if len(curve) <= _FEW_POINTS or (axes.logarithmic and x in marks):
            tip = f"{html.escape(name)}, {html.escape(across)} {_short(x)}: {y:.4g} {html.escape(unit)}"
            where = f"cx={axes.x(x):.1f} cy={axes.y(y):.1f}"
            parts.append(f"<circle {where} r=3.5 fill='{colour}'><title>{tip}</title></circle>")
    return parts


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from below the lowest to above the highest."""
    span = max(high - low, abs(high) * 0.01, 1e-6)
    raw = span / 5
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, max(last, first + 1) + 1)]


def _short(value: float) -> str:
    if float(value).is_integer() and abs(value) >= 1:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _apart(places: list[float]) -> list[float]:
    """Heights of labels, moved so that none covers another, up where there is no room below."""
    order = sorted(range(len(places)), key=lambda number: places[number])
    result = list(places)
    for before, after in itertools.pairwise(order):
        result[after] = max(result[after], result[before] + _LABEL)
    floor = float(_HEIGHT - _BOTTOM)
    for number in reversed(order):
        result[number] = min(result[number], floor)
        floor = result[number] - _LABEL
    return result


def scatter(points: Sequence[tuple[str, float, float]]) -> str:
    """Draw a scatter plot with a colour per label and without axes, for maps such as t-SNE."""
    if not points:
        return "<p class=dim>Nothing to show.</p>"
    labels = list(dict.fromkeys(label for label, _, _ in points))
    left, right = min(x for _, x, _ in points), max(x for _, x, _ in points)
    low, high = min(y for _, _, y in points), max(y for _, _, y in points)
    parts = [f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role=img aria-label='map'>"]
    for label, x, y in points:
        colour = COLOURS[labels.index(label) % len(COLOURS)]
        place = _TOP + 8 + (_WIDTH - _RIGHT - 40) * (x - left) / max(right - left, 1e-9)
        height = _TOP + 8 + (_HEIGHT - 2 * _TOP - 16) * (1 - (y - low) / max(high - low, 1e-9))
        size = 4.5
        if label == "question":
            size = 7
        tip = f"<title>{html.escape(label)}</title>"
        parts.append(f"<circle cx={place:.1f} cy={height:.1f} r={size} fill='{colour}' fill-opacity=.8>{tip}</circle>")
    for number, label in enumerate(labels):
        colour = COLOURS[number % len(COLOURS)]
        where = f"x={_WIDTH - _RIGHT + 8} y={_TOP + 14 + 18 * number}"
        parts.append(f"<text {where} style='fill:{colour}'>{html.escape(label)}</text>")
    return "".join([*parts, "</svg>"])
