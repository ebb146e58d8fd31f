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


PIECES = [(10.0, 2.0), (5.0, 0.0), (5.0, 20.0)]  # 120 arrivals in 20 s


def test_time_varying_arrivals_have_the_rate_of_each_piece() -> None:
    times = arrivals.time_varying(PIECES, 120_000, stream(1, "arrivals"))
    assert times[-1] == pytest.approx(20_000.0, rel=5 / math.sqrt(120_000))
    rounds = times[-1] / 20.0
    inside = [time_s % 20.0 for time_s in times]
    first = sum(1 for time_s in inside if time_s < 10)
    last = sum(1 for time_s in inside if time_s >= 15)
    assert first / rounds == pytest.approx(20.0, rel=5 / math.sqrt(20 * rounds))
    assert last / rounds == pytest.approx(100.0, rel=5 / math.sqrt(100 * rounds))
    assert first + last == len(times)  # none while the rate is zero


def test_time_varying_arrivals_are_uniform_within_a_piece() -> None:
    """Given their number, arrivals of a Poisson process are uniform (Kolmogorov-Smirnov at 1 %)."""
    times = arrivals.time_varying(PIECES, COUNT, stream(2, "arrivals"))
    inside = sorted((time_s % 20.0 - 15.0) / 5.0 for time_s in times if time_s % 20.0 >= 15)
    worst = max(abs((index + 0.5) / len(inside) - place) for index, place in enumerate(inside))
    assert worst < 1.63 / math.sqrt(len(inside))


def test_without_repeat_the_last_rate_goes_on() -> None:
    times = arrivals.time_varying([(100.0, 1.0), (1.0, 50.0)], 10_000, stream(1, "arrivals"), repeat=False)
    early = sum(1 for time_s in times if time_s < 100)
    assert early == pytest.approx(100, abs=50)
    assert (times[-1] - 100.0) * 50.0 == pytest.approx(10_000 - early, rel=0.05)


def test_one_piece_is_a_poisson_process_of_its_rate() -> None:
    varying = arrivals.time_varying([(3.0, 8.0)], 1000, stream(1, "arrivals"))
    assert varying == pytest.approx(arrivals.poisson(8.0, 1000, stream(1, "arrivals")), rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(
    pieces=st.lists(st.tuples(st.floats(1e-3, 1e4), st.sampled_from([0.0, 1e-3, 1.0, 1e4])), min_size=1, max_size=5),
    repeat=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_time_varying_arrivals_never_go_back(pieces: list[tuple[float, float]], repeat: bool, seed: int) -> None:
    pieces = [*pieces, (1.0, 1.0)]
    short, long = (arrivals.time_varying(pieces, size, stream(seed, "a"), repeat=repeat) for size in (20, 60))
    assert short == long[:20]
    assert all(before <= after for before, after in pairwise([0.0, *long]))
