"""Conditions on metrics: what they may name, and what holds."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.errors import UnknownNameError, UsageError
from simsys.metrics.result import RunResult
from simsys.report.threshold import Threshold, check_thresholds, failures


def run(kind: str, metrics: dict[str, Any], *jobs: RunResult) -> RunResult:
    return RunResult("r", kind, "medium", "none", metrics, {}, jobs=jobs)


def failed(condition: str, *results: RunResult) -> list[str]:
    return failures([Threshold.parse(condition)], results)


@pytest.mark.parametrize(
    ("condition", "metrics", "text"),
    [
        ("rejected>0", {"rejected": 0}, ""),
        ("rejected>0", {"rejected": 7}, "r: rejected is 7, > 0"),
        ("rejected<1", {"rejected": 0}, "r: rejected is 0, < 1"),
        ("overloaded>0", {"overloaded": 1}, "r: overloaded is 1, > 0"),
        ("p99_ttft_ms>200", {"p99_ttft_ms": None}, "r: p99_ttft_ms has no value"),
        ("kv_transferred_bytes>0", {}, ""),
        ("kv_transferred_bytes<1", {}, "r: kv_transferred_bytes is 0, < 1"),
        ("slo_attainment<0.9", {}, "r: slo_attainment has no value; a run has it only with slo"),
        ("mfu<1", {"mfu": 0.5}, ""),
    ],
)
def test_a_serving_run_fails_a_condition(condition: str, metrics: dict[str, Any], text: str) -> None:
    """Zero is a value; what a run leaves out because there was none of it is zero; training metrics do not matter."""
    assert failed(condition, run("serving", metrics)) == ([text] if text else [])


def test_exposed_communication_along_an_axis_that_nobody_uses_is_zero() -> None:
    assert failed("exposed_pipeline_s>0", run("training", {"mfu": 0.4})) == []


def test_conditions_hold_for_the_jobs_of_a_shared_cluster() -> None:
    job = run("serving", {"p99_ttft_ms": 300.0})
    assert failed("p99_ttft_ms>200", run("jobs", {"jobs": 1}, job)) == ["r: p99_ttft_ms is 300, > 200"]


@pytest.mark.parametrize(
    ("condition", "kinds", "message"),
    [
        ("rejectd>0", ["serving"], "unknown metric in --fail-on 'rejectd', did you mean 'rejected'?"),
        ("mfu<0.3", ["serving"], "--fail-on mfu: a metric of training, but the file has serving only"),
        ("p99_ttft_ms>1", ["training"], "--fail-on p99_ttft_ms: a metric of serving, but the file has training only"),
        ("saturation>0", ["serving"], "--fail-on saturation: it is a text, which has no numeric value"),
        ("rejected_by_reason>0", ["serving"], "--fail-on rejected_by_reason: it is a table"),
    ],
)
def test_what_no_result_will_have_is_refused(condition: str, kinds: list[str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        check_thresholds([Threshold.parse(condition)], kinds)
    assert message in str(error.value)


def test_an_unknown_name_is_an_unknown_name() -> None:
    with pytest.raises(UnknownNameError):
        check_thresholds([Threshold("nothing", ">", 0.0)], ["training"])


@pytest.mark.parametrize("kinds", [["serving"], ["training", "serving"], ["jobs", "serving"]])
def test_a_metric_of_one_of_the_scenarios_is_enough(kinds: list[str]) -> None:
    check_thresholds([Threshold.parse("p99_ttft_ms>200")], kinds)
