"""A router that spares full KV caches."""

from __future__ import annotations

from operator import attrgetter

from simsys.framework import Engine, Router, register

FREE_AT_MOST = attrgetter("kv.free_blocks")


@register("least_kv")
class LeastKV(Router):
    """The replica with the most free KV blocks; on a tie, the one with the fewest requests."""

    def route(self, request: int) -> Engine:
        """Compare free blocks now, while another replica may have more; use grows until the end of a run."""
        replicas = self.replicas
        free_at_most = list(map(FREE_AT_MOST, replicas))
        best = (-1, 0, 0)
        while (free := max(free_at_most)) >= best[0]:
            place = free_at_most.index(free)
            replica, free_at_most[place] = replicas[place], -2
            best = max(best, (replica.free_blocks(), -replica.outstanding, -place))
        return replicas[-best[2]]
