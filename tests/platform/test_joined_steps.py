"""Equal steps that are carried out as one: the same time alone, nearly the same beside others, fewer events."""

from __future__ import annotations

import pytest

from simsys.platform.environment import Environment
from simsys.platform.fair import FairNetwork
from simsys.platform.fifo import CutThroughNetwork
from simsys.platform.network import LockStep, Network
from simsys.platform.topology import single_switch

RING = [(gpu, (gpu + 1) % 4) for gpu in range(4)]
UNEVEN = [*RING, (0, 2)]
PAUSE_S = 5e-6


def steps(pairs: list[tuple[int, int]], nbytes: float = 1e6, repeat: int = 6) -> list[LockStep]:
    return [(pairs, nbytes, repeat, PAUSE_S), (pairs[:2], nbytes, 1, PAUSE_S)]


def network(kind: type[FairNetwork | CutThroughNetwork] = FairNetwork) -> FairNetwork | CutThroughNetwork:
    return kind(Environment(), single_switch(4, 1e9, 2e-6))


def ends_s(found: Network, *collectives: list[LockStep], joined: bool = False) -> list[float]:  # type: ignore[type-arg]
    """When collectives end that start together, each three times in a row."""
    ends: dict[int, float] = {}

    def again(place: int, left: int) -> None:
        ends[place] = found.env.now
        if left:
            schedules[place].start(lambda _: again(place, left - 1))

    schedules = [found.schedule(each, joined=joined) for each in collectives]
    for place in range(len(schedules)):
        again(place, 3)
    found.env.run()
    return [ends[place] for place in range(len(schedules))]


@pytest.mark.parametrize("pairs", [RING, UNEVEN], ids=["even", "uneven"])
def test_alone_they_take_the_same_time(pairs: list[tuple[int, int]]) -> None:
    found = network()
    assert [step.repeat for step in found.schedule(steps(pairs), joined=True).steps] == [1, 1]
    assert ends_s(found, steps(pairs), joined=True) == pytest.approx(ends_s(network(), steps(pairs)), rel=1e-9)


def test_beside_others_they_take_nearly_the_same_time_for_fewer_events() -> None:
    one, other = steps(RING, repeat=30), steps(UNEVEN, 1.7e6, repeat=22)
    exact, coarse = network(), network()
    alone_s = ends_s(network(), one)
    expected_s = ends_s(exact, one, other)
    assert expected_s[0] > 1.5 * alone_s[0]
    assert ends_s(coarse, one, other, joined=True) == pytest.approx(expected_s, rel=0.01)
    assert coarse.env.events_scheduled < 0.2 * exact.env.events_scheduled


def test_transfers_of_joined_steps_keep_step_with_the_slowest() -> None:
    """One of four has to share its link: all four end together, so that the set has one end and not two."""
    exact, found = network(), network()
    ring, other = [(RING, 1e6, 30, 0.0)], [([(0, 2)], 1e6, 30, 0.0)]
    expected_s = ends_s(exact, ring, other)
    assert ends_s(found, ring, other, joined=True) == pytest.approx(expected_s, rel=0.01)
    assert isinstance(found, FairNetwork)
    joint = found.schedule(ring, joined=True).steps[0].transfers
    assert (joint.count, sorted(set(joint.hops.shares.tolist()))) == (1, [1.0])
    assert found.env.events_scheduled < 50


@pytest.mark.parametrize("joined", [False, True])
def test_links_carry_the_same_bytes(joined: bool) -> None:
    found = network()
    ends_s(found, steps(RING), steps(UNEVEN, 1.7e6), joined=joined)
    total = sum(link.nbytes for link in found.links)
    assert total == pytest.approx(3 * 2 * (6 * (4e6 + 5 * 1.7e6) + 2 * (1e6 + 1.7e6)))
    assert all(link.busy_s == pytest.approx(link.nbytes / 1e9) for link in found.links)


def test_links_that_serve_in_turn_serve_each_step_for_itself() -> None:
    found = network(CutThroughNetwork).schedule(steps(RING), joined=True)
    assert [step.repeat for step in found.steps] == [6, 1]
