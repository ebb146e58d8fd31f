"""A router that spares full KV caches."""

from __future__ import annotations

from simsys.framework import Engine, Router, register


@register("least_kv")
class LeastKV(Router):
    """The replica with the most KV blocks free; of several, the one with the fewest requests."""

    def route(self, request: int) -> Engine:
        """Compare what is free."""
        return max(self.replicas, key=lambda replica: (replica.free_blocks(), -replica.outstanding))
