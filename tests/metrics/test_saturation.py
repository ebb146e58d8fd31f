"""The saturation label on queues whose behaviour is known: one server with constant service (M/D/1)."""

from __future__ import annotations

import numpy as np
import pytest

from simsys.metrics.saturation import BACKLOGGED, OVERLOADED, STABLE, Backlog, backlog, saturation
from tests.helpers.each_case import each_case


def queue(load: float, count: int, *, seed: int = 0, gaps: str = "poisson") -> tuple[np.ndarray, np.ndarray]:
    """Arrivals at `load` per second, and when each enters its service of one second: Lindley's recursion."""
    rng = np.random.default_rng(seed)
    between_s = rng.exponential(1 / load, count) if gaps == "poisson" else np.full(count, 1 / load)
    arrival_s = np.cumsum(between_s)
    served_s = np.empty(count)
    free_s = 0.0
    for request, time_s in enumerate(arrival_s):
        served_s[request] = max(time_s, free_s)
        free_s = served_s[request] + 1.0
    return arrival_s, served_s


def label(arrival_s: np.ndarray, served_s: np.ndarray) -> str:
    return saturation(backlog(arrival_s, served_s), float((served_s - arrival_s).mean()), 1.0)


@each_case("seed", range(5))
@each_case("count", [400, 10_000])
@pytest.mark.parametrize(
    ("load", "expected"),
    [(0.1, STABLE), (0.5, STABLE), (0.9, BACKLOGGED), (1.3, OVERLOADED), (2.0, OVERLOADED)],
)
def test_md1_is_stable_backlogged_or_overloaded(load: float, expected: str, count: int, seed: int) -> None:
    """The mean wait of M/D/1 is load / (2 (1 - load)) services: below one up to a load of 2/3."""
    assert label(*queue(load, count, seed=seed)) == expected


@pytest.mark.parametrize(("count", "expected"), [(1_000, BACKLOGGED), (100_000, OVERLOADED)])
def test_a_small_excess_shows_in_a_long_run(count: int, expected: str) -> None:
    assert label(*queue(1.05, count, gaps="even")) == expected


def test_a_batch_at_once_is_a_backlog() -> None:
    assert label(np.zeros(500), np.arange(500.0)) == BACKLOGGED


def test_few_requests_are_no_trend() -> None:
    assert backlog(*queue(3.0, 200)) is None
    assert backlog(*queue(3.0, 203)) is not None


def test_the_growth_is_counted_over_the_later_half() -> None:
    """Twice as many requests come as are taken on; the last ones never are."""
    arrival_s = np.arange(400.0)
    admitted_s = np.where(arrival_s % 2 == 0, arrival_s, np.nan)
    found = backlog(arrival_s, admitted_s)
    assert found == Backlog(arrived=199, admitted=99, span_s=199.0)
    assert found.share == pytest.approx(0.5, abs=0.01)
    assert found.grows


def test_arrivals_need_not_be_in_order() -> None:
    """In a closed loop the table says another order than the clock."""
    arrival_s, served_s = queue(1.3, 1000)
    order = np.random.default_rng(0).permutation(1000)
    assert backlog(arrival_s[order], served_s[order]) == backlog(arrival_s, served_s)
