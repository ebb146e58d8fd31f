"""A scenario at both levels: one row, or a reason why there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simsys.config.experiment import SimulationConfig
from simsys.errors import UsageError
from simsys.level_study.amounts import amount
from simsys.level_study.compare import Settings, compare
from simsys.level_study.estimate import Estimate, estimate
from simsys.level_study.isolated import TooSlowError
from simsys.level_study.measurement import measure
from simsys.level_study.variants import HIGH, MEDIUM
from tests.helpers.level_study_toys import SETTINGS, at_once, contended, jobs, serving, training

pytestmark = pytest.mark.usefixtures("what_others_left_is_kept")


def estimated(cpu_s: float) -> Settings:
    """Settings under which high seems to take so long."""

    def call(function: Any, limit_s: float | None, *args: Any) -> Any:
        return Estimate(1e6 * cpu_s, 0.0, cpu_s) if function is estimate else function(*args)

    return replace(SETTINGS, call=call)


@pytest.mark.parametrize("config", [serving(), training(), jobs()], ids=lambda config: config.name)
def test_a_row_has_both_levels_and_how_far_they_are_apart(config: SimulationConfig) -> None:
    row = compare(config, SETTINGS).as_dict()
    high, medium = row["levels"][HIGH], row["levels"][MEDIUM]
    assert row["event_reduction"] == high["events"] / medium["events"] > 1.0
    assert row["speedup"] == pytest.approx(high["median_wall_s"] / medium["median_wall_s"])
    assert row["cpu_speedup"] == pytest.approx(high["median_cpu_s"] / medium["median_cpu_s"])
    for name, share in row["differences"].items():
        assert medium["figures"][name] == pytest.approx((1 + share) * high["figures"][name], rel=1e-12)
    assert row["largest_difference"] == max(map(abs, row["differences"].values())) < 1e-6


def test_the_level_that_the_scenario_asks_for_does_not_count() -> None:
    counts = [
        compare(serving(simulation={"lod": level}), SETTINGS).as_dict()["levels"][HIGH]["events"]
        for level in (HIGH, MEDIUM)
    ]
    assert counts[0] == counts[1]


def test_shared_links_are_where_the_levels_differ() -> None:
    row = compare(contended(), SETTINGS).as_dict()
    assert row["largest_difference"] > 1e-6
    assert any("several groups" in text for text in row["reasons"])


def test_high_that_would_take_too_long_is_asked_about() -> None:
    with pytest.raises(UsageError, match=r"120,000,000 events and 2 min; add --yes .* --part .* the first 2 requests"):
        compare(serving(), estimated(120.0))


def test_what_is_refused_has_been_simulated_once() -> None:
    measured: list[tuple[str, int]] = []

    def call(function: Any, limit_s: float | None, *args: Any) -> Any:
        if function is measure:
            measured.append(args[1:])
        return estimated(120.0).call(function, limit_s, *args)

    with pytest.raises(UsageError, match="--yes"):
        compare(serving(), Settings(repeats=5, call=call))
    assert measured == [(MEDIUM, 1)]


def test_of_very_many_requests_the_first_say_what_high_would_cost() -> None:
    served: list[int] = []

    def call(function: Any, limit_s: float | None, *args: Any) -> Any:
        served.append(amount(args[0]))
        return estimated(1.0).call(function, limit_s, *args)

    config = serving(workload={"num_requests": 1_000_000, "output_tokens": 2})
    with pytest.raises(UsageError, match=r"500,000,000 events and 8.33 min; .* the first 120,000 requests"):
        compare(config, Settings(repeats=5, call=call))
    assert served == [2000, 2000]


def test_high_that_takes_too_long_runs_if_it_is_wanted() -> None:
    found = compare(serving(), replace(estimated(120.0), anyway=True))
    assert found.whole is None
    assert found.high.figures["completed"] == 5


def test_a_part_is_compared_with_the_same_part_and_all_of_it_is_told_of_medium() -> None:
    found = compare(serving(), replace(estimated(120.0), part=True))
    assert found.high.figures["completed"] == found.medium.figures["completed"] == 2
    assert found.whole is not None
    assert found.whole.figures["completed"] == 5
    row = found.as_dict()
    assert (row["amount"], row["whole"]["amount"]) == (2, 5)


def test_there_is_no_part_of_jobs_or_of_what_does_not_even_do_one() -> None:
    part = replace(estimated(120.0), part=True)
    with pytest.raises(UsageError, match=r"nevertheless$"):
        compare(jobs(), part)
    with pytest.raises(UsageError, match=r"nevertheless$"):
        compare(serving(), replace(estimated(1e9), part=True))


def test_high_that_does_not_begin_is_not_waited_for() -> None:
    def call(function: Any, limit_s: float | None, *args: Any) -> Any:
        if function is estimate:
            assert limit_s is not None
            raise TooSlowError("given up after 30 s")
        return function(*args)

    with pytest.raises(UsageError, match="does not even begin"):
        compare(serving(), replace(SETTINGS, call=call))


def test_high_that_takes_longer_than_estimated_is_given_up() -> None:
    def call(function: Any, limit_s: float | None, *args: Any) -> Any:
        if function is measure and args[1] == HIGH:
            assert limit_s is not None
            raise TooSlowError(f"given up after {limit_s:g} s")
        return at_once(function, limit_s, *args)

    with pytest.raises(UsageError, match="much longer than estimated and was given up after 600 s"):
        compare(serving(), replace(SETTINGS, call=call))


def test_a_workload_without_requests_is_refused() -> None:
    with pytest.raises(UsageError, match="no request"):
        compare(serving(workload={"num_requests": None, "duration": "1 us"}), SETTINGS)


def test_a_workload_of_which_nothing_is_served_is_refused() -> None:
    with pytest.raises(UsageError, match="all would be rejected"):
        compare(serving(workload={"prompt_tokens": 20_000}), SETTINGS)


def test_a_workload_without_randomness_is_compared_like_any_other() -> None:
    row = compare(serving(workload={"arrivals": {"kind": "constant", "rate": "4 req/s"}}), SETTINGS).as_dict()
    assert row["largest_difference"] < 1e-6
