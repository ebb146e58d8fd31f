"""The parts of a training step on one GPU: computation, exposed communication by kind, copies, idle time.

Every moment of a step counts once: for computation, if a kernel computes; else for the collective or copy that runs
(of concurrent ones the first); else the GPU is idle. The same rules hold for simulated and real runs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simsys.metrics.split import Piece, TimeSplit
from simsys.sums import ordered_sum
from simsys.traces.kineto_names import COMPUTE, COPY

SHORTEST_GAP_S = 1e-6
"""Shorter stretches of idle time are not counted: kernels that follow one another are that far apart."""


@dataclass(frozen=True)
class Step:
    """A step of one GPU.

    Args:
        number: Its number.
        started_s: Start.
        ended_s: End.
        count: How many further steps are equal, and it.
    """

    number: int
    started_s: float
    ended_s: float
    count: int = 1


@dataclass(frozen=True)
class StepTimes:
    """The parts of a step, or the means of several.

    Args:
        step_s: Its duration.
        compute_s: Time in which a kernel computes.
        communication_s: Time in which a collective or message runs, by kind.
        exposed_s: Time of these and of copies without computation, by kind.
        overlap: Share of the time of communication in which a kernel computes; 0 without communication.
        idle_s: Time without work on the GPU.
        gaps: Number of stretches of idle time of `SHORTEST_GAP_S` or more.
        longest_gap_s: The longest of them.
    """

    step_s: float
    compute_s: float
    communication_s: Mapping[str, float]
    exposed_s: Mapping[str, float]
    overlap: float
    idle_s: float
    gaps: float
    longest_gap_s: float


def times_of(step: Step, pieces: Sequence[Piece]) -> StepTimes:
    """Divide a step among activities.

    Args:
        step: The step.
        pieces: What the GPU does, with kinds as of `kineto_names.kind_of`; parts outside of the step do not count.

    Example:
        >>> times = times_of(Step(0, 0.0, 10.0), [(0.0, 4.0, "compute"), (3.0, 6.0, "all_reduce"), (8.0, 9.0, "copy")])
        >>> times.compute_s, times.exposed_s, round(times.overlap, 3), times.idle_s, times.gaps
        (4.0, {'all_reduce': 2.0, 'copy': 1.0}, 0.333, 3.0, 2)
    """
    return times_of_each([step], pieces)[0]


def times_of_each(steps: Sequence[Step], pieces: Sequence[Piece]) -> list[StepTimes]:
    """Divide several steps; arguments as for `times_of`."""
    ordered = sorted(pieces)
    starts_s = [start_s for start_s, _, _ in ordered]
    longest_s = max((end_s - start_s for start_s, end_s, _ in ordered), default=0.0)
    found = []
    for step in steps:
        first, end = bisect_left(starts_s, step.started_s - longest_s), bisect_left(starts_s, step.ended_s)
        found.append(_times(step, [piece for piece in ordered[first:end] if piece[1] > step.started_s]))
    return found


def _times(step: Step, near: Sequence[Piece]) -> StepTimes:
    """The parts of a step with these activities, in order of their starts."""
    start_s, end_s = step.started_s, step.ended_s
    computations = [piece for piece in near if piece[2] == COMPUTE]
    whole = TimeSplit(start_s, end_s)
    compute_s = whole.take(computations).get(COMPUTE, 0.0)
    exposed = whole.take([piece for piece in near if piece[2] != COMPUTE])
    moved = [piece for piece in near if piece[2] not in (COMPUTE, COPY)]
    kinds = sorted({kind for _, _, kind in moved})
    total_s = {kind: _union_s(step, [piece for piece in moved if piece[2] == kind]) for kind in kinds}
    any_s, alone = _union_s(step, moved), TimeSplit(start_s, end_s)
    alone.take(computations)
    hidden_s = any_s - ordered_sum(alone.take(moved).values())
    free = [until_s - since_s for since_s, until_s in whole.free()]
    return StepTimes(
        end_s - start_s,
        compute_s,
        total_s,
        {kind: exposed[kind] for kind in sorted(exposed)},
        hidden_s / any_s if any_s else 0.0,
        float(ordered_sum(free)),
        sum(seconds >= SHORTEST_GAP_S for seconds in free),
        max(free, default=0.0),
    )


def mean_times(steps: Sequence[Step], pieces: Sequence[Piece]) -> StepTimes:
    """The means over some steps, each as often as it counts; the longest gap is that of all."""
    return mean_of(times_of_each(steps, pieces), [step.count for step in steps])


def mean_of(each: Sequence[StepTimes], weights: Sequence[int]) -> StepTimes:
    """The weighted means of the parts of some steps; the longest gap is that of all."""
    total = sum(weights)

    def mean(values: Sequence[float]) -> float:
        return ordered_sum(weight * value for weight, value in zip(weights, values, strict=True)) / total

    def by_kind(tables: Sequence[Mapping[str, float]]) -> dict[str, float]:
        kinds = sorted({kind for table in tables for kind in table})
        return {kind: mean([table.get(kind, 0.0) for table in tables]) for kind in kinds}

    return StepTimes(
        mean([one.step_s for one in each]),
        mean([one.compute_s for one in each]),
        by_kind([one.communication_s for one in each]),
        by_kind([one.exposed_s for one in each]),
        mean([one.overlap for one in each]),
        mean([one.idle_s for one in each]),
        mean([one.gaps for one in each]),
        max(one.longest_gap_s for one in each),
    )


def _union_s(step: Step, pieces: Sequence[Piece]) -> float:
    """Time in which any of the pieces runs."""
    return float(ordered_sum(TimeSplit(step.started_s, step.ended_s).take(pieces).values()))
