"""How far ranks have come: ahead of the clock by the computation issued, together where they wait for each other."""

from __future__ import annotations

import pytest

from simsys.executors.clocks import Clocks
from simsys.probes import Probe, Probes
from simsys.testing.toys import toy_platform


class Told(Probe):
    def __init__(self) -> None:
        self.marks: list[tuple[int, str, float]] = []
        self.runs: list[tuple[int, int, float, float, int]] = []

    def mark(self, rank: int, name: str, now_s: float) -> None:
        self.marks.append((rank, name, now_s))

    def repeated(self, rank: int, count: int, started_s: float, iteration_s: float, like: int) -> None:
        self.runs.append((rank, count, started_s, iteration_s, like))


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def clocks(told: Told) -> Clocks:
    """Of three ranks that have issued 1, 2 and 0 seconds of computation, at 0.5 s."""
    clocks = Clocks(toy_platform(3), Probes([told]), queues=False)
    for device, seconds in zip(clocks.platform.devices, (1.0, 2.0, 0.0), strict=True):
        device.reserve(0.0, seconds)
    clocks.env.run(until=0.5)
    return clocks


def test_a_rank_goes_on_when_its_computation_has_ended(clocks: Clocks, told: Told) -> None:
    assert [clocks.now(rank) for rank in range(3)] == [1.0, 2.0, 0.5]
    clocks.mark(1, "phase")
    assert told.marks == [(1, "phase", 2.0)]


def test_aligned_ranks_go_on_with_the_last_of_them(clocks: Clocks) -> None:
    assert clocks.align([0, 2]) == 1.0
    assert [clocks.now(rank) for rank in range(3)] == [1.0, 2.0, 1.0]


def test_a_pause_holds_up_its_ranks_without_keeping_them_busy(clocks: Clocks) -> None:
    event = clocks.pause([0, 1], 4.0)
    assert [clocks.now(rank) for rank in range(3)] == [4.0, 4.0, 0.5]
    clocks.env.run(until=event)
    assert clocks.env.now == 4.0
    assert clocks.busy_seconds(range(3)) == [1.0, 2.0, 0.0]


def test_iterations_that_are_told_count_as_if_they_were_simulated(clocks: Clocks, told: Told) -> None:
    clocks.platform.network.traffic.between(0, 1).nbytes = 5.0
    end_s = clocks.repeat([0, 1], 4, like=2, iteration_s=3.0, busy_s=[0.5, 1.0], sent_bytes=[7.0])
    assert end_s == clocks.now(0) == clocks.now(1) == 2.0 + 4 * 3.0
    assert clocks.busy_seconds([0, 1]) == [1.0 + 4 * 0.5, 2.0 + 4 * 1.0]
    assert clocks.sent_bytes() == [5.0 + 4 * 7.0]
    assert told.runs == [(0, 4, 2.0, 3.0, 2), (1, 4, 2.0, 3.0, 2)]
