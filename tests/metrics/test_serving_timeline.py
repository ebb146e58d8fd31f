"""A run over time: what is told of each interval is what was true in it."""

from __future__ import annotations

import numpy as np
import pytest

from simsys.metrics.latencies import Latencies
from simsys.metrics.serving_log import ServingLog
from simsys.metrics.serving_timeline import Timeline, interval_s, means, timeline
from simsys.serving.engine_log import EngineLog
from simsys.serving.kv_cache import PagedKVCache
from simsys.serving.requests import RequestTable
from tests.helpers.played_serving import play


@pytest.mark.parametrize(
    ("ended_s", "width_s"), [(1000.0, 1.0), (1000.1, 2.0), (500.0, 0.5), (2.0001, 0.005), (1e7, 1e4), (3e-6, 5e-9)]
)
def test_intervals_have_round_lengths_and_are_at_most_a_thousand(ended_s: float, width_s: float) -> None:
    assert interval_s(ended_s) == width_s
    times = Timeline(ended_s, width_s)
    assert 400 <= times.count <= 1000
    assert times.length_s.sum() == pytest.approx(ended_s)


@pytest.mark.parametrize("width_s", [0.1, 0.7, 3.0, 100.0])
def test_means_are_those_of_the_single_moments(width_s: float) -> None:
    rng = np.random.default_rng(0)
    starts_s, lengths_s, amounts = rng.random(50) * 10, rng.random(50) * 4, rng.integers(1, 5, 50).astype(float)
    times = Timeline(14.0, width_s)
    mean = times.mean(np.concatenate([starts_s, starts_s + lengths_s]), np.concatenate([amounts, -amounts]))
    for place, (begin_s, length_s) in enumerate(zip(times.time_s, times.length_s, strict=True)):
        overlap_s = np.minimum(starts_s + lengths_s, begin_s + length_s) - np.maximum(starts_s, begin_s)
        assert mean[place] == pytest.approx((amounts * overlap_s.clip(0)).sum() / length_s)


@pytest.mark.parametrize("mixes", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_means_over_all_intervals_are_those_of_the_run(seed: int, mixes: bool) -> None:
    played = play(seed, mixes=mixes)
    log, ended_s = played.collector.log, played.collector.end_s
    found = means(timeline(log, ended_s), ended_s)
    assert found["mean_waiting"] * ended_s == pytest.approx(sum(end - start for start, end in played.waiting_s))
    assert found["mean_running"] * ended_s == pytest.approx(sum(end - start for start, end in played.running_s))


@pytest.mark.parametrize("points", [1, 10, 1000])
def test_each_column_adds_up_to_what_there_was(points: int) -> None:
    played = play(3)
    log, ended_s = played.collector.log, played.collector.end_s
    columns = timeline(log, ended_s, points)
    assert {len(column) for column in columns.values()} == {len(columns["time_s"])}
    length_s = np.diff(columns["time_s"], append=ended_s)
    total = {name: float((column * length_s).sum()) for name, column in columns.items()}
    assert total["output_tokens_per_s"] == pytest.approx(sum(map(len, played.tokens_s)))
    assert total["arrivals_per_s"] == pytest.approx(40)
    assert total["completions_per_s"] == pytest.approx(39)
    assert total["batch_size"] == pytest.approx(sum((end - start) * n for start, end, n in played.decoding_s))


def test_littles_law_holds_without_preemptions() -> None:
    """Mean number in the system = rate times mean time in it (Little 1961), over a whole run."""
    log = ServingLog(RequestTable([0.0, 1.0, 1.5], [1, 1, 1], [2, 2, 2]))
    log.admitted_s[:] = type(log.admitted_s)("d", [0.5, 1.0, 3.0])
    log.first_token_s[:] = type(log.admitted_s)("d", [1.0, 2.0, 4.0])
    log.finished_s[:] = type(log.admitted_s)("d", [2.0, 3.0, 5.0])
    found, times = means(timeline(log, 5.0), 5.0), Latencies(log.rows())
    rate_per_s = 3 / 5.0
    assert found["mean_waiting"] == pytest.approx(rate_per_s * times.queue_s.mean())
    assert found["mean_running"] == pytest.approx(rate_per_s * times.inference_s.mean())


def note(log: EngineLog, now_s: float) -> None:
    if log.fresh is None:
        log.keep()
    assert log.fresh is not None
    log.fresh += (now_s, log.cache.free_blocks, log.cache.taken_blocks)


def test_blocks_that_a_step_takes_count_from_its_beginning() -> None:
    """Two caches of 10 blocks: one has 2 and takes 4 more for a step until 1 s, the other has 8 from 0.5 to 1 s."""
    log = ServingLog(RequestTable([0.0], [1], [1]))
    one, other = logs = EngineLog(PagedKVCache(10, 16)), EngineLog(PagedKVCache(10, 16))
    log.engine_logs = dict(enumerate(logs))
    one.cache.grow(0, 2 * 16)
    note(one, 0.0)
    one.cache.take_for_decode(4)
    one.cache.release(0, 6 * 16)
    note(one, 1.0)
    other.cache.grow(0, 8 * 16)
    note(other, 0.5)
    other.cache.release(0, 8 * 16)
    note(other, 1.0)
    assert timeline(log, 2.0, 2)["kv_cache_usage"].tolist() == pytest.approx([0.5, 0.0])
    assert timeline(log, 2.0, 4)["kv_cache_usage"].tolist() == pytest.approx([0.3, 0.7, 0.0, 0.0])


def test_a_run_in_which_nothing_took_time_has_no_intervals() -> None:
    log = ServingLog(RequestTable([0.0], [10], [10]))
    assert timeline(log, 0.0) == {}
    assert means({}, 0.0) == {}


def test_preemptions_and_prefix_hits_are_told_where_they_were() -> None:
    log = ServingLog(RequestTable([0.0], [1], [1]))
    log.preempted_s = [0.1, 0.2, 1.9]
    log.lookups.extend((0.1, 30, 100, 0.4, 70, 100, 1.5, 1, 4))
    columns = timeline(log, 2.0, 2)
    assert columns["preemptions_per_s"].tolist() == [2.0, 1.0]
    assert columns["prefix_cache_hit_rate"].tolist() == [0.5, 0.25]
    log.lookups = log.lookups[:0]
    assert "prefix_cache_hit_rate" not in timeline(log, 2.0, 2)
