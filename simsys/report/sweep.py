"""The table of a sweep as text: settings that vary, headline metrics with confidence intervals, reasons and errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from simsys.errors import UnknownNameError
from simsys.metrics.definitions import metrics_by_name
from simsys.report.text import milliseconds, number, percent, time, wrap
from simsys.report.text_table import text_table
from simsys.sweeps.table import COSTS
from simsys.units import pretty_memory

SHOWN: Mapping[str, Sequence[str]] = {
    "training": ("mean_iteration_s", "tokens_per_s_per_gpu", "mfu", "peak_memory_bytes"),
    "serving": ("served_requests_per_s", "output_throughput", "p50_ttft_ms", "p99_ttft_ms", "p50_tpot_ms"),
    "jobs": ("jobs", "makespan_s"),
}
"""Metrics of the text by kind, where the section ``sweep`` names none."""
HEADINGS = {
    "usd_per_million_tokens": "USD/M tokens",
    "num_gpus": "GPUs",
    "mean_iteration_s": "iteration",
    "tokens_per_s_per_gpu": "tokens/s/GPU",
    "mfu": "MFU",
    "peak_memory_bytes": "memory",
    "served_requests_per_s": "served req/s",
    "output_throughput": "output tokens/s",
    "p50_ttft_ms": "TTFT p50",
    "p99_ttft_ms": "TTFT p99",
    "p50_tpot_ms": "TPOT p50",
}
ROWS, NOTES = 40, 5
"""Most rows, and most reasons, warnings and errors."""
OK = "ok"
_FORMS = {"s": time, "ms": milliseconds, "bytes": pretty_memory, "share": percent}


def sweep_text(
    columns: Mapping[str, Sequence[Any]],
    settings: Sequence[str],
    metrics: Sequence[str] = (),
    *,
    sort: str = "",
    rows: int = ROWS,
) -> str:
    """The table of a sweep for a terminal.

    Args:
        columns: The table, as `simsys.sweeps.table.table_of` returns it.
        settings: The settings that vary.
        metrics: The metrics that are shown; by default headline metrics.
        sort: A column by which rows are sorted, ``-`` before it for the largest first; by default as in `columns`.
        rows: Most rows.
    """
    order = _order(columns, sort)
    shown = order[:rows]
    names = _columns(columns, settings, metrics, sorted_by(sort))
    errors = list(dict.fromkeys(each for each in columns["expected_error"] if each))
    table = [[_heading(name, settings) for name in names]]
    table += [[_cell(columns, name, row) for name in names] for row in shown]
    if len(errors) > 1:
        marks = ["error", *(_mark(errors, columns["expected_error"][row]) for row in shown)]
        table = [[*cells, mark] for cells, mark in zip(table, marks, strict=True)]
    lines = text_table(table)
    if left := len(order) - len(shown):
        lines.append(f"… {left:,} more rows")
    notes = _notes(columns, errors)
    return "\n".join([*lines, *([""] if notes else []), *notes])


def sorted_by(sort: str) -> str:
    """The column that an order such as ``-mfu`` names."""
    return sort.removeprefix("-")


def check_order(sort: str, settings: Sequence[str]) -> None:
    """Refuse an unknown column to sort by.

    Args:
        sort: The order, such as ``-mfu``.
        settings: The settings that vary.

    Raises:
        UnknownNameError: There is no such setting, metric or cost.
    """
    known = [*settings, *COSTS, *(name for name, each in metrics_by_name().items() if each.is_number)]
    if sort and sorted_by(sort) not in known:
        raise UnknownNameError("column", sorted_by(sort), known)


def _order(columns: Mapping[str, Sequence[Any]], sort: str) -> list[int]:
    """The rows in order; those without a value are last."""
    order = list(range(len(columns["state"])))
    if not sort:
        return order
    values, sign = columns[sorted_by(sort)], -1 if sort.startswith("-") else 1
    known = [row for row in order if isinstance(values[row], int | float)]
    return [*sorted(known, key=lambda row: sign * values[row]), *(row for row in order if row not in set(known))]


def _columns(
    columns: Mapping[str, Sequence[Any]], settings: Sequence[str], metrics: Sequence[str], sort: str
) -> list[str]:
    """The columns that are shown: those of which something is known, and of states only other ones than `OK`."""
    known = [*(metrics or chain(*SHOWN.values())), sort]
    gpus = ["num_gpus"] if len(set(columns["num_gpus"]) - {None}) > 1 else []
    measured = [name for name in known if name in columns and name != "num_gpus"]
    names = list(dict.fromkeys([*settings, *gpus, *measured]))
    optional = [name for name in ("usd_per_million_tokens", "meets_slo") if name not in names]
    names += [name for name in optional if any(value is not None for value in columns[name])]
    return [*names, *(["state"] if set(columns["state"]) - {OK} else [])]


def _heading(name: str, settings: Sequence[str]) -> str:
    if name in settings:
        last = name.rpartition(".")[2]
        return name if sum(each.rpartition(".")[2] == last for each in settings) > 1 else last
    return {**HEADINGS, "meets_slo": "SLO"}.get(name, name)


def _cell(columns: Mapping[str, Sequence[Any]], name: str, row: int) -> str:
    value = columns[name][row]
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    known = metrics_by_name().get(name)
    text = str(value)
    if isinstance(value, int | float) and (known is not None or name in HEADINGS):
        text = _FORMS.get(known.unit if known is not None else "", number)(value)
    half = columns.get(f"{name}_ci95", {row: None})[row]
    return f"{text} ± {percent(half / abs(value))}" if half and value else text


def _mark(errors: Sequence[str], error: str | None) -> str:
    return f"({errors.index(error) + 1})" if error else "-"


def _notes(columns: Mapping[str, Sequence[Any]], errors: Sequence[str]) -> list[str]:
    """Expected errors, warnings, and the reasons of points without metrics."""
    lines: list[str] = []
    for place, error in enumerate(errors[:NOTES], start=1):
        lines += wrap(error, "expected error: " if len(errors) == 1 else f"expected error ({place}): ", "  ")
    if len(errors) > NOTES:
        lines.append(f"and {len(errors) - NOTES} more expected errors")
    for first, name in (("warning", "warnings"), ("not simulated", "reason")):
        found = Counter(text for text in columns[name] if text)
        for text, count in found.most_common(NOTES):
            lines += wrap(text, f"{first} ({count:,} of {len(columns[name]):,} rows): ", "  ")
        if len(found) > NOTES:
            lines.append(f"and {len(found) - NOTES} more: {name} of {sum(found.values()):,} rows are in the file")
    return lines
