from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import Generator

from simsys.rng import stream
from simsys.serving import lengths

COUNT = 100_000
MOST = 1_000_000
RANDOM: dict[str, Callable[[int, Generator], list[int]]] = {
    "uniform": lambda count, rng: lengths.uniform(410, 512, count, rng),
    "normal": lambda count, rng: lengths.normal(512, 100, 1, MOST, count, rng),
    "lognormal": lambda count, rng: lengths.lognormal(512, 0.8, 1, MOST, count, rng),
    "zipf": lambda count, rng: lengths.zipf(0.6, 16, 4096, count, rng),
    "empirical": lambda count, rng: lengths.empirical([10, 200, 30], [1.0, 2.0, 1.0], count, rng),
}
ZIPF = [(tokens, tokens**-0.6) for tokens in range(16, 4097)]
ZIPF_TOTAL = sum(weight for _, weight in ZIPF)
ZIPF_MEAN = sum(tokens * weight for tokens, weight in ZIPF) / ZIPF_TOTAL
SPREAD = {
    "uniform": (461.0, math.sqrt((103**2 - 1) / 12)),
    "normal": (512.0, 100.0),
    "lognormal": (512.0, 512.0 * math.sqrt(math.exp(0.8**2) - 1)),
    "zipf": (
        ZIPF_MEAN,
        math.sqrt(sum((tokens - ZIPF_MEAN) ** 2 * weight for tokens, weight in ZIPF) / ZIPF_TOTAL),
    ),
    "empirical": (110.0, math.sqrt((100**2 + 2 * 90**2 + 80**2) / 4)),
}


@pytest.mark.parametrize("name", RANDOM)
def test_mean_and_standard_deviation_are_those_of_theory(name: str) -> None:
    drawn = RANDOM[name](COUNT, stream(1, "prompt_tokens"))
    mean, std = SPREAD[name]
    assert statistics.fmean(drawn) == pytest.approx(mean, abs=5 * std / math.sqrt(COUNT))
    assert statistics.pstdev(drawn) == pytest.approx(std, rel=0.03)


def test_lognormal_median_lies_below_its_mean_as_in_theory() -> None:
    drawn = lengths.lognormal(512, 0.8, 1, MOST, COUNT, stream(1, "prompt_tokens"))
    assert statistics.median(drawn) == pytest.approx(512 * math.exp(-(0.8**2) / 2), rel=0.02)


@pytest.mark.parametrize("name", RANDOM)
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(0, 300), more=st.integers(0, 300))
def test_the_first_lengths_do_not_depend_on_how_many_follow(name: str, seed: int, count: int, more: int) -> None:
    short, long = (RANDOM[name](size, stream(seed, "prompt_tokens")) for size in (count, count + more))
    assert short == long[:count]


@settings(max_examples=50, deadline=None)
@given(
    mean=st.floats(1, 1e6),
    spread=st.floats(0.01, 10),
    bounds=st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)).map(sorted),
)
def test_lengths_stay_within_their_bounds(mean: float, spread: float, bounds: list[int]) -> None:
    low, high = bounds
    rng = stream(1, "prompt_tokens")
    drawn = lengths.normal(mean, spread * mean, low, high, 50, rng)
    drawn += lengths.lognormal(mean, spread, low, high, 50, rng)
    drawn += lengths.uniform(low, high, 50, rng)
    drawn += lengths.zipf(spread, low, high, 50, rng)
    assert low <= min(drawn) <= max(drawn) <= high


def test_uniform_reaches_both_ends() -> None:
    assert set(lengths.uniform(3, 5, 200, stream(1, "prompt_tokens"))) == {3, 4, 5}


def test_fixed() -> None:
    assert lengths.fixed(128, 3) == [128, 128, 128]


@pytest.mark.parametrize("name", RANDOM)
def test_lengths_are_plain_integers(name: str) -> None:
    assert {type(tokens) for tokens in RANDOM[name](10, stream(1, "prompt_tokens"))} == {int}


@pytest.mark.parametrize("exponent", [0.0, 0.6, 1.5])
def test_zipf_frequencies_follow_their_law(exponent: float) -> None:
    drawn = lengths.zipf(exponent, 2, 5, COUNT, stream(1, "prompt_tokens"))
    total = sum(tokens**-exponent for tokens in range(2, 6))
    for tokens in range(2, 6):
        share = tokens**-exponent / total
        assert drawn.count(tokens) / COUNT == pytest.approx(share, abs=5 * math.sqrt(share / COUNT))


def test_a_steep_zipf_of_large_bounds_is_drawn() -> None:
    assert set(lengths.zipf(100.0, 1000, 10_000_000, 50, stream(1, "prompt_tokens"))) <= set(range(1000, 2000))


def test_observed_lengths_without_weights_are_equally_likely() -> None:
    drawn = lengths.empirical([5, 5, 7], [], COUNT, stream(1, "prompt_tokens"))
    assert drawn.count(5) / COUNT == pytest.approx(2 / 3, abs=5 * math.sqrt(1 / COUNT))
    assert set(drawn) == {5, 7}
