"""Slices of a lane never overlap, and no slice moves without need."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.traces.lanes import LONGEST_NS, in_lanes, nanoseconds

SLICES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 9)), max_size=40)


def arranged(slices: list[tuple[int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Lane, further lane, start and end of each slice."""
    lane, start, length = (np.array([each[place] for each in slices], dtype=np.int64) for place in range(3))
    order, further = in_lanes(lane, start, start + length)
    columns = lane[order], further, start[order], (start + length)[order]
    return list(zip(*(column.tolist() for column in columns), strict=True))


@given(SLICES)
def test_no_two_slices_of_a_lane_overlap(slices: list[tuple[int, int, int]]) -> None:
    found = arranged(slices)
    assert sorted((lane, start, end) for lane, _, start, end in found) == sorted(
        (lane, start, start + length) for lane, start, length in slices
    )
    ends: dict[tuple[int, int], int] = {}
    for lane, further, start, end in found:
        assert start >= ends.get((lane, further), 0)
        ends[lane, further] = end


@given(SLICES)
def test_as_few_further_lanes_as_slices_that_run_at_a_time(slices: list[tuple[int, int, int]]) -> None:
    long = [(lane, start, length + 1) for lane, start, length in slices]
    found = arranged(long)
    for lane in range(3):
        of_lane = [(start, end) for each, _, start, end in found if each == lane]
        most = max((sum(start <= now < end for start, end in of_lane) for now, _ in of_lane), default=0)
        assert len({further for each, further, _, _ in found if each == lane}) == most


def test_slices_in_turn_stay_in_their_lane() -> None:
    assert {further for _, further, _, _ in arranged([(0, 10 * k, 10) for k in range(5)])} == {0}


@given(st.lists(st.floats(0.0, 1e9)))
def test_rounding_keeps_the_order(seconds: list[float]) -> None:
    found = nanoseconds(np.array(sorted(seconds)))
    assert (np.diff(found) >= 0).all()


def test_longer_than_the_format_allows() -> None:
    with pytest.raises(ValueError, match="285 years"):
        nanoseconds(np.array([1.1e-9 * LONGEST_NS]))
