"""What a run misses of an SLO."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.metrics.slo import limits_s, missed, targets_s

SLO = {"ttft": 0.5, "p99_itl": 0.08, "attainment": 0.9}
GOOD = {"slo_attainment": 0.9, "p99_itl_ms": 80.0}


def test_targets_and_limits_are_apart() -> None:
    assert targets_s(SLO) == {"ttft": 0.5}
    assert limits_s(SLO) == {"p99_itl": 0.08}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"slo_attainment": 0.89}, ["89.0% of the requests meet all targets, 90 % have to"]),
        ({"slo_attainment": None}, ["no request was served, 90 % have to"]),
        ({"p99_itl_ms": 81.0}, ["p99 ITL 81 ms > 80 ms"]),
        ({"p99_itl_ms": None}, ["p99 ITL has no value"]),
    ],
)
def test_what_is_missed_is_said(changes: dict[str, Any], expected: list[str]) -> None:
    assert missed(SLO, GOOD | changes) == expected


def test_without_attainment_every_request_has_to_meet_the_targets() -> None:
    assert missed({"ttft": 0.5}, {"slo_attainment": 0.999})
    assert not missed({"ttft": 0.5}, {"slo_attainment": 1.0})


def test_attainment_does_not_matter_without_targets() -> None:
    assert missed({"p99_itl": 0.08, "attainment": 0.9}, {"p99_itl_ms": 79.0}) == []
