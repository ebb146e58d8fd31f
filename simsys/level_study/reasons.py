"""Why medium is not faster, and why it answers something else: said with the numbers of the row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simsys.job_run import NONE_MET
from simsys.report.text import number, percent, time

EXACT = 1e-6
"""Figures that differ by less are called equal; the rest is rounding."""
SOUGHT = 100.0
"""The speed-up below which a row says why."""

Row = Mapping[str, Any]


def reasons(row: Row) -> list[str]:
    """What keeps a row from being a hundred times faster, and what its differences come from.

    Args:
        row: A comparison as data, without its reasons.
    """
    return [*_speed(row), *_folding(row), *_differences(row), *_drawn(row)]


def _speed(row: Row) -> Iterator[str]:
    if row["cpu_speedup"] >= SOUGHT:
        return
    high, medium = row["levels"]["high"], row["levels"]["medium"]
    fixed = row["least_cpu_s"] / max(medium["median_cpu_s"], 1e-9)
    if fixed > 0.4:
        share = f"{time(row['least_cpu_s'])} are" if fixed < 0.9 else "nearly all is"  # measured apart: maybe longer
        yield (
            f"of medium's {time(medium['median_cpu_s'])}, {share} building the scenario and its figures, whatever "
            f"there is to do: more {row['unit']} raise the ratio"
        )
    steps, events = medium["steps"], medium["events"]
    if steps and events > 0.5 * steps:
        yield (
            f"medium takes {events / steps:.2g} events per step here: runs of steps are not one event where hardware "
            "varies, or each step brings a batch"
        )
    if fixed <= 0.4:
        each_s, cheap_s = (level["median_cpu_s"] / max(level["events"], 1) for level in (medium, high))
        yield (
            f"{number(row['event_reduction'])} times fewer events, each {number(each_s / cheap_s)} times as dear: "
            f"{time(each_s)}, which schedule and note {row['unit']}, against {time(cheap_s)} for a layer or transfer"
        )


def _folding(row: Row) -> Iterator[str]:
    medium = row["levels"]["medium"]
    if row["kind"] == "training" and medium["simulated_ranks"] == medium["ranks"] > 1:
        yield f"no ranks are folded: each of the {medium['ranks']} has work of its own"


def _differences(row: Row) -> Iterator[str]:
    largest = row["largest_difference"]
    if largest <= EXACT:
        return
    contention = row["levels"]["medium"]["contention"]
    worst = max(row["differences"], key=lambda name: abs(row["differences"][name]))
    yield f"{worst} is {percent(largest) if largest >= 1e-3 else f'{100 * largest:.1g} %'} off: {_cause(contention)}"


def _cause(contention: str) -> str:
    """What makes medium differ, from what became of its transfers."""
    if contention.startswith("none"):
        return "transfers of several groups meet on links at high, while medium takes the time of idle links, as asked"
    if contention.endswith(NONE_MET):
        return (
            "what meets on links at high does so too briefly to count, or is what stages of a pipeline hand on, and "
            "medium takes the time of idle links"
        )
    if contention.startswith("occupied"):
        return "transfers of several groups share links at high, while medium loads these by mean rates"
    return (
        "both levels carry transfers out on shared links, where medium starts them up to a rounding earlier or later"
    )


def _drawn(row: Row) -> Iterator[str]:
    if not row["drawn"]:
        yield "nothing in the workload is random: another seed changes nothing"
