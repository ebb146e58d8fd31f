"""What transfers lose to each other on links that share bandwidth: against counting who is there."""

from itertools import product

import numpy as np
import pytest

from simsys.platform.bandwidth_losses import losses as losses_at


def losses(busy: np.ndarray) -> np.ndarray:
    """What is lost on links that are not full on average."""
    return losses_at(busy, np.ones(len(busy)))


def _counted(busy: list[float]) -> float:
    """What the first of some who use one link whole loses: it gets an equal part beside all who are there."""
    rate = 0.0
    for present in product((0, 1), repeat=len(busy) - 1):
        chance = np.prod([q if there else 1.0 - q for q, there in zip(busy[1:], present, strict=True)])
        rate += chance / (1 + sum(present))
    return busy[0] * (1.0 / rate - 1.0)


def test_one_alone_loses_nothing():
    assert losses(np.array([[0.7, 0.2]])) == pytest.approx([0.0])


def test_those_on_different_links_lose_nothing():
    assert losses(np.array([[0.7, 0.0], [0.0, 0.9]])) == pytest.approx([0.0, 0.0])


def test_two_that_always_transmit_halve_a_link():
    assert losses(np.array([[1.0], [1.0]])) == pytest.approx([1.0, 1.0])


def test_links_wide_enough_for_all_at_once_cost_nothing():
    assert losses(np.array([[0.5, 0.25, 0.0], [0.0, 0.25, 0.5]])) == pytest.approx([0.0, 0.0])


def test_rare_transfers_lose_what_counting_who_is_there_says():
    busy = [0.02, 0.01, 0.03, 0.02]
    assert losses(np.array([[each] for each in busy]))[0] == pytest.approx(_counted(busy), rel=0.05)


def test_who_loses_is_there_longer_and_costs_others_more():
    busy = [0.3, 0.3, 0.3]
    once = _counted(busy)
    lost = losses(np.array([[each] for each in busy]))[0]
    longer = (0.3 + lost) / (1.0 + lost)
    assert lost > once
    assert lost == pytest.approx(_counted([0.3, longer, longer]), rel=1e-3)


def test_a_wide_transfer_leaves_a_narrow_one_what_it_does_not_need():
    narrow, wide = losses(np.array([[1.0, 0.25], [0.0, 1.0]]))
    assert narrow == pytest.approx(0.0)  # a quarter of the link is less than its half
    assert wide == pytest.approx(1.0 / 3.0)  # three quarters are left


def test_one_that_is_slowed_anyway_leaves_the_others_more():
    busy = np.array([[1.0, 1.0], [1.0, 0.0]])
    assert losses_at(busy, np.array([1.0, 0.25]))[0] == pytest.approx(1.0 / 3.0)
