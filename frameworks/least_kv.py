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
        chosen = free_at_most.index(max(free_at_most))
        best = replicas[chosen].free_blocks(), -replicas[chosen].outstanding, -chosen
        others = [place for place, free in enumerate(free_at_most) if free >= best[0] and place != chosen]
        for place in sorted(others, key=free_at_most.__getitem__, reverse=True):
            if free_at_most[place] < best[0]:
                break
            replica = replicas[place]
            best = max(best, (replica.free_blocks(), -replica.outstanding, -place))
        return replicas[-best[2]]
