"""Errors of predictions: groups count once, what is not predicted is counted and named."""

from __future__ import annotations

import pytest

from simsys.fidelity.case import POOLS, Case, Prediction
from simsys.fidelity.errors import by_tag, errors_of, unsupported


def prediction(group: str, predicted: float | None, measured: float = 10.0, **tags: str) -> Prediction:
    case = Case(f"{group}-{predicted}", "training", group, "iteration_s", "s", measured, tags)
    return Prediction(case, predicted, "" if predicted is not None else "no such thing")


def test_every_group_counts_once() -> None:
    found = errors_of([prediction("big", 11.0)] * 9 + [prediction("small", 5.0)])
    assert found.mape == pytest.approx(0.14)
    assert found.balanced_mape == pytest.approx(0.3)
    assert found.bias == pytest.approx(-0.2)
    assert found.median_error == pytest.approx(0.1)
    assert (found.rows, found.predicted, found.groups, found.coverage) == (10, 10, 2, 1.0)


def test_opposite_errors_cancel_in_the_bias_alone() -> None:
    found = errors_of([prediction("a", 12.0), prediction("a", 8.0)])
    assert found.bias == pytest.approx(0.0)
    assert found.mape == pytest.approx(0.2)


def test_what_is_not_predicted_counts_against_coverage_only() -> None:
    found = errors_of([prediction("a", 10.0), prediction("a", None), prediction("b", None)])
    assert (found.coverage, found.groups, found.mape) == (pytest.approx(1 / 3), 1, 0.0)
    assert unsupported([prediction("a", None), prediction("b", None), prediction("b", 1.0)]) == {"no such thing": 2}


def test_nothing_predicted_has_no_error() -> None:
    found = errors_of([prediction("a", None)])
    assert (found.coverage, found.mape, found.bias) == (0.0, None, None)


def test_parts_come_by_size_and_leave_out_what_says_nothing() -> None:
    rows = [prediction("a", 11.0, gpu="A100"), prediction("a", 12.0, gpu="A100"), prediction("b", 9.0, gpu="H100")]
    parts = by_tag([*rows, prediction("b", 9.0)], "gpu")
    assert list(parts) == ["A100", "H100"]
    assert parts["A100"].mape == pytest.approx(0.15)
    assert list(by_tag(rows, "group")) == ["a", "b"]


def test_the_error_of_what_is_not_predicted_does_not_exist() -> None:
    with pytest.raises(TypeError, match="not predicted"):
        _ = prediction("a", None).error


def test_metrics_of_pools_are_apart() -> None:
    rows = [prediction("a", 11.0), prediction("a", 15.0, deployment=POOLS), prediction("b", 13.0, deployment=POOLS)]
    parts = by_tag(rows, "metric")
    assert {name: errors.rows for name, errors in parts.items()} == {"iteration_s": 1, "iteration_s, pools": 2}
    assert parts["iteration_s, pools"].balanced_mape == pytest.approx(0.4)
    assert list(by_tag(rows, "deployment")) == [POOLS]
