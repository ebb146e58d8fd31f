"""Transfers that are not simulated step by step slow each other on the links that they share."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from simsys.config.experiment import SimulationConfig
from simsys.platform.environment import Environment
from simsys.platform.occupancy import Occupancy
from simsys.platform.occupancy_rates import max_min_rates
from simsys.platform.routing import Way
from simsys.platform.traffic import Traffic
from simsys.simulation import simulate
from tests.agreement.test_training_mixes import config_of
from tests.helpers.thorough import cases
from tests.platform.test_contention import on_a_ring

B = 10.0


Start = tuple[float, list[tuple[list[int], float]], float, float]


def way(*links: int) -> Way:
    """Links one after another."""
    return tuple(((link, 1.0),) for link in links)


def ends(starts: list[Start], *, in_turn: bool = True) -> list[float]:
    """When transfers end that start at some time, with (links, bytes) and a time on idle links, and so many bytes."""
    env = Environment()
    occupancy, found = Occupancy(env, lambda link: B, in_turn=in_turn), dict[int, float]()

    def start(index: int, transfers: list[tuple[list[int], float]], seconds: float, nbytes: float) -> None:
        parts = [(occupancy.footprint([(way(*links), 1.0)], Traffic()), size) for links, size in transfers]
        occupancy.start(parts, seconds, lambda _: found.setdefault(index, env.now), nbytes=nbytes)

    for index, (at_s, *rest) in enumerate(starts):
        env.at(at_s, lambda _, index=index, rest=rest: start(index, *rest))
    env.run()
    return [found[index] for index in range(len(starts))]


@pytest.mark.parametrize("in_turn", [True, False])
def test_whoever_is_alone_takes_as_long_as_on_idle_links(in_turn: bool) -> None:
    assert ends([(1.0, [([0, 1], 20.0)], 2.0, 20.0)], in_turn=in_turn) == [3.0]


@pytest.mark.parametrize("in_turn", [True, False])
def test_equal_transfers_share_a_link_equally(in_turn: bool) -> None:
    assert ends([(0.0, [([0], 20.0)], 2.0, 20.0)] * 3, in_turn=in_turn) == pytest.approx([6.0] * 3, rel=1e-12)


def test_who_comes_later_slows_only_what_is_left() -> None:
    first, second = ends([(0.0, [([0], 20.0)], 2.0, 20.0), (1.0, [([0], 20.0)], 2.0, 20.0)])
    assert (first, second) == pytest.approx((3.0, 4.0), rel=1e-12)


def test_apart_they_do_not_know_of_each_other() -> None:
    assert ends([(0.0, [([0], 20.0)], 2.0, 20.0), (0.0, [([1], 20.0)], 2.0, 20.0)]) == [2.0, 2.0]


def test_latency_leaves_the_link_to_others() -> None:
    """Each needs the link for one of two seconds, so that both together just fit."""
    assert ends([(0.0, [([0], 10.0)], 2.0, 10.0)] * 2) == pytest.approx([2.0, 2.0], rel=1e-12)
    assert ends([(0.0, [([0], 10.0)], 2.0, 10.0)] * 3) == pytest.approx([3.0] * 3, rel=1e-12)


def test_what_does_not_fit_by_itself_takes_longer_also_alone() -> None:
    assert ends([(0.0, [([0], 40.0)], 2.0, 40.0)]) == pytest.approx([4.0], rel=1e-12)


def test_links_that_serve_in_turn_give_everybody_as_many_steps() -> None:
    """Steps of 3 and of 1 second alternate: a cycle takes 4, so the short ones are held up far more."""
    short, long = (0.0, [([0], 10.0)], 1.0, 10.0), (0.0, [([0], 30.0)], 3.0, 30.0)
    assert ends([short, long], in_turn=True) == pytest.approx([4.0, 4.0], rel=1e-12)
    assert ends([short, long], in_turn=False) == pytest.approx([2.0, 4.0], rel=1e-12)


def test_a_transfer_over_several_footprints_needs_all_of_them() -> None:
    both = (0.0, [([0], 20.0), ([1], 20.0)], 2.0, 20.0)
    assert ends([both, (0.0, [([1], 20.0)], 2.0, 20.0)]) == pytest.approx([4.0, 4.0], rel=1e-12)


def test_three_flows_on_two_links_get_what_progressive_filling_gives_them() -> None:
    """The middle one shares both links; without it on a slower link the first gets the rest."""
    busy_s = np.array([[0.1, 0.0], [0.1, 0.25], [0.0, 0.25]])
    paces = np.array([10.0, 4.0, 4.0])
    rates = max_min_rates(busy_s * paces[:, None], paces)
    assert rates == pytest.approx([0.8, 0.5, 0.5], rel=1e-12)


def test_rates_are_those_of_a_slow_and_careful_filling() -> None:
    for seed in range(cases(60)):
        rng = random.Random(seed)
        count, links = rng.randint(1, 6), rng.randint(1, 5)
        wanted = np.array([[rng.choice((0.0, rng.uniform(0.0, 3.0))) for _ in range(links)] for _ in range(count)])
        paces = np.array([rng.uniform(0.1, 3.0) for _ in range(count)])
        assert max_min_rates(wanted, paces) == pytest.approx(filled(wanted, paces), abs=1e-2), seed


def filled(wanted: np.ndarray, paces: np.ndarray) -> list[float]:
    """Raise all paces by small steps, and stop those whose links are full, or that are as fast as they can be."""
    rates, rising = np.zeros(len(paces)), np.ones(len(paces), dtype=bool)
    step = 1e-3 * float(paces.min())
    while rising.any():
        rates[rising] = np.minimum(1.0, rates[rising] + step / paces[rising])
        full = rates @ wanted >= 1.0
        rising &= (rates < 1.0) & ~(wanted[:, full] > 0.0).any(axis=1)
    return list(rates)


def at_level(config: SimulationConfig, lod: str, *, occupy: bool) -> Any:
    settings = config.simulation.model_copy(update={"lod": lod, "occupy_links": occupy})
    return simulate(config.model_copy(update={"simulation": settings}))


@pytest.mark.parametrize(("tensor", "stages", "data"), [(1, 1, 8), (2, 1, 4), (2, 2, 4), (4, 2, 2)])
def test_on_quiet_links_nothing_changes(tensor: int, stages: int, data: int) -> None:
    config = config_of(tensor, stages, data)
    occupied, idle, high = (
        at_level(config, lod, occupy=occupy).rows["iteration_s"]
        for lod, occupy in (("medium", True), ("medium", False), ("high", False))
    )
    assert list(occupied) == pytest.approx(list(idle), rel=1e-9)
    assert list(occupied) == pytest.approx(list(high), rel=1e-9)


@pytest.mark.parametrize("contention", ["fifo", "fair"])
def test_groups_of_one_job_slow_each_other_as_at_high(contention: str) -> None:
    """Tensor, pipeline and data parallelism of degree 2 on a ring of 8."""
    config = on_a_ring(tuning="none", contention=contention)
    high, occupied = at_level(config, "high", occupy=False), at_level(config, "medium", occupy=True)
    mean_s = high.metrics["mean_iteration_s"]
    assert occupied.metrics["mean_iteration_s"] == pytest.approx(mean_s, rel=1e-3 if contention == "fair" else 2e-3)
    assert occupied.contention == high.contention


def test_links_carry_what_they_carry_at_high() -> None:
    config = on_a_ring(tuning="none")
    high, occupied = (at_level(config, lod, occupy=True).links for lod in ("high", "medium"))
    for column in ("src", "dst", "kind"):
        assert occupied[column] == high[column]
    assert list(occupied["nbytes"]) == pytest.approx(list(high["nbytes"]), rel=1e-9)
    assert all(0.0 < share <= 1.0 for share in occupied["utilization"])


def test_events_do_not_grow_with_ranks() -> None:
    events = [at_level(config_of(2, 1, data), "medium", occupy=True).events for data in (4, 16)]
    assert events[1] == events[0]


def test_footprints_count_what_a_link_carries_twice() -> None:
    occupancy = Occupancy(Environment(), lambda link: B, in_turn=True)
    footprint = occupancy.footprint([(way(0, 1), 0.5), (way(1), 0.25)], Traffic())
    assert footprint.busy_s == pytest.approx({0: 0.05, 1: 0.075})
    assert footprint.busiest_s == pytest.approx(0.075)
