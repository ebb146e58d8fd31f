"""A router that chooses at random."""

from __future__ import annotations

from simsys.framework import Engine, Router, register


@register("random")
class Random(Router):
    """Any replica, each with the same probability."""

    def route(self, request: int) -> Engine:
        """One that is drawn from the stream `router`."""
        return self.replicas[int(self.draw() * len(self.replicas))]
