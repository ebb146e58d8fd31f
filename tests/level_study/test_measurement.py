"""A variant measured: events and figures of the run, times of every repeat."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

import simsys.level_study.measurement as module
from simsys.errors import InternalError
from simsys.level_study.measurement import differences, measure
from simsys.level_study.variants import HIGH, MEDIUM, Variant, as_variant
from simsys.simulation import simulate
from tests.helpers.level_study_toys import contended, jobs, serving, training

pytestmark = pytest.mark.usefixtures("what_others_left_is_kept")


def test_events_and_figures_are_those_of_the_run() -> None:
    found, result = measure(serving(), HIGH, 2), as_variant(serving(), HIGH).simulate()
    assert (found.events, found.simulated_s, found.steps) == (
        result.events,
        result.simulated_s,
        result.metrics["steps"],
    )
    assert found.figures == {name: result.metrics[name] for name in module.SERVING_FIGURES}
    assert len(found.wall_s) == len(found.cpu_s) == 2
    assert min(found.cpu_s) <= found.median_cpu_s <= max(found.cpu_s)


def test_training_has_figures_of_its_own() -> None:
    assert set(measure(training(), MEDIUM).figures) == {"mean_iteration_s", "mfu", "exposed_communication_s"}


def test_figures_of_jobs_are_named_after_them() -> None:
    assert {name.split(".")[0] for name in measure(jobs(), MEDIUM).figures} == {"one", "other"}


def test_medium_simulates_one_rank_for_all_of_a_team_or_role() -> None:
    ranks = [(each.simulated_ranks, each.ranks) for each in (measure(training(), level) for level in (HIGH, MEDIUM))]
    assert ranks == [(4, 4), (1, 4)]
    assert (measure(contended(), MEDIUM).simulated_ranks, measure(contended(), MEDIUM).ranks) == (2, 8)


def test_ranks_that_vary_are_simulated_one_by_one_where_nobody_can_stand_for_them() -> None:
    slow = {"profile": "dgx-a100", "gpus_per_node": 4, "exceptions": [{"gpus": [1], "speed": 0.5}]}
    assert measure(training(hardware=slow), MEDIUM).simulated_ranks > 1


def test_data_has_what_follows_from_it() -> None:
    data = measure(serving(), MEDIUM, 2).as_dict()
    assert data["events_per_cpu_s"] == pytest.approx(data["events"] / data["median_cpu_s"])
    assert data["cpu_spread_s"] == max(data["cpu_s"]) - min(data["cpu_s"])


def test_repeats_that_differ_in_their_events_are_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    results = iter([simulate(serving()), simulate(serving()), simulate(training())])

    def another(_: Variant) -> Any:
        return next(results)

    monkeypatch.setattr(Variant, "simulate", another)
    with pytest.raises(InternalError, match="events"):
        measure(serving(), MEDIUM, 2)


def test_differences_are_shares_of_what_is_true() -> None:
    found = differences({"a": 1.1, "b": 0.0, "c": 1.0}, {"a": 1.0, "b": 0.0, "c": 0.0})
    assert found == {"a": pytest.approx(0.1), "b": 0.0, "c": math.inf}


def test_repeats_of_two_times_are_taken_together() -> None:
    one, other = measure(serving(), MEDIUM, 2), measure(serving(), MEDIUM, 1)
    both = one.again(other)
    assert both.cpu_s == (*one.cpu_s, *other.cpu_s)
    assert len(both.wall_s) == 3
    assert both.figures == one.figures
    with pytest.raises(InternalError, match="events"):
        one.again(replace(other, events=other.events + 1))
