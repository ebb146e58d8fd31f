"""Every moment of a step counts once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.traces.step_times import Step, mean_times, times_of

KINDS = st.sampled_from(["compute", "all_reduce", "all_gather", "copy"])
PIECES = st.lists(
    st.tuples(st.floats(0, 90), st.floats(0, 30), KINDS).map(lambda each: (each[0], each[0] + each[1], each[2]))
)
WHOLE = Step(0, 10.0, 80.0)


@given(PIECES)
def test_parts_add_up_to_the_step(pieces: list[tuple[float, float, str]]) -> None:
    found = times_of(WHOLE, pieces)
    parts_s = found.compute_s + sum(found.exposed_s.values()) + found.idle_s
    assert parts_s == pytest.approx(found.step_s, abs=1e-9)
    assert 0.0 <= found.overlap <= 1.0 + 1e-9
    assert found.longest_gap_s <= found.idle_s + 1e-9


def test_overlap_is_the_share_of_communication_beside_computation() -> None:
    pieces = [(10.0, 30.0, "compute"), (20.0, 40.0, "all_reduce"), (35.0, 60.0, "all_gather")]
    found = times_of(WHOLE, pieces)
    assert found.overlap == pytest.approx(10 / 40)
    assert found.communication_s == {"all_gather": 25.0, "all_reduce": 20.0}
    assert found.exposed_s == {"all_gather": 20.0, "all_reduce": 10.0}
    assert (found.idle_s, found.gaps, found.longest_gap_s) == (20.0, 1, 20.0)


def test_gaps_between_kernels_that_follow_one_another_are_not_counted() -> None:
    found = times_of(Step(0, 0.0, 1.0), [(0.0, 0.5, "compute"), (0.5 + 1e-7, 1.0, "compute")])
    assert (found.gaps, found.idle_s) == (0, pytest.approx(1e-7))


def test_means_count_a_step_as_often_as_it_happened() -> None:
    pieces = [(0.0, 1.0, "compute"), (2.0, 4.0, "compute")]
    found = mean_times([Step(0, 0.0, 2.0), Step(1, 2.0, 4.0, count=3)], pieces)
    assert (found.step_s, found.compute_s, found.idle_s) == (2.0, 1.75, 0.25)
