"""The Pareto front of points."""

from __future__ import annotations

from simsys.contents.sweep import frontier


def test_the_frontier_has_no_point_that_another_one_beats() -> None:
    points = [(1.0, 1.0), (2.0, 3.0), (3.0, 2.0), (4.0, 9.0), (4.0, 8.0), (0.5, 1.0)]
    assert [points[place] for place in frontier(points)] == [(1.0, 1.0), (3.0, 2.0), (4.0, 8.0)]
    assert frontier([]) == []
