"""Something recorded during a run that is written to a file of its own."""

from __future__ import annotations

from typing import Protocol, TextIO

from simsys.metrics.result import RunResult
from simsys.probes import Probe


class Record(Protocol):
    """A trace or an event history of one run."""

    @property
    def name(self) -> str:
        """How the name of the file ends; before it comes that of the scenario."""
        ...

    @property
    def probe(self) -> Probe:
        """The observer of the run."""
        ...

    def write(self, result: RunResult, file: TextIO) -> int:
        """Write the file after the run; return the number of events in it."""
        ...

    def left_out(self) -> list[str]:
        """What the file does not show, as sentences."""
        ...
