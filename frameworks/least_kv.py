"""A router that spares full KV caches."""

from __future__ import annotations

from simsys.framework import Engine, Router, register


@register("least_kv")
class LeastKV(Router):
    """The replica with the most free KV blocks; on a tie, the one with the fewest requests."""

    def route(self, request: int) -> Engine:
        """Compare free blocks now, while another replica may have more; use grows until the end of a run."""
        replicas = self.replicas
        free_at_most = [replica.kv.free_blocks for replica in replicas]
        best = (-1, 0, 0)
        while (free := max(free_at_most)) >= best[0]:
            place = free_at_most.index(free)
            replica, free_at_most[place] = replicas[place], -2
            free = replica.free_blocks()
            if free >= best[0]:
                best = max(best, (free, -replica.outstanding, -place))
        return replicas[-best[2]]
