from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator

from simsys.rng import stream
from simsys.serving import arrivals
from simsys.serving.requests import RequestTable

COUNT = 100_000
RANDOM: dict[str, Callable[[int, Generator], list[float]]] = {
    "poisson": lambda count, rng: arrivals.poisson(8.0, count, rng),
    "gamma": lambda count, rng: arrivals.gamma(8.0, 0.5, count, rng),
}


def table(times: list[float]) -> RequestTable:
    ones = [1] * len(times)
    return RequestTable(times, ones, ones)


@pytest.mark.parametrize("shape", [0.25, 0.5, 1.0, 4.0])
def test_gamma_gaps_have_the_mean_and_variation_of_theory(shape: float) -> None:
    drawn = table(arrivals.gamma(8.0, shape, COUNT, stream(1, "arrivals")))
    cv = 1 / math.sqrt(shape)
    assert drawn.mean_rate_per_s == pytest.approx(8.0, rel=5 * cv / math.sqrt(COUNT))
    assert drawn.gap_cv == pytest.approx(cv, rel=0.03)


def test_poisson_gaps_are_exponential() -> None:
    times = arrivals.poisson(8.0, COUNT, stream(1, "arrivals"))
    gaps = sorted(after - before for before, after in pairwise([0.0, *times]))
    worst = max(abs((index + 0.5) / COUNT - (1 - math.exp(-8.0 * gap))) for index, gap in enumerate(gaps))
    assert worst < 1.63 / math.sqrt(COUNT)  # Kolmogorov-Smirnov at 1 %


def test_poisson_counts_per_window_have_a_variance_equal_to_their_mean() -> None:
    times = arrivals.poisson(8.0, COUNT, stream(1, "arrivals"))
    counts = [0] * int(times[-1])
    for time_s in times:
        if time_s < len(counts):
            counts[int(time_s)] += 1
    mean = sum(counts) / len(counts)
    variance = sum((count - mean) ** 2 for count in counts) / len(counts)
    assert variance / mean == pytest.approx(1.0, abs=0.07)


@pytest.mark.parametrize("name", RANDOM)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(0, 300), more=st.integers(0, 300))
def test_the_first_requests_do_not_depend_on_how_many_follow(name: str, seed: int, count: int, more: int) -> None:
    short, long = (RANDOM[name](size, stream(seed, "arrivals")) for size in (count, count + more))
    assert short == long[:count]
    assert all(before <= after for before, after in pairwise([0.0, *long]))


def test_twice_the_rate_is_half_the_time() -> None:
    slow, fast = (arrivals.poisson(rate, 100, stream(3, "arrivals")) for rate in (2.0, 4.0))
    assert slow == pytest.approx([2 * time_s for time_s in fast])


def test_constant_arrivals_are_evenly_spaced_without_drift() -> None:
    times = arrivals.constant(10.0, 1_000_001)
    assert times[:3] == [0.0, 0.1, 0.2]
    assert times[-1] == 100_000.0


def test_all_at_once() -> None:
    assert arrivals.all_at_once(3) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", RANDOM)
def test_times_are_plain_floats(name: str) -> None:
    assert {type(time_s) for time_s in RANDOM[name](10, stream(1, "arrivals"))} == {float}
