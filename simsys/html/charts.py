"""The kinds of pictures of a page. Colours repeat after eight; curves differ by their dashes too."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from simsys.html.page import cell
from simsys.html.scales import Scale, linear, logarithmic
from simsys.html.svg import Drawing
from simsys.report.text import tick_text

WIDTH = 760.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 16.0, 10.0, 42.0
COLOURS = 8
LETTER = 6.6
"""About the width of a letter, in pixels."""
OTHER = "other"
MOST_POINTS = 600
"""Points of a curve, more than there are pixels for."""


def colour(index: int) -> str:
    """The class of a series."""
    return f"c{index % COLOURS}"


def shortened(text: str, most: int) -> str:
    """A text of at most `most` letters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def stacked_bars(title: str, bars: Mapping[str, Mapping[str, float]], unit: str) -> str:
    """Horizontal bars, each divided into parts; parts of 0 are left out.

    Args:
        title: What it shows.
        bars: The parts of each bar.
        unit: The unit of the parts.
    """
    bars = with_few_parts(bars)
    names = list(dict.fromkeys(part for parts in bars.values() for part in parts))
    left = 12.0 + LETTER * max((min(len(bar), 24) for bar in bars), default=0)
    rows = _legend_rows(names, WIDTH - left)
    top = TOP + 20.0 * len(rows)
    drawing = Drawing(WIDTH, top + 30.0 * len(bars) + BOTTOM, title)
    _legend(drawing, rows, {name: colour(index) for index, name in enumerate(names)}, left)
    totals = [math.fsum(parts.values()) for parts in bars.values()]
    across = linear(totals, left, WIDTH - RIGHT)
    bottom = top + 30.0 * len(bars)
    _bottom_axis(drawing, across, bottom, top, unit)
    for place, (bar, parts) in enumerate(bars.items()):
        y, total, x = top + 30.0 * place + 4.0, totals[place], left
        drawing.text(left - 6.0, y + 15.0, shortened(bar, 24), "end")
        for index, name in enumerate(names):
            value = parts.get(name, 0.0)
            if value <= 0:
                continue
            width = across(value) - left
            share = f"{value / total:.1%}" if total else ""
            drawing.rect(x, y, width, 22.0, f"bar {colour(index)}", f"{bar}, {name}: {cell(value)} {unit} ({share})")
            x += width
    return str(drawing)


def with_few_parts(bars: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """The parts above 0, those for which there is no colour as one part `OTHER`."""
    totals: dict[str, float] = {}
    for parts in bars.values():
        for name, value in parts.items():
            totals[name] = totals.get(name, 0.0) + max(0.0, value)
    names = [name for name, total in totals.items() if total > 0 and name != OTHER]
    if len(names) > COLOURS:
        largest = set(sorted(names, key=lambda name: -totals[name])[: COLOURS - 1])
        names = [name for name in names if name in largest]
    found = {bar: {name: parts.get(name, 0.0) for name in names} for bar, parts in bars.items()}
    if rest := [name for name in totals if name not in names and totals[name] > 0]:
        for bar, parts in bars.items():
            found[bar][OTHER] = math.fsum(max(0.0, parts.get(name, 0.0)) for name in rest)
    return found


def curves(
    title: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    across: str,
    up: str,
    *,
    log: bool = False,
    marks: Mapping[str, float] | None = None,
) -> str:
    """Curves over a common axis.

    Args:
        title: What it shows.
        series: The points of each curve, in order.
        across: Name and unit of the horizontal axis.
        up: Name and unit of the vertical axis.
        log: True for a logarithmic horizontal axis.
        marks: Values on the horizontal axis to mark, by their names.
    """
    marks = marks or {}
    rows = _legend_rows([shortened(name, 40) for name in series], WIDTH - LEFT) if len(series) > 1 else []
    top = TOP + 20.0 * len(rows) + (14.0 if marks else 0.0)
    bottom = top + 220.0
    drawing = Drawing(WIDTH, bottom + BOTTOM, title)
    _legend(drawing, rows, {shortened(name, 40): colour(index) for index, name in enumerate(series)}, LEFT)
    xs = [x for points in series.values() for x, _ in points] + list(marks.values())
    scale = (logarithmic if log else linear)(xs, LEFT, WIDTH - RIGHT)
    if not log and xs:
        scale = linear(xs, LEFT, WIDTH - RIGHT, zero=min(xs) >= 0 and min(xs) < 0.5 * max(xs))
    height = linear([y for points in series.values() for _, y in points], bottom, top)
    _bottom_axis(drawing, scale, bottom, top, across)
    _left_axis(drawing, height, up)
    for index, (name, points) in enumerate(series.items()):
        shown = [(x, y) for x, y in thinned(points) if math.isfinite(y) and (x > 0 or not log)]
        drawing.curve([(scale(x), height(y)) for x, y in shown], f"curve {colour(index)}", name)
    for name, value in marks.items():
        x = scale(value)
        drawing.line(x, top, x, bottom, "mark", f"{name}: {cell(value)}")
        drawing.text(min(max(x, LEFT + 30), WIDTH - 50), top - 4.0, name, "mid")
    return str(drawing)


def scatter(
    title: str,
    points: Sequence[tuple[float, float, str, bool]],
    across: str,
    up: str,
    *,
    log: bool = False,
) -> str:
    """Points with tooltips, of which some stand out and are joined.

    Args:
        title: What it shows.
        points: Place across and up, the tooltip, and whether it stands out.
        across: Name and unit of the horizontal axis.
        up: Name and unit of the vertical axis.
        log: True for logarithmic axes.
    """
    bottom = TOP + 280.0
    drawing = Drawing(WIDTH, bottom + BOTTOM, title)
    kind = logarithmic if log else linear
    scale = kind([x for x, *_ in points], LEFT, WIDTH - RIGHT)
    height = kind([y for _, y, *_ in points], bottom, TOP)
    _bottom_axis(drawing, scale, bottom, TOP, across)
    _left_axis(drawing, height, up)
    best = sorted((x, y) for x, y, _, stands_out in points if stands_out)
    if len(best) > 1:
        drawing.curve([(scale(x), height(y)) for x, y in best], "curve c1")
    for x, y, tip, stands_out in points:
        drawing.circle(scale(x), height(y), 5.0 if stands_out else 3.5, "c1" if stands_out else "c0", tip)
    return str(drawing)


def thinned(points: Sequence[tuple[float, float]], most: int = MOST_POINTS) -> Sequence[tuple[float, float]]:
    """Fewer points, of which each stretch keeps its least and its greatest value and the ends."""
    if len(points) <= most:
        return points
    length = math.ceil(2 * len(points) / most)
    kept = [points[0]]
    for start in range(0, len(points), length):
        part = points[start : start + length]
        extremes = {min(part, key=lambda point: point[1]), max(part, key=lambda point: point[1])}
        kept += [point for point in part if point in extremes]
    return [*kept, points[-1]]


def _bottom_axis(drawing: Drawing, scale: Scale, bottom: float, top: float, label: str) -> None:
    for tick in scale.ticks():
        x = scale(tick)
        drawing.line(x, top, x, bottom, "grid")
        drawing.text(x, bottom + 16.0, tick_text(tick), "mid dim")
    drawing.line(scale.start, bottom, scale.end, bottom, "axis")
    drawing.text((scale.start + scale.end) / 2, bottom + 34.0, label, "mid dim")


def _left_axis(drawing: Drawing, scale: Scale, label: str) -> None:
    for tick in scale.ticks(5):
        y = scale(tick)
        drawing.line(LEFT, y, WIDTH - RIGHT, y, "grid")
        drawing.text(LEFT - 6.0, y + 4.0, tick_text(tick), "end dim")
    drawing.line(LEFT, scale.start, LEFT, scale.end, "axis")
    drawing.text(LEFT + 4.0, scale.end + 12.0, label, "dim")


def _legend_rows(names: Sequence[str], width: float) -> list[list[str]]:
    """The names in rows that fit."""
    rows: list[list[str]] = []
    left = 0.0
    for name in names:
        needed = 26.0 + LETTER * len(name)
        if not rows or left < needed:
            rows.append([])
            left = width
        rows[-1].append(name)
        left -= needed
    return rows


def _legend(drawing: Drawing, rows: Sequence[Sequence[str]], colours: Mapping[str, str], left: float) -> None:
    for place, names in enumerate(rows):
        x, y = left, TOP + 20.0 * place
        for name in names:
            drawing.rect(x, y, 12.0, 12.0, colours[name])
            drawing.text(x + 17.0, y + 10.5, name)
            x += 26.0 + LETTER * len(name)
