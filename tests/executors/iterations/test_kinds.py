"""Kinds of iterations, run by run, against the definition applied to every iteration."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.executors.iterations.kinds import Kind, runs


def kind_of(iteration: int, starts: list[int], interval: int, linked: bool) -> Kind:
    """What one iteration is, by the definition."""

    def own(each: int) -> tuple[int, bool]:
        return bisect_right(starts, each) - 1, interval > 0 and each % interval == interval - 1

    return Kind(*own(iteration), own(iteration - 1) if linked and iteration else None)


@given(st.integers(1, 60), st.sets(st.integers(1, 70), max_size=4), st.integers(0, 9), st.booleans())
def test_every_iteration_is_of_its_kind(count: int, later: set[int], interval: int, linked: bool) -> None:
    starts = [0, *sorted(later)]
    found = [kind for kind, length in runs(count, starts, interval, linked=linked) for _ in range(length)]
    assert found == [kind_of(iteration, starts, interval, linked) for iteration in range(count)]


@pytest.mark.parametrize(
    ("interval", "linked", "lengths"),
    [
        (0, False, [10**6]),
        (0, True, [1, 10**6 - 1]),
        (1, False, [10**6]),
        (500_000, False, [499_999, 1, 499_999, 1]),
        (500_000, True, [1, 499_998, 1, 1, 499_998, 1]),
    ],
)
def test_a_run_is_as_long_as_it_can_be(interval: int, linked: bool, lengths: list[int]) -> None:
    assert [length for _, length in runs(10**6, [0], interval, linked=linked)] == lengths
