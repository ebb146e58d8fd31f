"""Steps in lockstep: one after the other, as often as they say."""

from __future__ import annotations

import pytest

from simsys.platform.environment import Environment
from simsys.platform.fair import FairNetwork
from simsys.platform.topology import full_mesh


def test_a_step_begins_when_the_one_before_has_arrived_everywhere() -> None:
    network, ends = FairNetwork(Environment(), full_mesh(3, 2.0, 0.5)), list[float]()
    schedule = network.schedule([([(0, 1), (1, 2)], 3.0, 2, 0.0), ([(2, 0)], 2.0, 1, 0.0)])
    schedule.start(lambda _: ends.append(network.env.now))
    network.env.run()
    assert ends == [pytest.approx(2 * (1.5 + 0.5) + 1.0 + 0.5)]
    assert {(link.spec.src, link.spec.dst): link.nbytes for link in network.links if link.nbytes} == {
        (0, 1): 6.0,
        (1, 2): 6.0,
        (2, 0): 2.0,
    }


def test_no_steps_are_done_at_once() -> None:
    network, ends = FairNetwork(Environment(7.0), full_mesh(3, 2.0, 0.5)), list[float]()
    network.schedule([]).start(lambda _: ends.append(network.env.now))
    assert ends == [7.0]


def test_runs_of_one_schedule_may_overlap() -> None:
    network, ends = FairNetwork(Environment(), full_mesh(2, 2.0, 0.0)), list[float]()
    schedule = network.schedule([([(0, 1)], 2.0, 3, 0.0)])
    for _ in range(2):
        schedule.start(lambda _: ends.append(network.env.now))
    network.env.run()
    assert ends == [6.0, 6.0]
