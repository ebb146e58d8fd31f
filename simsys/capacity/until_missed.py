"""The rule that ends a serving run when too many requests have missed their targets for it to meet its SLO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simsys.metrics.latencies import Latencies
from simsys.metrics.serving_log import ServingLog
from simsys.metrics.slo import ATTAINMENT, targets_s
from simsys.serving.requests import RequestTable

FIRST_S, FURTHER = 1.0, 0.1
"""Time from the first arrival to the first decision, and from one to the next as a share of the time that passed."""


class UntilMissed:
    """Counts the requests that have missed a target, or will: what is late already does not become earlier.

    A run that it does not end has the same metrics as one without it.

    Args:
        slo: Targets and attainment (`serving_metrics`).
    """

    def __init__(self, slo: Mapping[str, float]) -> None:
        self._targets_s, self._share = targets_s(slo), slo.get(ATTAINMENT, 1.0)
        self.missed = False
        """Whether it has ended the run."""

    def watch(self, log: ServingLog) -> None:
        """Begin."""
        self.log, self.missed = log, False
        self._most = len(log.requests) * (1.0 - self._share) + 1e-9

    def first_s(self, requests: RequestTable) -> float:
        """Soon after the first request, which comes at once in a closed loop."""
        self._began_s = 0.0 if requests.concurrency else requests.arrival_s[0]
        return self._began_s + FIRST_S

    def later_s(self, now_s: float) -> float | None:
        """The time of the next decision; None if the run is known to miss its SLO."""
        self.missed = bool(self._targets_s) and self._misses(now_s) > self._most
        return None if self.missed else now_s + FURTHER * (now_s - self._began_s)

    def _misses(self, now_s: float) -> int:
        """Number of requests that do not meet all targets, whatever comes."""
        import numpy as np

        log = self.log
        arrived_s, first_s, end_s = log.arrived_s, np.asarray(log.first_token_s), log.left_s
        rows: dict[str, Any] = {
            "arrival_s": arrived_s,
            "first_token_s": np.where(first_s < 0.0, now_s, first_s),
            "finished_s": np.where(end_s < 0.0, now_s, end_s),
            "output_tokens": log.requests.output_tokens,
        }
        at_best = Latencies(rows)
        late = np.zeros(arrived_s.size, dtype=bool)
        for name, target_s in self._targets_s.items():
            late |= getattr(at_best, f"{name}_s") > target_s
        late &= (arrived_s >= 0.0) & (arrived_s <= now_s)
        late[[*log.rejected, *log.cancelled]] = True
        return int(late.sum())
