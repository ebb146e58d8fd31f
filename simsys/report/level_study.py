"""Comparison of the levels of detail as text of at most 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simsys.report.text import WIDTH, number, percent, time, wrap
from simsys.sums import ordered_sum
from simsys.units import MIB

Row = Mapping[str, Any]
Cells = Sequence[Sequence[str]]

NAME = 22
ROUNDING = 1e-9
"""Differences below this are rounding errors."""
SERVING = {
    "mean_ttft_ms": "TTFT",
    "mean_tpot_ms": "TPOT",
    "mean_e2el_ms": "E2E",
    "request_throughput": "req/s",
    "total_token_throughput": "tok/s",
    "completed": "done",
}
TRAINING = {"mean_iteration_s": "iteration", "mfu": "MFU", "exposed_communication_s": "exposed"}
PACKAGES = 8
"""Rows of a breakdown; the rest is summed."""


def comparison_text(data: Mapping[str, Any]) -> str:
    """Describe a comparison: speed and error, figures, cost, reasons, attribution, breakdown, conclusion.

    Args:
        data: See `simsys.level_study.study`.
    """
    return "\n\n".join("\n".join(block) for block in blocks(data).values() if block)


def blocks(data: Mapping[str, Any]) -> dict[str, list[str]]:
    """The parts of the text, by name; some may be empty."""
    rows = data["scenarios"]
    found = {
        "speed": [line for kind in ("serving", "training", "jobs") for line in _speed(rows, kind)],
        "figures": [line for kind in ("serving", "training") for line in _figures(rows, kind)],
        "cost": _cost(rows),
        "reasons": _reasons(rows, data["refused"]),
        "attribution": [line for each in data.get("attribution", ()) for line in attribution_lines(each)],
        "breakdown": [line for each in data.get("breakdown", ()) for line in breakdown_lines(each)],
        "conclusion": ["conclusion", *(line for text in data["conclusion"] for line in wrap(text, "  - ", "    "))],
    }
    return {name: lines[:-1] if lines and not lines[-1] else lines for name, lines in found.items()}


def table(cells: Cells, first: int = NAME) -> list[str]:
    """Rows below their headings: the first column to the left and cut to its width, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)][1:]
    gap = max(1, min(3, (WIDTH - first - sum(widths)) // max(1, len(widths))))
    return [
        (
            f"{cut(row[0], first):<{first}}"
            + "".join(f"{cell:>{width + gap}}" for cell, width in zip(row[1:], widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def cut(text: str, width: int) -> str:
    """A text cut to the width of a column."""
    return text if len(text) <= width else text[: width - 1] + "…"


def difference(share: float) -> str:
    """A difference in percent, in up to five characters.

    Example:
        >>> [difference(share) for share in (0.0, -3e-12, -7.6e-6, 0.0123)]
        ['0', '~0', '-8e-4', '+1.2']
    """
    if share == 0.0:
        return "0"
    if abs(share) < ROUNDING:
        return "~0"
    return f"{100 * share:+.2g}" if abs(share) >= 1e-4 else f"{100 * share:+.0e}".replace("e-0", "e-")


def times(ratio: float) -> str:
    """A ratio, rounded.

    Example:
        >>> times(1366.8), times(9.87)
        ('1,370x', '9.87x')
    """
    return f"{number(ratio)}x"


def _speed(rows: Sequence[Row], kind: str) -> Iterator[str]:
    """One row per scenario: speed-ups, and the difference of each figure."""
    chosen = [row for row in rows if row["kind"] == kind]
    if not chosen:
        return
    names = {"serving": SERVING, "training": TRAINING, "jobs": {}}[kind]
    heading = [kind, "clock", "CPU", "events", *names.values()]
    cells = [heading]
    for row in chosen:
        saved = [times(row["speedup"]), times(row["cpu_speedup"]), f"{_count(row['event_reduction'])}x"]
        cells.append([row["name"], *saved, *(difference(row["differences"][name]) for name in names)])
    yield "medium vs high: wall/CPU speed-up, event reduction, differences in %"
    yield from table([[*row, *([] if names else [each])] for row, each in zip(cells, _largest(chosen), strict=True)])
    yield ""


def _largest(rows: Sequence[Row]) -> list[str]:
    return ["largest", *(difference(row["largest_difference"]) for row in rows)]


def _figures(rows: Sequence[Row], kind: str) -> Iterator[str]:
    """The figures of both levels."""
    chosen = [row for row in rows if row["kind"] == kind]
    if not chosen:
        return
    names = SERVING if kind == "serving" else TRAINING
    cells = [[f"{kind} figures", "level", *names.values()]]
    for row in chosen:
        for level, each in row["levels"].items():
            values = [_figure(name, each["figures"][name]) for name in names]
            cells.append([row["name"] if level == "high" else "", level, *values])
    yield from table(cells)
    yield ""


def _figure(name: str, value: float) -> str:
    if name.endswith("_ms"):
        return time(value / 1e3)
    if name.endswith("_s"):
        return time(value)
    if name == "completed":
        return f"{value:,.0f}"
    return f"{value:.3f}" if name == "mfu" else number(value)


def _cost(rows: Sequence[Row]) -> list[str]:
    """Median and spread of the repeats, events, and memory."""
    cells = [["cost", "level", "n", "clock", "±", "CPU", "±", "events", "per CPU-s", "MiB"]]
    for row in rows:
        for level, each in row["levels"].items():
            name = row["name"] if level == "high" else f"  {row['amount']:,} {row['unit']}"
            cells.append(_cost_row(name, level, each))
        if "whole" in row:
            whole = row["whole"]
            cells.append(_cost_row(f"  {whole['amount']:,} {row['unit']}", "medium", whole))
    return table(cells, 20)


def _cost_row(name: str, level: str, each: Row) -> list[str]:
    peak = each["peak_bytes"]
    return [
        name,
        level,
        str(len(each["wall_s"])),
        _seconds(each["median_wall_s"]),
        _seconds(each["wall_spread_s"] / 2, 2),
        _seconds(each["median_cpu_s"]),
        _seconds(each["cpu_spread_s"] / 2, 2),
        _count(each["events"]),
        _count(each["events_per_cpu_s"]),
        "-" if peak is None else f"{peak / MIB:.0f}",
    ]


def _seconds(seconds: float, digits: int = 3) -> str:
    """A time in few characters."""
    if seconds >= 1.0:
        return f"{seconds:.0f}s" if seconds >= 100.0 else f"{seconds:.{digits}g}s"
    if seconds < 1e-4:
        return f"{1e6 * seconds:.0f}us"
    return f"{1e3 * seconds:.0f}ms" if seconds >= 0.1 else f"{1e3 * seconds:.{digits}g}ms"


def _count(value: float) -> str:
    """A number with a letter for thousands or millions."""
    for scale, letter in ((1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:.3g}{letter}"
    return f"{value:.0f}"


def _reasons(rows: Sequence[Row], refused: Sequence[Row]) -> list[str]:
    """Scenarios compared in part or not at all, and the reasons for slow or inexact ones."""
    lines = [line for each in refused for line in wrap(f"not compared: {each['error']}", "  - ", "    ")]
    for row in rows:
        texts = list(row["reasons"])
        if "whole" in row:
            whole = row["whole"]
            texts.insert(
                0,
                f"within the limit, high simulates the first {row['amount']:,} of {whole['amount']:,} {row['unit']}; "
                f"only these are compared. Medium simulates all of them ({time(whole['simulated_s'])}) in "
                f"{time(whole['median_wall_s'])}",
            )
        for text in texts:
            lines += wrap(f"{row['name']}: {text}", "  - ", "    ")
    return ["why", *lines] if lines else []


def attribution_lines(each: Row) -> list[str]:
    """Speed-up and error of each abstraction in one scenario."""
    cells = [[f"{each['name']} ({each['amount']:,} {each['unit']})", "CPU", "faster", "events", "fewer", "error %"]]
    cells += [
        [
            row["variant"],
            _seconds(row["median_cpu_s"]),
            times(row["cpu_speedup"]),
            _count(row["events"]),
            times(row["event_reduction"]),
            difference(row["largest_difference"]).lstrip("+"),
        ]
        for row in each["variants"]
    ]
    return [*table(cells, 36), ""]


def breakdown_lines(each: Row) -> list[str]:
    """CPU time by package at both levels, largest first."""
    levels = each["levels"]
    high, medium = (levels[level]["shares"] for level in ("high", "medium"))
    names = sorted({*high, *medium}, key=lambda name: -max(high.get(name, 0.0), medium.get(name, 0.0)))
    cells = [[each["name"], *(f"{level} ({levels[level]['amount']:,})" for level in levels)]]
    cells += [[name, percent(high.get(name, 0.0)), percent(medium.get(name, 0.0))] for name in names[:PACKAGES]]
    rest = [ordered_sum(shares.get(name, 0.0) for name in names[PACKAGES:]) for shares in (high, medium)]
    return [*table([*cells, ["the rest", *map(percent, rest)]], 30), ""]
