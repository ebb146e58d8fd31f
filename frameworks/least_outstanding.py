"""A router that joins the shortest queue."""

from __future__ import annotations

from simsys.framework import Engine, Router, register


@register("least_outstanding")
class LeastOutstanding(Router):
    """The replica with the fewest requests, waiting and running; of several, the first."""

    def route(self, request: int) -> Engine:
        """Count."""
        counts = [replica.outstanding for replica in self.replicas]
        return self.replicas[counts.index(min(counts))]
