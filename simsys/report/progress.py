"""Progress line of a run on a terminal."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from simsys.config.experiment import SimulationConfig
from simsys.probes import Probe
from simsys.report.console import escaped
from simsys.serving.cancelled import Cancelled

QUIET_S = 1.0
"""Shorter runs show no progress."""
REFRESHES_PER_S = 5.0


class ProgressLine(Probe):
    """Context manager that counts iterations or requests and shows the count.

    Args:
        config: The scenario that runs.
        stream: The terminal; standard error by default.
    """

    def __init__(self, config: SimulationConfig, stream: TextIO | None = None) -> None:
        self.name = config.name
        self.unit = {"training": "iterations", "serving": "requests"}.get(config.kind, "iterations and requests")
        jobs = [config.job(job) for job in config.jobs or ()] or [config]
        totals = [_total(job) for job in jobs]
        self.total = None if None in totals else sum(total for total in totals if total)
        self.done = 0
        console = Console(file=stream if stream is not None else sys.stderr)
        self._live = Live(
            console=console, transient=True, refresh_per_second=REFRESHES_PER_S, get_renderable=self._line
        )
        self._start = threading.Timer(QUIET_S, self._live.start)
        self._start.daemon = True

    counts_only = True

    def repeated(self, rank: int, count: int, started_s: float, iteration_s: float, like: int) -> None:
        """Count iterations that are not simulated."""
        if rank == 0:
            self.done += count

    def mark(self, rank: int, name: str, now_s: float) -> None:
        """Count an iteration on one of the ranks, which all iterate together."""
        if rank == 0 and name == "iteration_end":
            self.done += 1

    def request_finished(self, request: int, now_s: float) -> None:
        """Count a finished request."""
        self.done += 1

    def request_rejected(self, request: int, reason: str, now_s: float) -> None:
        """Count a finished request."""
        self.done += 1

    def request_cancelled(self, request: int, cancelled: Cancelled) -> None:
        """Count an ended request."""
        self.done += 1

    def __enter__(self) -> Self:
        self._start.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._start.cancel()
        self._start.join()
        self._live.stop()

    def _line(self) -> Text:
        total = f" of {self.total:,}" if self.total else ""
        return Text(f"{escaped(self.name)}: {self.done:,}{total} {self.unit}", no_wrap=True, overflow="ellipsis")


def _total(config: SimulationConfig) -> int | None:
    """Total number of iterations or requests; None if only the trace has it."""
    if config.training is not None:
        return config.training.num_iterations
    return config.workload.num_requests if config.workload is not None else None
