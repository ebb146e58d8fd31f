"""Growth of queues whose behaviour is known: single servers below and above capacity, and a filling batch."""

from __future__ import annotations

import numpy as np
import pytest

from simsys.metrics.growth import MARGIN, Growth, growth

RUNS = 30


def served(load: float, count: int, seed: int, service: str = "exponential") -> tuple[np.ndarray, np.ndarray]:
    """Arrivals at `load` per second at a server with mean service of one second, and the ends (Lindley 1952)."""
    rng = np.random.default_rng(seed)
    arrived_s = np.cumsum(rng.exponential(1.0 / load, count))
    service_s = rng.exponential(1.0, count) if service == "exponential" else np.ones(count)
    total_s = np.cumsum(service_s)
    return arrived_s, total_s + np.maximum.accumulate(arrived_s - np.concatenate([[0.0], total_s[:-1]]))


def later_half(come_s: np.ndarray, gone_s: np.ndarray, count: int) -> Growth:
    until_s = float(come_s[count - 1])
    found = growth(come_s[:count], gone_s[:count], float(come_s[count // 2]), until_s)
    assert found is not None
    return found


@pytest.mark.parametrize("service", ["exponential", "constant"])
@pytest.mark.parametrize(("load", "count"), [(0.5, 4_000), (0.8, 16_000), (0.9, 32_000)])
def test_a_stable_queue_has_ended_to_grow(load: float, count: int, service: str) -> None:
    ended = [later_half(*served(load, count, seed, service), count).has_ended for seed in range(RUNS)]
    assert sum(ended) >= 0.9 * RUNS


@pytest.mark.parametrize("service", ["exponential", "constant"])
@pytest.mark.parametrize("load", [1.05, 1.2, 2.0])
@pytest.mark.parametrize("count", [4_000, 8_000, 16_000, 32_000])
def test_an_overloaded_queue_never_has(load: float, count: int, service: str) -> None:
    assert not any(later_half(*served(load, count, seed, service), count).has_ended for seed in range(RUNS))


@pytest.mark.parametrize("load", [1.2, 2.0])
def test_its_growth_is_the_share_that_is_not_served(load: float) -> None:
    found = later_half(*served(load, 16_000, 1, "constant"), 16_000)
    assert found.share == pytest.approx(1.0 - 1.0 / load, abs=0.02)
    assert found.is_large


def test_a_batch_that_fills_grows_until_its_requests_end() -> None:
    """Ten requests arrive per second and stay for 100 s: 1,000 are under way then, and no more later."""
    come_s = np.arange(10_000) / 10.0
    gone_s = come_s + 100.0
    filling = growth(come_s, gone_s, 20.0, 90.0)
    assert filling is not None
    assert filling.share == pytest.approx(1.0, rel=0.01)
    assert filling.is_large
    partly = growth(come_s, gone_s, 60.0, 140.0)
    assert partly is not None
    assert not partly.has_ended
    full = growth(come_s, gone_s, 110.0, 190.0)
    assert full is not None
    assert full.share == pytest.approx(0.0, abs=1e-9)
    assert full.has_ended


def test_a_shrinking_number_has_ended_to_grow() -> None:
    come_s = np.arange(4_000) / 10.0
    gone_s = come_s + np.linspace(200.0, 10.0, 4_000)
    found = growth(come_s, gone_s, 210.0, 390.0)
    assert found is not None
    assert found.share < -MARGIN
    assert found.has_ended


def test_fewer_requests_than_blocks_tell_nothing() -> None:
    assert growth(np.arange(5.0), np.arange(5.0) + 1.0, 0.5, 4.0) is None
