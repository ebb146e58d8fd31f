"""Tokens are counted in the intervals in which they came, as if each had been written down."""

from __future__ import annotations

import numpy as np
import pytest

from simsys.errors import UsageError
from simsys.metrics.serving_log import ServingLog
from simsys.metrics.token_rate import BusySeconds, max_per_second, tokens_per_interval
from simsys.serving.requests import RequestTable
from tests.helpers.played_serving import play


@pytest.mark.parametrize("mixes", [True, False])
@pytest.mark.parametrize(("width_s", "origin_s"), [(1.0, 0.0), (0.13, 0.0), (7.0, 2.5), (500.0, 0.0)])
@pytest.mark.parametrize("seed", range(4))
def test_every_token_is_in_its_interval(seed: int, width_s: float, origin_s: float, mixes: bool) -> None:
    played = play(seed, mixes=mixes)
    times_s = np.concatenate(played.tokens_s)
    times_s = times_s[times_s >= origin_s]
    count = int((times_s.max() - origin_s) / width_s) + 1
    found = tokens_per_interval(played.collector.log, width_s, count, origin_s=origin_s)
    # A step that ends at a limit but for rounding may be on either side of it.
    limits = origin_s + width_s * np.arange(count + 1)
    near = np.abs(times_s[:, None] - limits).min(axis=1) < 1e-9
    expected = np.bincount(((times_s - origin_s) / width_s).astype(int), minlength=count)
    assert found.sum() == pytest.approx(times_s.size)
    assert np.abs(found - expected).sum() <= 2 * near.sum()


def test_a_run_is_divided_where_its_steps_are() -> None:
    """Steps of 0.5, 1.0 and 1.5 s, of two sequences, end at 0.5, 1.5 and 3.0 s."""
    log = ServingLog(RequestTable([0.0], [1], [9]))
    log.steps.add(0, [0.0, 3, 2, 0, 0.5, 0.5])
    assert tokens_per_interval(log, 1.0, 5).tolist() == [2, 2, 0, 2, 0]
    assert tokens_per_interval(log, 1.0, 2).tolist() == [2, 2], "what comes later is not counted"
    assert tokens_per_interval(log, 0.5, 3, origin_s=1.5).tolist() == [2, 0, 0]


def test_the_busiest_second_is_counted_from_the_first_arrival() -> None:
    log = ServingLog(RequestTable([0.25, 0.25], [1, 1], [9, 9]))
    log.first_token_s[0], log.first_token_s[1] = 1.0, 1.5
    log.steps.add(0, [1.5, 3, 2, 0, 0.5, 0.0])
    seconds = BusySeconds(np.array([0.25, 0.25]), np.array([3.0, 3.0]), 0.25)
    assert max_per_second(log, seconds) == 4  # at 2.5 and 3.0 s, both after 2.25 s


def test_idle_seconds_take_no_room() -> None:
    arrival_s, ended_s = np.array([10.0, 12.5, 1e9, 1e9 + 0.5]), np.array([11.5, 13.2, 1e9 + 2.2, 1e9 + 0.7])
    seconds = BusySeconds(arrival_s, ended_s, 10.0)
    assert seconds.count == 9
    weights = seconds.counted(np.floor(np.concatenate([arrival_s, ended_s]) - 10.0))
    assert weights.tolist() == [1, 1, 1, 1, 0, 3, 0, 1, 0]
    assert seconds.counted(np.array([-1.0, 5.0, 5e8, 2e9])).sum() == 0, "nothing happens in between"


@pytest.mark.parametrize("seed", range(4))
def test_the_busiest_second_is_that_of_all_seconds(seed: int) -> None:
    log = play(seed).collector.log
    arrival_s, finished_s = np.asarray(log.arrival_s, dtype=float), np.asarray(log.finished_s)
    done = finished_s >= 0.0
    origin_s = float(arrival_s[done].min())
    seconds = BusySeconds(arrival_s[done], finished_s[done], origin_s)
    dense = tokens_per_interval(log, 1.0, int(finished_s.max() - origin_s) + 2, origin_s=origin_s)
    assert max_per_second(log, seconds) == int(dense.max())


def test_years_of_seconds_are_refused_and_no_memory_error() -> None:
    with pytest.raises(UsageError, match=r"under way for 1.6e\+09 s, at most 3.2e\+07 s \(a year\) are measured"):
        BusySeconds(np.array([0.0]), np.array([1.6e9]), 0.0)
    assert BusySeconds(np.array([0.0, 1e12]), np.array([9.0, 1e12 + 9.0]), 0.0).count == 22
