"""A GPU's host: copies in both directions and updates, one piece of work after another on each channel."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from simsys.errors import InfeasibleError
from simsys.executors import LEVELS
from simsys.ops import HostChannel, HostWork
from simsys.parallel.layout import Layout
from simsys.platform.host import HostLane, host_lanes
from simsys.rank import Rank
from tests.helpers.toys import TOY, simulate, work_of

both_levels = pytest.mark.parametrize("level", LEVELS)
ONE = Layout()
MEGABYTES = 1e6
COPY_S = TOY.pcie_latency_s + MEGABYTES / TOY.pcie_bytes_per_s
UPDATE_S = MEGABYTES / TOY.host_update_bytes_per_s


def test_a_lane_serves_in_order_and_counts_its_bytes() -> None:
    lane = HostLane(1.0, 10.0, "lane")
    assert lane.carry(0.0, 20.0) == (0.0, 3.0)
    assert lane.carry(2.0, 0.0) == (3.0, 4.0)
    assert lane.carry(9.0, 10.0) == (9.0, 11.0)
    assert (lane.nbytes, lane.busy_s) == (30.0, 6.0)


def test_copies_have_the_speed_of_pcie_and_updates_that_of_the_hosts_memory() -> None:
    lanes = host_lanes(TOY, "toy")
    assert set(lanes) == set(HostChannel)
    seconds = {channel: lane.seconds(MEGABYTES) for channel, lane in lanes.items()}
    assert seconds == {
        HostChannel.TO_HOST: COPY_S,
        HostChannel.FROM_HOST: COPY_S,
        HostChannel.UPDATE: UPDATE_S,
    }


def test_a_host_of_which_nothing_is_known_updates_nothing() -> None:
    lanes = host_lanes(replace(TOY, host_update_bytes_per_s=0.0), "toy")
    with pytest.raises(InfeasibleError, match="updates on the host of toy: its bandwidth is not known"):
        lanes[HostChannel.UPDATE].carry(0.0, 1.0)


def spans(level: str, program: Any) -> list[tuple[str, float, float]]:
    run = simulate(level, program, ONE)
    return [(op.name, start_s, end_s) for op, start_s, end_s in run.log.operations if isinstance(op, HostWork)]


@both_levels
def test_a_copy_begins_when_the_computation_before_has_ended_and_goes_on_beside_the_next(level: str) -> None:
    def program(rank: Rank) -> Generator[Any, Any, None]:
        rank.compute(work_of(0.5))
        copied = rank.to_host(MEGABYTES, name="out")
        yield rank.compute(work_of(0.5))
        yield copied

    assert spans(level, program) == [("out", 0.5, pytest.approx(0.5 + COPY_S, rel=1e-12))]
    assert simulate(level, program, ONE).end_s == 1.0


@both_levels
def test_each_channel_is_first_in_first_out_and_all_work_side_by_side(level: str) -> None:
    def program(rank: Rank) -> Generator[Any, Any, None]:
        works = [verb(MEGABYTES, name=verb.__name__) for verb in (rank.to_host, rank.from_host, rank.update_on_host)]
        works += [verb(MEGABYTES, name=verb.__name__) for verb in (rank.to_host, rank.from_host, rank.update_on_host)]
        yield rank.wait(works)

    found = spans(level, program)
    for name, service_s in (("to_host", COPY_S), ("from_host", COPY_S), ("update_on_host", UPDATE_S)):
        own = [(start_s, end_s) for each, start_s, end_s in found if each == name]
        assert own == [(0.0, service_s), (service_s, pytest.approx(2 * service_s, rel=1e-12))]


@both_levels
def test_work_may_wait_for_other_work_and_holds_up_what_is_issued_later(level: str) -> None:
    def program(rank: Rank) -> Generator[Any, Any, None]:
        there = rank.to_host(MEGABYTES, name="gradients")
        updated = rank.update_on_host(MEGABYTES, name="optimizer", after=there)
        late = rank.update_on_host(MEGABYTES, name="late")
        back = rank.from_host(MEGABYTES, name="weights", after=updated)
        yield rank.wait([back, late])

    starts = {name: start_s for name, start_s, _ in spans(level, program)}
    assert starts == {
        "gradients": 0.0,
        "optimizer": pytest.approx(COPY_S, rel=1e-12),
        "late": pytest.approx(COPY_S + UPDATE_S, rel=1e-12),
        "weights": pytest.approx(COPY_S + UPDATE_S, rel=1e-12),
    }


@both_levels
def test_no_bytes_take_no_time(level: str) -> None:
    def program(rank: Rank) -> Generator[Any, Any, None]:
        there = rank.to_host(MEGABYTES)
        yield rank.from_host(0.0)
        yield rank.from_host(0.0, after=there)

    run = simulate(level, program, ONE)
    assert run.end_s == pytest.approx(COPY_S, rel=1e-12)
    assert len(run.log.operations) == 1


@both_levels
def test_a_collective_that_waits_for_a_copy_holds_up_later_ones_of_its_group_only(level: str) -> None:
    layout = Layout(tensor=2, data=2)

    def program(rank: Rank) -> Generator[Any, Any, None]:
        copied = rank.from_host(MEGABYTES)
        gathered = rank.all_gather(1e3, over="data", name="held", after=copied)
        later = rank.reduce_scatter(1e3, over="data", name="later")
        yield rank.all_reduce(1e3, over="tensor", name="free")
        yield rank.wait([gathered, later])

    run = simulate(level, program, layout)
    (held,), (later,), (free,) = (run.log.spans(0, name) for name in ("held", "later", "free"))
    assert free[0] == 0.0
    assert held[0] == pytest.approx(COPY_S, rel=1e-12)
    assert later[0] == pytest.approx(held[1], rel=1e-12)
