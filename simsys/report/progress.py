"""A line on a terminal that says how far a run is."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Self, TextIO

from simsys.config.experiment import SimulationConfig
from simsys.probes import Probe

QUIET_S = 1.0
"""A run that is over sooner shows nothing."""
INTERVAL_S = 0.2


class Progress(Probe):
    """Counts iterations or requests, and shows the count while it is entered.

    Args:
        config: The scenario that runs.
        stream: The terminal; standard error by default.
    """

    def __init__(self, config: SimulationConfig, stream: TextIO | None = None) -> None:
        self.stream = stream if stream is not None else sys.stderr
        self.name = config.name
        self.unit = "iterations" if config.training else "requests"
        self.total = config.training.num_iterations if config.training else None
        if config.workload is not None:
            self.total = config.workload.num_requests
        self.done = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def mark(self, rank: int, name: str, now_s: float) -> None:
        """An iteration has ended; ranks go on together, so one is counted."""
        if rank == 0 and name == "iteration_end":
            self.done += 1

    def request_finished(self, request: int, now_s: float) -> None:
        """One request more."""
        self.done += 1

    def request_rejected(self, request: int, reason: str, now_s: float) -> None:
        """One request more."""
        self.done += 1

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _show(self) -> None:
        """The thread: waits, then rewrites the line until the run is over, and clears it."""
        started = time.monotonic()
        if self._stop.wait(QUIET_S):
            return
        total = f" of {self.total:,}" if self.total else ""
        try:
            while not self._stop.wait(INTERVAL_S):
                self._write(f"{self.name}: {self.done:,}{total} {self.unit}, {time.monotonic() - started:.0f} s")
            self._write("")
        except (OSError, ValueError):  # the terminal is gone; the run need not know
            return

    def _write(self, text: str) -> None:
        self.stream.write(f"\r\033[K{text[:79]}")
        self.stream.flush()
