"""When a serving run ends that is not ended by its last request, nor at a time given beforehand."""

from __future__ import annotations

from typing import Protocol

from simsys.metrics.serving_log import ServingLog
from simsys.serving.requests import RequestTable


class StopRule(Protocol):
    """Decides on the way when a run ends."""

    def watch(self, log: ServingLog) -> None:
        """Observe a run from its start.

        Args:
            log: The log of its requests, which the run fills; steps are reported late.
        """

    def first_s(self, requests: RequestTable) -> float:
        """The first time at which to decide."""

    def later_s(self, now_s: float) -> float | None:
        """A later time at which to decide again; None to end the run now."""
