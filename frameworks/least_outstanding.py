"""A router that joins the shortest queue."""

from __future__ import annotations

from operator import attrgetter

from simsys.framework import Engine, Router, register


@register("least_outstanding")
class LeastOutstanding(Router):
    """The replica with the fewest requests, waiting and running; of several, the first."""

    def route(self, request: int) -> Engine:
        """Count."""
        return min(self.replicas, key=attrgetter("outstanding"))
