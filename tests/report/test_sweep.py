"""The table of a sweep as text."""

from __future__ import annotations

from typing import Any

import pytest

from simsys.errors import UnknownNameError
from simsys.report.sweep import check_order, sweep_text

COLUMNS: dict[str, list[Any]] = {
    "hardware.gpu": ["H100-SXM", "A100-SXM-80GB", "H200-SXM"],
    "workload.arrivals.rate": ["2 req/s", "4 req/s", "8 req/s"],
    "runs": [3, 3, 0],
    "state": ["ok", "ok", "does not fit"],
    "num_gpus": [1, 1, None],
    "p50_ttft_ms": [31.29, 1210.0, None],
    "p50_ttft_ms_ci95": [1.2516, 0.0, None],
    "usd_per_million_tokens": [1.4754, 0.739, None],
    "meets_slo": [True, False, None],
    "expected_error": ["median 25 %", "no measurements", None],
    "warnings": ["saturated", "", ""],
    "reason": ["", "", "too large"],
}
PATHS = ["hardware.gpu", "workload.arrivals.rate"]


def test_rows_have_settings_metrics_with_intervals_and_what_else_is_known() -> None:
    lines = sweep_text(COLUMNS, PATHS).splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["gpu", "rate", "TTFT", "p50", "USD/M", "tokens", "SLO", "state", "error"],
        ["H100-SXM", "2", "req/s", "31.3", "ms", "±", "4.0", "%", "1.48", "yes", "ok", "(1)"],
        ["A100-SXM-80GB", "4", "req/s", "1.21", "s", "0.739", "no", "ok", "(2)"],
        ["H200-SXM", "8", "req/s", "-", "-", "-", "does", "not", "fit", "-"],
    ]
    assert lines[4:] == [
        "",
        "expected error (1): median 25 %",
        "expected error (2): no measurements",
        "warning (1 of 3 rows): saturated",
        "not simulated (1 of 3 rows): too large",
    ]


def test_rows_are_sorted_with_unknown_values_last_and_long_tables_are_cut() -> None:
    text = sweep_text(COLUMNS, PATHS, sort="-p50_ttft_ms", rows=2)
    assert [line.split()[0] for line in text.splitlines()[1:3]] == ["A100-SXM-80GB", "H100-SXM"]
    assert text.splitlines()[3] == "… 1 more rows"
    assert sweep_text(COLUMNS, PATHS, sort="p50_ttft_ms").splitlines()[3].startswith("H200")


def test_settings_with_the_same_last_part_have_whole_paths() -> None:
    columns = {"a.rate": ["1"], "b.rate": ["2"], **{name: column[:1] for name, column in COLUMNS.items()}}
    assert sweep_text(columns, ["a.rate", "b.rate"]).startswith("a.rate  b.rate")


def test_columns_that_rows_are_sorted_by_are_checked_before() -> None:
    for name in ("", "hardware.gpu", "-mfu", "usd_per_hour"):
        check_order(name, PATHS)
    with pytest.raises(UnknownNameError, match="did you mean 'mfu'"):
        check_order("-mfuu", PATHS)
