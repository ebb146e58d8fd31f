"""Measurements that a table lists twice count once."""

from __future__ import annotations

from dataclasses import replace

from simsys.fidelity.case import Case
from simsys.fidelity.scenario_run import ScenarioRun
from simsys.fidelity.tables.repeated import SAME, without_repeats

RUN = ScenarioRun.of({"model": {"name": "Llama3-8B"}})
CASE = Case("a", "serving", "one", "tpot_ms", "ms", 22.13, run=RUN, figure="mean_tpot_ms")


def named(*cases: Case) -> list[str]:
    return [case.id for case in without_repeats(cases)]


def test_the_same_value_of_the_same_run_counts_once_and_the_first_row_stays() -> None:
    assert named(CASE, replace(CASE, id="b", group="two", tags={"model": "llama3.1-8b"})) == ["a"]


def test_sources_that_round_otherwise_repeat_a_value() -> None:
    assert named(CASE, replace(CASE, id="b", measured=22.1313)) == ["a"]
    assert named(CASE, replace(CASE, id="b", measured=22.13 * (1 - 0.9 * SAME))) == ["a"]


def test_a_unit_is_no_difference() -> None:
    assert named(CASE, replace(CASE, id="b", unit="s", scale=1e-3, measured=0.02213)) == ["a"]


def test_runs_that_were_measured_again_are_kept() -> None:
    again = replace(CASE, id="b", measured=22.13 * (1 + 2 * SAME))
    assert named(CASE, again, replace(CASE, id="c", measured=22.13)) == ["a", "b"]


def test_other_figures_and_other_runs_are_kept() -> None:
    other = ScenarioRun.of({"model": {"name": "Llama2-7B"}})
    assert named(CASE, replace(CASE, id="b", figure="mean_ttft_ms"), replace(CASE, id="c", run=other)) == [
        "a",
        "b",
        "c",
    ]


def test_rows_without_a_run_are_kept() -> None:
    unsupported = replace(CASE, run=None, reason="not known")
    assert named(unsupported, replace(unsupported, id="b")) == ["a", "b"]
