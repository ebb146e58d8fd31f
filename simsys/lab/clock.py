"""What a piece of work took: wall time, CPU time, and how often the kernel took the processor away."""

from __future__ import annotations

import resource
import time
from dataclasses import asdict, dataclass
from typing import Any

DISTURBED_WALL = 1.2
"""Wall time over CPU time per thread above which a run of computation counts as disturbed by other programs."""


@dataclass(frozen=True)
class Taken:
    """Times of a piece of work.

    Args:
        wall_s: Elapsed time.
        cpu_s: Processor time of all threads of the process.
        preempted: Involuntary context switches: how often another program got the processor.
        faults: Page faults without disk access.
    """

    wall_s: float
    cpu_s: float
    preempted: int
    faults: int

    def as_dict(self) -> dict[str, Any]:
        """As data for JSON."""
        return asdict(self)


class Clock:
    """Measures from its creation to each call of `taken`."""

    def __init__(self) -> None:
        self._wall_s, self._cpu_s = time.perf_counter(), time.process_time()
        self._usage = resource.getrusage(resource.RUSAGE_SELF)

    def taken(self) -> Taken:
        """What has passed since."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return Taken(
            time.perf_counter() - self._wall_s,
            time.process_time() - self._cpu_s,
            usage.ru_nivcsw - self._usage.ru_nivcsw,
            usage.ru_minflt - self._usage.ru_minflt,
        )


def is_disturbed(wall_s: float, cpu_s: float) -> bool:
    """Whether a computation on as many cores as threads waited for the processor for a good part of its time.

    Args:
        wall_s: Its elapsed time.
        cpu_s: Its processor time over its number of threads.
    """
    return wall_s > DISTURBED_WALL * cpu_s
