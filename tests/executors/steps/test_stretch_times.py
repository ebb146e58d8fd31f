"""Durations of passes of ranks that share their experts."""

from __future__ import annotations

import pytest

from simsys.costs.step_times import StepTimes
from simsys.executors.steps.rounds import Round
from simsys.executors.steps.stretch_times import RoundTimes, Shared
from tests.parallel.test_lockstep import LAYERS, plan_of, step_of


def pass_s(own_s: float, experts_s: float, exchange_s: float, halves: int, occupied: float = 0.0) -> float:
    """The duration of a pass of one rank with work."""
    found = Round(step_of(plan_of(8, 8), 8, halves=halves == 2), [])
    times = RoundTimes(found, {0: StepTimes(own_s, 0.0, 0.0)}, Shared(experts_s, exchange_s, halves, 0.0, occupied))
    return times.duration(0)


def test_parts_follow_one_another() -> None:
    assert pass_s(1.0, 2.0, 4.0, 1) == 7.0
    assert pass_s(1.0, 2.0, 4.0, 1, occupied=0.5) == 7.0  # nothing computes beside the exchange


@pytest.mark.parametrize(("compute_s", "exchange_s"), [(3.0, 1.0), (1.0, 3.0), (2.0, 2.0)])
def test_two_halves_take_turns(compute_s: float, exchange_s: float) -> None:
    """Two jobs that alternate between two resources: 2 L max(c, d) + min(c, d) for L layers (Johnson's rule)."""
    each, other = compute_s / (2 * LAYERS), exchange_s / (2 * LAYERS)
    expected_s = 2 * LAYERS * max(each, other) + min(each, other)
    assert pass_s(compute_s / 3.0, compute_s / 1.5, exchange_s, 2) == pytest.approx(expected_s, rel=1e-12)


def test_an_exchange_that_occupies_the_gpu_delays_the_other_half() -> None:
    """With all of the GPU nothing overlaps; with a part, computation is longer by it."""
    assert pass_s(2.0, 1.0, 2.0, 2, occupied=1.0) == pytest.approx(5.0, rel=1e-12)
    free, delayed = pass_s(2.0, 1.0, 2.0, 2), pass_s(2.0, 1.0, 2.0, 2, occupied=0.25)
    assert delayed - free == pytest.approx(0.5 * (1.0 - 0.5 / LAYERS), rel=1e-12)


def test_an_exchange_that_occupies_the_gpu_delays_shared_experts() -> None:
    assert Shared(0.0, 4.0, 1, 3.0).waited_s == 4.0
    assert Shared(0.0, 4.0, 1, 3.0, 0.5).waited_s == 5.0
    assert Shared(0.0, 4.0, 1, 0.0, 0.5).waited_s == 4.0
