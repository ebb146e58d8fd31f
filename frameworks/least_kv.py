"""A router that spares full KV caches."""

from __future__ import annotations

from typing import Any

from simsys.framework import Engine, Router, register


@register("least_kv")
class LeastKV(Router):
    """The replica with the most free KV blocks; on a tie, the one with the fewest requests."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.order = list[int]()  # places of the replicas as sorted last, since what is nearly sorted is sorted fast

    def route(self, request: int) -> Engine:
        """Compare free blocks now, while another replica may have more; use grows until the end of a run."""
        replicas, order = self.replicas, self.order
        free_at_most = [replica.kv.free_blocks for replica in replicas]
        if len(order) != len(replicas):
            order[:] = range(len(replicas))
        order.sort(key=free_at_most.__getitem__, reverse=True)
        best = (-1, 0, 0)
        for place in order:
            if free_at_most[place] < best[0]:
                break
            replica = replicas[place]
            free = replica.free_blocks()
            if free >= best[0]:
                best = max(best, (free, -replica.outstanding, -place))
        return replicas[-best[2]]
