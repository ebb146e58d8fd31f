"""Times of repeated calls, with the processor time and what other programs took of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from simsys.lab.clock import Clock, Taken

SHORTEST_SAMPLE_S = 1e-3
"""A sample repeats a shorter call up to this time."""
TRIALS = 3
"""Calls whose shortest one says how often a sample repeats the call."""
FEWEST = 5
"""Samples of each call at least."""
QUIET = 1.05
"""Wall time over CPU time per thread up to which a sample counts as undisturbed."""


@dataclass(frozen=True)
class Timing:
    """The time of a call.

    Args:
        seconds: The chosen time.
        spread: Difference of the third and the first quartile of the samples over their median.
        samples_s: Wall time of each sample.
        cpu_s: Processor time of each sample over the threads.
        preempted: Involuntary context switches.
        disturbed: Whether other programs took the processor, so that the time is processor time.
    """

    seconds: float
    spread: float
    samples_s: tuple[float, ...]
    cpu_s: tuple[float, ...]
    preempted: int
    disturbed: bool

    def as_dict(self) -> dict[str, Any]:
        """As data for JSON."""
        return asdict(self)


def of_computation(taken: Sequence[Taken], calls: int, threads: int) -> Timing:
    """The time of a computation: the median of undisturbed samples, else the median processor time.

    Args:
        taken: The samples.
        calls: Calls in each sample.
        threads: Threads that computed.
    """
    wall_s = [each.wall_s / calls for each in taken]
    cpu_s = [each.cpu_s / calls / threads for each in taken]
    quiet = [wall for wall, cpu in zip(wall_s, cpu_s, strict=True) if wall <= QUIET * cpu]
    disturbed = len(quiet) < min(3, len(taken))
    return _timing(median(cpu_s if disturbed else quiet), wall_s, cpu_s, taken, disturbed=disturbed)


def of_exchange(taken: Sequence[Taken], calls: int) -> Timing:
    """The time of a collective: the median of the fastest quarter of samples, as disturbances only add time."""
    wall_s, cpu_s = [each.wall_s / calls for each in taken], [each.cpu_s / calls for each in taken]
    fastest = sorted(wall_s)[: max(1, len(wall_s) // 4)]
    return _timing(median(fastest), wall_s, cpu_s, taken, disturbed=median(wall_s) > 2.0 * median(fastest))


def timed(
    call: Callable[[], object],
    *,
    threads: int = 1,
    budget_s: float = 0.2,
    finish: Callable[[], object] = lambda: None,
) -> Timing:
    """Measure a computation.

    Args:
        call: The computation.
        threads: Threads that it uses.
        budget_s: Time for all samples; there are at least `FEWEST`.
        finish: Waits until the device has done what was called.
    """
    call()
    finish()
    calls = max(1, int(SHORTEST_SAMPLE_S / max(_fastest_s(call, finish), 1e-9)))
    taken: list[Taken] = []
    until_s = time.perf_counter() + budget_s
    while len(taken) < FEWEST or time.perf_counter() < until_s:
        clock = Clock()
        for _ in range(calls):
            call()
        finish()
        taken.append(clock.taken())
    return of_computation(taken, calls, threads)


def _fastest_s(call: Callable[[], object], finish: Callable[[], object]) -> float:
    """The shortest of a few calls: another program may disturb any one of them."""
    found: list[float] = []
    for _ in range(TRIALS):
        clock = Clock()
        call()
        finish()
        found.append(clock.taken().wall_s)
    return min(found)


def _timing(
    seconds: float, wall_s: Sequence[float], cpu_s: Sequence[float], taken: Sequence[Taken], *, disturbed: bool
) -> Timing:
    ordered = sorted(wall_s)
    quarter = len(ordered) // 4
    spread = (ordered[-1 - quarter] - ordered[quarter]) / median(ordered)
    return Timing(seconds, spread, tuple(wall_s), tuple(cpu_s), sum(each.preempted for each in taken), disturbed)
