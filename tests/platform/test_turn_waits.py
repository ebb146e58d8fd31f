"""How long transfers of two wait for each other on a link that serves in turn, against one transfer after another."""

from __future__ import annotations

import math
import random
from statistics import fmean

import numpy as np
import pytest

from simsys.platform.occupancy_rates import max_min_rates
from simsys.platform.turn_waits import waiting

Steps = tuple[float, float]
"""How many seconds from one step to the next on an idle link, and for how many it is busy."""


def expected(*steps: Steps, duty_cycles: tuple[float, ...] = (1.0, 1.0)) -> list[float]:
    """The rates of some who take such steps on one link, within duty_cycles of them."""
    paces = np.array([share / cycle for share, (cycle, _) in zip(duty_cycles, steps, strict=True)])
    busy = np.array([[service] for _, service in steps]) * paces[:, None]
    rates = np.minimum(max_min_rates(busy, paces), 1.0 / (1.0 + waiting(busy, paces, np.array(duty_cycles))))
    return [float(rate) for rate in rates]


def played(*steps: Steps, seed: int) -> list[float]:
    """The same, transfer by transfer."""
    rng = random.Random(seed)
    ready_s = [rng.random() * cycle for cycle, _ in steps]
    until_s = 1000 * max(cycle for cycle, _ in steps)
    free_s, taken = 0.0, [0] * len(steps)
    while min(ready_s) < until_s:
        who = ready_s.index(min(ready_s))
        cycle, service = steps[who]
        free_s = max(ready_s[who], free_s) + service
        ready_s[who] = free_s + cycle - service
        taken[who] += 1
    return [count * cycle / until_s for count, (cycle, _) in zip(taken, steps, strict=True)]


def test_rates_are_those_of_transfers_that_are_played() -> None:
    """Within 6 % on average, where full links alone leave a quarter and more unexplained."""
    rng, errors, without = random.Random(1), list[float](), list[float]()
    for seed in range(100):
        steps = [(cycle, cycle * rng.random()) for cycle in (1.0, 10 ** rng.uniform(0.0, 2.0))]
        true, found = played(*steps, seed=seed), expected(*steps)
        paces = np.array([1.0 / cycle for cycle, _ in steps])
        full = max_min_rates(np.array([[service] for _, service in steps]) * paces[:, None], paces)
        errors += [abs(math.log(rate / each)) for rate, each in zip(found, true, strict=True)]
        without += [abs(math.log(rate / each)) for rate, each in zip(full, true, strict=True)]
    assert fmean(errors) < 0.06
    assert fmean(without) > 3.0 * fmean(errors)


def test_equal_steps_that_fit_into_each_other_do_not_wait() -> None:
    assert expected((2.0, 1.0), (2.0, 1.0)) == [1.0, 1.0]


def test_equal_steps_that_do_not_fit_take_turns() -> None:
    assert expected((3.0, 2.0), (3.0, 2.0)) == pytest.approx([0.75, 0.75], rel=1e-12)
    assert expected((3.0, 3.0), (3.0, 3.0)) == pytest.approx([0.5, 0.5], rel=1e-12)


def test_short_steps_wait_for_long_ones_on_a_link_that_is_not_full() -> None:
    """Each of the long ones takes 40 of 100 and lets a short one, which takes 10, wait, but for the time it idles."""
    short, long = expected((10.0, 1.0), (100.0, 40.0))
    assert short == pytest.approx(1.0 - (40.0 + 1.0 - 10.0) / 100.0, rel=1e-12)
    assert long == 1.0


def test_they_meet_as_often_as_both_communicate() -> None:
    """In a quarter of its time, the short one meets the long one half of the time."""
    whole, _ = expected((10.0, 1.0), (100.0, 40.0))
    part, _ = expected((10.0, 1.0), (100.0, 40.0), duty_cycles=(0.25, 0.5))
    assert 1.0 / part - 1.0 == pytest.approx(0.125 * (1.0 / whole - 1.0), rel=1e-12)


def test_whoever_has_links_of_its_own_does_not_wait() -> None:
    busy, ones = np.array([[0.9, 0.0], [0.0, 0.9]]), np.ones(2)
    assert list(waiting(busy, ones, ones)) == [0.0, 0.0]
