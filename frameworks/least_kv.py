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
        best, chosen = (-1, 0, 0), 0
        for place in sorted(range(len(replicas)), key=free_at_most.__getitem__, reverse=True):
            if free_at_most[place] < best[0]:
                break
            replica = replicas[place]
            found = replica.free_blocks(), -replica.outstanding, -place
            if found > best:
                best, chosen = found, place
        return replicas[chosen]
