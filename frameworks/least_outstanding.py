"""A router that joins the shortest queue."""

from __future__ import annotations

from simsys.framework import Engine, Router, register


@register("least_outstanding")
class LeastOutstanding(Router):
    """Routes to the replica with the fewest requests; on a tie, to the first."""

    def route(self, request: int) -> Engine:
        """The replica with the fewest waiting and running requests."""
        counts = [replica.outstanding for replica in self.replicas]
        return self.replicas[counts.index(min(counts))]
