"""Pictures: what is drawn, and that it stays inside."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.html.charts import MOST_POINTS, OTHER, curves, scatter, stacked_bars, thinned, with_few_parts

NUMBER = st.floats(0.0, 1e6)


def read(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # well-formed


def inside(drawing: ET.Element) -> bool:
    _, _, width, height = map(float, drawing.attrib["viewBox"].split())
    for each in drawing.iter("rect"):
        x, y, w, h = (float(each.attrib[name]) for name in ("x", "y", "width", "height"))
        if x < 0 or y < 0 or x + w > width + 0.2 or y + h > height + 0.2:
            return False
    points = [
        tuple(map(float, point.split(",")))
        for each in drawing.iter("polyline")
        for point in each.attrib["points"].split()
    ]
    points += [(float(each.attrib["cx"]), float(each.attrib["cy"])) for each in drawing.iter("circle")]
    return all(0 <= x <= width and 0 <= y <= height for x, y in points)


def test_parts_of_a_bar_have_their_shares() -> None:
    drawing = read(stacked_bars("t", {"a": {"x": 1.0, "y": 3.0, "none": 0.0}, "b": {"x": 2.0}}, "ms"))
    tips = [each.findtext("title") for each in drawing.iter("rect") if each.find("title") is not None]
    assert tips == ["a, x: 1 ms (25.0%)", "a, y: 3 ms (75.0%)", "b, x: 2 ms (100.0%)"]
    widths = [float(each.attrib["width"]) for each in drawing.iter("rect") if each.find("title") is not None]
    assert widths[1] / widths[0] == pytest.approx(3.0, rel=0.01)
    assert widths[2] / widths[0] == pytest.approx(2.0, rel=0.01)


@given(st.dictionaries(st.text(max_size=40), st.dictionaries(st.text(max_size=40), NUMBER, max_size=12), max_size=5))
def test_bars_stay_inside(bars: dict[str, dict[str, float]]) -> None:
    svg = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "", stacked_bars("t", bars, "ms"))
    assert inside(read(svg))


@given(st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=30), st.booleans())
def test_curves_and_points_stay_inside(points: list[tuple[float, float]], log: bool) -> None:
    assert inside(read(curves("t", {"a": sorted(points), "b": []}, "x", "y", log=log, marks={"p50": points[0][0]})))
    assert inside(read(scatter("t", [(x, y, "tip", x > y) for x, y in points], "x", "y", log=log)))


def test_parts_without_a_colour_are_one() -> None:
    bars = {"a": {f"p{place}": float(place) for place in range(1, 13)}}
    found = with_few_parts(bars)["a"]
    assert len(found) == 8
    assert found[OTHER] == 1 + 2 + 3 + 4 + 5
    assert sum(found.values()) == sum(range(1, 13))


def test_few_points_keep_the_extremes() -> None:
    points = [(float(x), float(x * 7919 % 1009)) for x in range(20_000)]
    found = thinned(points)
    assert len(found) <= MOST_POINTS + 3
    assert found[0] == points[0]
    assert found[-1] == points[-1]
    assert max(y for _, y in found) == max(y for _, y in points)
    assert min(y for _, y in found) == min(y for _, y in points)
    assert [x for x, _ in found] == sorted(x for x, _ in found)


def test_marks_are_drawn_where_they_are() -> None:
    drawing = read(curves("t", {"a": [(0.0, 0.0), (100.0, 1.0)]}, "x", "y", marks={"p99": 50.0}))
    mark = next(each for each in drawing.iter("line") if each.attrib["class"] == "mark")
    points = next(each for each in drawing.iter("polyline")).attrib["points"].split()
    middle = sum(float(point.split(",")[0]) for point in points) / 2
    assert float(mark.attrib["x1"]) == pytest.approx(middle, abs=0.2)
