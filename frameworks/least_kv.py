"""A router that spares full KV caches."""

from __future__ import annotations

from operator import attrgetter

from simsys.framework import Engine, Router, register

FREE_AT_MOST, OUTSTANDING = attrgetter("kv.free_blocks"), attrgetter("outstanding")


@register("least_kv")
class LeastKV(Router):
    """The replica with the most free KV blocks; on a tie, the one with the fewest requests."""

    def route(self, request: int) -> Engine:
        """Compare free blocks now, while another replica may have more; use grows until the end of a run."""
        replicas = self.replicas
        free_at_most = list(map(FREE_AT_MOST, replicas))
        most, best = -1, list[int]()
        while (free := max(free_at_most)) >= most:
            place = free_at_most.index(free)
            free_at_most[place] = -2
            free = replicas[place].free_blocks()
            if free > most:
                most, best = free, [place]
            elif free == most:
                best.append(place)
        return min((replicas[place] for place in sorted(best)), key=OUTSTANDING)
