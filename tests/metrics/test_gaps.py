"""Inter-token latency over runs of steps is that of all tokens, one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simsys.metrics import gaps as module
from simsys.metrics.gaps import Gaps
from simsys.metrics.step_log import StepLog
from simsys.metrics.token_gaps import TokenGaps
from tests.helpers.played_serving import play

PERCENTAGES = [0, 1, 33.3, 50, 90, 95, 99, 99.9, 100]


def logged(runs: list[tuple[int, float, float, int]]) -> tuple[Gaps, np.ndarray]:
    """Runs of (count, first, last, sequences), and their gaps one by one."""
    log = StepLog()
    started_s, values = 0.0, []
    for count, first_s, last_s, sequences in runs:
        log.add(0, [started_s, count, sequences, 0, first_s, (last_s - first_s) / max(count - 1, 1)])
        started_s += count * (first_s + last_s) / 2
        values.append(np.repeat(np.linspace(first_s, last_s, count), sequences))
    return Gaps(log, TokenGaps(log, {}, ())), np.concatenate(values)


RUNS = st.lists(
    st.tuples(
        st.integers(1, 40),
        st.sampled_from([0.125, 0.25, 0.3]) | st.floats(1e-4, 10.0),
        st.sampled_from([1.0, 1.0 + 1e-9, 0.5, 3.0]),
        st.integers(0, 5),
    ),
    min_size=1,
    max_size=30,
).map(lambda runs: [(n, first, first if n == 1 else first * factor, w) for n, first, factor, w in runs])


@given(RUNS)
def test_all_statistics_are_those_of_the_single_gaps(runs: list[tuple[int, float, float, int]]) -> None:
    gaps, values = logged(runs)
    assert gaps.total == values.size
    assert gaps.sum_s == pytest.approx(values.sum())
    if not values.size:
        return
    assert gaps.mean_s == pytest.approx(values.mean())
    assert gaps.std_s() == pytest.approx(values.std(), abs=1e-12)
    assert gaps.percentiles_s(PERCENTAGES) == pytest.approx(np.percentile(values, PERCENTAGES).tolist(), rel=1e-11)


@given(RUNS, st.floats(1e-4, 30.0))
def test_gaps_below_a_limit_are_counted_exactly(runs: list[tuple[int, float, float, int]], limit_s: float) -> None:
    gaps, values = logged(runs)
    if np.abs(values - limit_s).min(initial=1.0) > 1e-9:
        assert gaps.at_most([limit_s]) == [np.count_nonzero(values <= limit_s)]


def test_a_gap_as_long_as_the_limit_counts_as_within_it() -> None:
    gaps, _ = logged([(3, 0.25, 0.75, 2)])
    assert gaps.at_most([0.2, 0.25, 0.5, 0.74, 0.75]) == [0, 2, 4, 4, 6]


@pytest.mark.parametrize("spread", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize("sample", [2, 50, 4000])
def test_percentiles_do_not_depend_on_the_sample(spread: float, sample: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However badly the limits are guessed."""
    monkeypatch.setattr(module, "SAMPLE", sample)
    monkeypatch.setattr("simsys.metrics.step_log.BLOCK", 100)
    rng = np.random.default_rng(1)
    first_s = np.sort(1.0 + spread * rng.random(500))
    runs = [
        (int(count), float(first), float(first * (1 + spread * (count > 1))), int(weight))
        for count, first, weight in zip(rng.integers(1, 40, 500), first_s, rng.integers(0, 9, 500), strict=True)
    ]
    gaps, values = logged(runs)
    assert gaps.percentiles_s(PERCENTAGES) == pytest.approx(np.percentile(values, PERCENTAGES).tolist(), rel=1e-11)


@pytest.mark.parametrize("mixes", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_waiting_for_prompts_and_lost_caches_is_part_of_the_gaps(seed: int, mixes: bool) -> None:
    played = play(seed, mixes=mixes)
    log = played.collector.log
    assert len(log.preempted_s) > 5
    gaps = Gaps(log.steps, log.gaps)
    values = played.gaps_s
    assert gaps.total == values.size == sum(log.requests.output_tokens[:-1]) - 39
    assert gaps.sum_s == pytest.approx(sum(times_s[-1] - times_s[0] for times_s in played.tokens_s[:-1]))
    assert gaps.std_s() == pytest.approx(values.std())
    assert gaps.percentiles_s(PERCENTAGES) == pytest.approx(np.percentile(values, PERCENTAGES).tolist(), rel=1e-9)
