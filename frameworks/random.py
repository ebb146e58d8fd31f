"""A router that chooses at random."""

from __future__ import annotations

from simsys.framework import Replica, Router, register


@register("random")
class Random(Router):
    """Any replica, each with the same probability."""

    inlined = True

    def route(self, request: int) -> Replica:
        """One that is drawn from the stream `router`."""
        return self.replicas[int(self.draw() * len(self.replicas))]
