"""What replicas have done apart from steps: KV caches sent from one to another, and their coming and going."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from simsys.sums import ordered_sum


class ReplicaLog:
    """Records of the number of replicas.

    Args:
        gpus_per_replica: GPUs of each replica.
    """

    def __init__(self, gpus_per_replica: int = 1) -> None:
        self.gpus_per_replica = gpus_per_replica
        self.transfers = 0
        self.transfer_s = self.transferred_bytes = 0.0
        self.reused_tokens = self.looked_up_tokens = 0
        """Prompt tokens that decode replicas had, and those that they have looked for."""
        self.changes: list[tuple[float, int, int]] = []
        """Times of changes in seconds, numbers of active replicas, and numbers of paid replicas."""

    def transferred(self, seconds: float, nbytes: float) -> None:
        """A KV cache has been sent."""
        self.transfers += 1
        self.transfer_s += seconds
        self.transferred_bytes += nbytes

    def scaled(self, active: int, paid: int, now_s: float) -> None:
        """Record a change of the number of replicas; of simultaneous changes, the last counts."""
        if self.changes and self.changes[-1][0] == now_s:
            self.changes.pop()
        self.changes.append((now_s, active, paid))

    def gpu_seconds(self, end_s: float) -> float:
        """Paid GPU-seconds until the end of the run, including starting replicas."""
        ends_s = [*(min(time_s, end_s) for time_s, _, _ in self.changes), end_s]
        spans_s = (end - start for start, end in pairwise(ends_s))
        paid = (paid for _, _, paid in self.changes)
        return self.gpus_per_replica * ordered_sum(map(float.__mul__, spans_s, map(float, paid)))

    def metrics(self, end_s: float) -> dict[str, Any]:
        """Metrics of the number of replicas."""
        found: dict[str, Any] = {}
        if self.transfers:
            found["kv_transferred_bytes"] = self.transferred_bytes
            found["mean_kv_transfer_ms"] = self.transfer_s / self.transfers * 1e3
        if self.looked_up_tokens:
            found["kv_reused_share"] = self.reused_tokens / self.looked_up_tokens
        if self.changes:
            found["gpu_seconds"] = self.gpu_seconds(end_s)
        return found

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row per change of the number of replicas; none if they stay."""
        if not self.changes:
            return {}
        times_s, active, paid = zip(*self.changes, strict=True)
        return {"time_s": list(times_s), "active": list(active), "paid": list(paid)}
