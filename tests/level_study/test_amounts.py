"""How much a scenario does, and the same scenario with less of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from simsys.errors import UsageError
from simsys.level_study.amounts import amount, drawn, unit, with_amount
from simsys.simulation import simulate
from tests.helpers.level_study_toys import jobs, serving, training


def test_requests_iterations_and_jobs_are_counted() -> None:
    assert [(amount(each), unit(each)) for each in (serving(), training(), jobs())] == [
        (5, "requests"),
        (4, "iterations"),
        (2, "jobs"),
    ]


def test_requests_of_a_duration_are_those_that_arrive_in_it() -> None:
    arrivals = {"kind": "constant", "rate": "2 req/s"}
    assert amount(serving(workload={"arrivals": arrivals, "num_requests": None, "duration": "3.4 s"})) == 7


def test_requests_of_a_timed_run_are_those_that_arrive_in_it() -> None:
    arrivals = {"kind": "constant", "rate": "2 req/s"}
    timed = serving(workload={"arrivals": arrivals, "num_requests": None}, simulation={"duration": "3.4 s"})
    assert amount(timed) == 7
    assert simulate(with_amount(timed, 7)).metrics["completed"] == 7


def test_a_workload_in_which_nothing_arrives_is_refused() -> None:
    arrivals = {"kind": "poisson", "rate": "0.001 req/s"}
    nobody = serving(workload={"arrivals": arrivals, "num_requests": None, "duration": "1 ms"})
    with pytest.raises(UsageError, match="no request"):
        amount(nobody)


def test_less_of_a_scenario_is_its_beginning() -> None:
    whole, part = simulate(serving()), simulate(with_amount(serving(), 2))
    assert part.metrics["completed"] == 2
    assert part.rows["arrival_s"] == whole.rows["arrival_s"][:2]
    assert simulate(with_amount(training(), 2)).metrics["iterations"] == 2


def test_less_of_a_duration_is_its_first_requests() -> None:
    arrivals = {"kind": "constant", "rate": "2 req/s"}
    timed = serving(workload={"arrivals": arrivals, "num_requests": None, "duration": "10 s"})
    assert amount(with_amount(timed, 3)) == 3


def test_what_a_scenario_reads_is_found_still() -> None:
    config = serving().located_in(Path("somewhere"))
    assert with_amount(config, 2).folder == Path("somewhere")
    assert with_amount(training().located_in(Path("there")), 2).folder == Path("there")


def test_jobs_stay_as_they_are() -> None:
    assert with_amount(jobs(), 1) == jobs()


def test_arrivals_or_lengths_may_be_random() -> None:
    constant = {"kind": "constant", "rate": "4 req/s"}
    assert drawn(serving())
    assert not drawn(serving(workload={"arrivals": constant}))
    assert drawn(serving(workload={"arrivals": constant, "output_tokens": {"kind": "lognormal", "mean": 20}}))
    assert drawn(training())
