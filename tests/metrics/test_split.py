"""Every moment counts once: against counting seconds one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.metrics.split import Piece, TimeSplit

pieces = st.builds(
    lambda start, length, purpose: (start, start + length, purpose),
    st.integers(-5, 35),
    st.integers(0, 12),
    st.sampled_from(["data", "tensor", "pipeline"]),
)
layers = st.lists(st.lists(pieces, max_size=8), max_size=4)


def owner(second: int, layer: list[Piece]) -> str | None:
    """For what a second counts, if it is left."""
    active = [(start, end, purpose) for start, end, purpose in layer if start <= second < end]
    return min(active)[2] if active else None


@given(layers)
def test_every_second_counts_for_the_first_layer_and_in_it_for_what_began_first(plan: list[list[Piece]]) -> None:
    split, left = TimeSplit(0, 30), set(range(30))
    for layer in plan:
        expected = {purpose: 0.0 for _, _, purpose in layer}
        for second in sorted(left):
            purpose = owner(second, layer)
            if purpose is not None:
                expected[purpose] += 1.0
                left.remove(second)
        assert split.take(layer) == expected
    assert split.before(range(31)) == len(left)


@pytest.mark.parametrize(
    ("times_s", "seconds"),
    [({4.0}, 2.0), ({10.0}, 3.0), ({4.0, 10.0}, 5.0), ({0.0}, 0.0), ({5.0}, 0.0), (set(), 0.0)],
)
def test_what_is_left_before_a_moment_is_the_gap_that_ends_there(times_s: set[float], seconds: float) -> None:
    split = TimeSplit(0.0, 10.0)
    split.take([(0.0, 2.0, "a"), (4.0, 5.0, "b"), (5.0, 7.0, "b")])
    assert split.before(times_s) == seconds


def test_what_lies_outside_does_not_count() -> None:
    split = TimeSplit(2.0, 4.0)
    assert split.take([(0.0, 3.0, "a"), (3.5, 9.0, "b"), (5.0, 6.0, "c")]) == {"a": 1.0, "b": 0.5, "c": 0.0}
